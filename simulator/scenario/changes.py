"""Changes of a scenario: `key=value` texts of the command line, values from Python, copies with one thing changed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, TypeAlias, TypeVar

from simulator.component import Spec
from simulator.errors import InputError, Problem, format_value
from simulator.hardware.gpu import Gpu
from simulator.hardware.widths import fill_costs
from simulator.loading.replacing import parse_setting
from simulator.models.curves import Affine, Curve, NLogN
from simulator.models.layers import Workload
from simulator.models.small_cache import ResultsOfObjects
from simulator.records import Record
from simulator.scenario.named_parts import read_runtime
from simulator.scenario.scenario import Scenario
from simulator.units import SiFloat, SiInt

Overrides: TypeAlias = Sequence[str] | Mapping[str, Any]
"""Texts such as `cluster.nodes=16`; or values by dotted key, where mappings may stand for the keys below."""
_WHOLE = ("kind", "trace", "model")
"""Keys that say what a part is: a mapping with one of them, or with a list of layers, takes the place of the part."""
_PLAIN = ("versus", "measured")
"""Keys of a scenario whose mappings are values."""


class Override(Record):
    """One key and its new value; `text` is how the command line writes both, `where` what messages call the key."""

    key: str
    value: Any
    text: str
    where: str


def read_overrides(overrides: Overrides) -> list[Override]:
    """Every key that changes, in order. Raises InputError for what is not `key=value`, or has no text as its key."""
    if isinstance(overrides, Mapping):
        return list(_flatten(overrides, ""))
    parsed = ((text, *parse_setting(text, "sparsifier.density=0.01")) for text in overrides)
    return [Override(key, value, text, f"--set {key}") for text, key, value in parsed]


def _flatten(changes: Mapping[Any, Any], above: str) -> Iterator[Override]:
    """Dotted keys of nested mappings; a mapping that says what a part is stays whole."""
    for name, value in changes.items():
        if not isinstance(name, str) or not name:
            raise InputError(Problem(above or "the scenario", "keys that are texts", format_value(name)))
        key = f"{above}.{name}" if above else name
        if isinstance(value, Mapping) and value and not _says_what_it_is(value) and key not in _PLAIN:
            yield from _flatten(value, key)
        else:
            yield Override(key, as_data(value), f"{key}={_as_text(value)}", key)


def _says_what_it_is(part: Mapping[Any, Any]) -> bool:
    """Whether a mapping describes a whole part; a number of layers changes a model that is described already."""
    return any(word in part for word in _WHOLE) or isinstance(part.get("layers"), list | tuple | str)


def as_data(value: Any) -> Any:
    """A value from Python as a document has it: plain containers, paths as texts, and numbers marked as being in SI.

    >>> as_data({"nodes": 2, "links": ({"factor": 0.5},)})
    {'nodes': 2, 'links': [{'factor': 0.5}]}
    """
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): as_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_data(item) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return SiInt(value) if isinstance(value, Integral) else SiFloat(value)


def _as_text(value: Any) -> str:
    """A value as the command line writes it.

    >>> _as_text(16), _as_text(True), _as_text({"kind": "topk", "density": 0.01}), _as_text("1 Gbit/s")
    ('16', 'true', '{kind: topk, density: 0.01}', '1 Gbit/s')
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_as_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_as_text, value)) + "]"
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, Real):
        return str(int(value)) if isinstance(value, Integral) else f"{float(value):.12g}"
    described = getattr(value, "described", None)
    return _as_text(described("json")) if described is not None else str(getattr(value, "name", value))


INFINITE = 1e18
"""Bytes per second that stand for an infinite bandwidth."""
AnySpec = TypeVar("AnySpec", bound=Spec)


def with_value(spec: AnySpec, key: str, value: Any) -> AnySpec:
    """A copy with the dotted `key` set to a value that is already validated."""
    head, _, rest = key.partition(".")
    return spec.model_copy(update={head: with_value(getattr(spec, head), rest, value) if rest else value})


def with_runtime(scenario: Scenario, name: str) -> Scenario:
    """The scenario with the software of this name or file on its GPUs. Raises InputError where there is none."""
    runtime = fill_costs(read_runtime(name), scenario.cluster.gpu.framework)
    return with_value(scenario, "cluster.runtime", runtime)


def value_at(spec: Spec, key: str) -> Any:
    """The value at a dotted key; None where the key does not exist."""
    value: Any = spec
    for part in key.split("."):
        value = getattr(value, part, None)
    return value


def without_randomness(scenario: Scenario) -> Scenario:
    """Without differences from iteration to iteration, so that one iteration represents all; itself without any."""
    cluster = scenario.cluster
    others = tuple(with_value(item, "gpu", without_spread(item.gpu)) for item in cluster.other_gpus)
    changes = {"gpu": without_spread(cluster.gpu), "other_gpus": others}
    if not cluster.stragglers.jitter and all(getattr(cluster, name) == value for name, value in changes.items()):
        return scenario
    changes["stragglers"] = cluster.stragglers.model_copy(update={"jitter": 0.0})
    return with_value(scenario, "cluster", cluster.model_copy(update=changes))


def without_measured_collectives(scenario: Scenario) -> Scenario:
    """By the link law alone: a measured collective holds at one bandwidth and latency only."""
    return with_value(scenario, "cluster.network.measured", ())


def without_spread(gpu: Gpu) -> Gpu:
    """The GPU with kernels that always take the same time."""
    if not any(curve.spread for curve in gpu.kernels.values()):
        return gpu
    kernels = {name: curve.model_copy(update={"spread": 0.0}) for name, curve in gpu.kernels.items()}
    return gpu.model_copy(update={"kernels": kernels})


def scale_curve(curve: Curve, factor: float) -> Curve:
    """The curve with every time multiplied by `factor`."""
    if isinstance(curve, Affine | NLogN):
        keys = ("intercept", "slope" if isinstance(curve, Affine) else "coefficient")
        return curve.model_copy(update={key: getattr(curve, key) * factor for key in keys})
    return curve.model_copy(update={"points": tuple((size, seconds * factor) for size, seconds in curve.points)})


def scale_compute(scenario: Scenario, factor: float) -> Scenario:
    """The scenario whose model computes `factor` times as long on one GPU, its host's launches included."""
    workload = scenario.workload
    made = changed_workloads.get((workload,), lambda: _scale(workload, factor), factor)
    return with_value(scenario, "workload", made)


changed_workloads: ResultsOfObjects[Workload] = ResultsOfObjects(16)
"""Workloads with all of their layers changed, which predictions with one model have in common."""


def _scale(workload: Workload, factor: float) -> Workload:
    if workload.compute_time is not None:
        return with_value(workload, "compute_time", workload.compute_time * factor)
    return workload.scaled(factor, factor)
