"""Keys of a result and columns of a sweep in words: the label, the kind of quantity, and the meaning of each."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from simulator.models.timeline import TERM_LABELS
from simulator.prediction.memory.parts import PART_LABELS
from simulator.prediction.result import column_keys
from simulator.reporting.wording.values import format_share, format_value


class QuantityWords(NamedTuple):
    """A quantity in words: its label, its kind (`values.KINDS`), and what it is."""

    label: str
    kind: str
    about: str


_KNOWN = {
    "iteration_time_s": ("iteration time", "time"),
    "iteration_time_interval_s.p5": ("90 % interval, from", "time"),
    "iteration_time_interval_s.p95": ("90 % interval, to", "time"),
    "throughput_samples_per_s": ("throughput (samples/s)", "number"),
    "scaling_efficiency": ("scaling efficiency", "share"),
    "communication_total_s": ("exposed and hidden communication", "time"),
    "waiting_s": ("waiting for the slowest worker, in all collectives", "time"),
    "traffic.sent_bytes_per_worker": ("sent per worker", "bytes"),
    "traffic.sent_bytes_per_worker_max": ("sent by the busiest worker", "bytes"),
    "traffic.total_bytes": ("sent by all workers and servers", "bytes"),
    "traffic.busiest_link.bytes": ("bytes over the busiest link", "bytes"),
    "traffic.busiest_link.utilisation": ("utilisation of the busiest link", "share"),
    "density.target": ("target density", "share"),
    "density.selected": ("selected density", "share"),
    "density.aggregated": ("aggregated density", "share"),
    "density.build_up": ("build-up", "number"),
    "density.padding": ("padding", "number"),
    "period.compute_utilisation": ("compute utilisation", "share"),
    "period.time_s": ("time of a period of local steps", "time"),
    "period.synchronisation_s": ("exchange of a period", "time"),
    "memory.least_bytes": ("memory, from", "bytes"),
    "memory.most_bytes": ("memory, to", "bytes"),
    "elastic.iteration_time_s": ("iteration time with all losses", "time"),
    "scheduler.inner_steps": ("local steps", "count"),
    "speed_up": ("speed-up over dense", "number"),
    "speed_up_interval.p5": ("speed-up, from", "number"),
    "speed_up_interval.p95": ("speed-up, to", "number"),
    "probability": ("probability to pay", "number"),
    "verdict": ("pays", "text"),
    "workers": ("workers", "count"),
    "precision": ("precision", "text"),
    "fidelity.tier": ("fidelity", "text"),
    "digest": ("digest", "text"),
}
_ABOUT = {
    "iteration_time_interval_s.p5": "5th percentile of the iteration time",
    "iteration_time_interval_s.p95": "95th percentile of the iteration time",
}
_UNITS = (("_bytes_per_s", "bandwidth"), ("_bytes", "bytes"), ("_s", "time"))


def describe(key: str) -> QuantityWords:
    """A key of a result, or a column of a sweep, in words.

    >>> describe("cluster.network.bandwidth_bytes_per_s").label, describe("breakdown_s.selection").kind
    ('network bandwidth', 'time')
    """
    about = _ABOUT.get(key) or (column_keys()[key].what.replace("`", "") if key in column_keys() else "varied")
    if key in _KNOWN:
        return QuantityWords(*_KNOWN[key], about)
    part, _, term = key.partition(".")
    if part in ("breakdown_s", "idle_s"):
        return QuantityWords(TERM_LABELS.get(term, term), "time", about)
    if term.startswith("parts_bytes."):
        return QuantityWords(PART_LABELS[term.removeprefix("parts_bytes.")], "bytes", about)
    last = key.removeprefix("cluster.").removeprefix("period.").removeprefix("elastic.")
    for suffix, kind in _UNITS:
        if last.endswith(suffix):
            return QuantityWords(_as_words(last.removesuffix(suffix)), kind, about)
    return QuantityWords(_as_words(last), "percent" if last.endswith(".density") else "number", about)


def method_name(value: Any) -> str:
    """A sparsifier, or another part of a scenario, as a legend names it, from its kind or its JSON.

    >>> [method_name(item) for item in ("topk", '{"kind": "topk", "density": 0.01}', '{"kind": "qsgd", "bits": 4}')]
    ['topk', 'topk 1 %', 'qsgd bits 4']
    """
    text = str(value)
    if not text.startswith("{"):
        return text
    try:
        content = json.loads(text)
    except ValueError:
        return text
    parts = [str(content.pop("kind", ""))]
    density = content.pop("density", None)
    if density is not None:
        parts.append(format_share(density) if isinstance(density, int | float) else str(density))
    return " ".join([*parts, *(f"{key} {item}" for key, item in content.items())])


def format_varied(column: str, value: Any) -> str:
    """A value of a varied column: a number with its unit, anything else as `method_name` does.

    >>> format_varied("cluster.network.bandwidth_bytes_per_s", 1.25e9), format_varied("topology", "ring")
    ('10 Gbit/s', 'ring')
    """
    import pandas as pd  # heavy, and only for figures and pages

    if pd.isna(value):
        return "–"
    return format_value(describe(column).kind, value) if pd.api.types.is_number(value) else method_name(value)


def last_word(column: str) -> str:
    """The last part of a varied key, without its unit.

    >>> last_word("scheduler.partition_bytes"), last_word("cluster.network.bandwidth_bytes_per_s")
    ('partition', 'bandwidth')
    """
    return describe(column.rpartition(".")[2]).label


def _as_words(name: str) -> str:
    return name.replace(".", " ").replace("_", " ")
