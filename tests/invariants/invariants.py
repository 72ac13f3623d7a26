"""What must hold for every valid scenario; each function yields what does not, in words."""

import hashlib
import json
import math
import re

from pydantic import ValidationError

from examples import example
from simulator.component import discover
from simulator.errors import InputError
from simulator.hardware.kernels import KERNELS
from simulator.models.curves import Affine, NLogN
from simulator.prediction.run import run
from simulator.scenario.scenario import Scenario
from simulator.schedulers.base import Scheduler

QUANTITY = re.compile(r"([-+.\de]+) (s|B/s|FLOP/s|Hz|B)")
SLOWER = {"s": 2.0, "B/s": 0.5, "FLOP/s": 0.5, "Hz": 0.5, "B": 1.0}
OTHER_UNITS = {"B/s": ("bit/s", 8.0), "B": ("KiB", 2.0**-10)}
OWN_CONSTANTS = ("nccl",)
"""Topologies with times of their own, which a scenario does not state and which do not scale with it."""
SCHEDULERS = {kind: example(Scheduler, kind) for kind in discover(Scheduler)}
BY_RULE = {kind for kind, found in SCHEDULERS.items() if found.reads_costs or found.queue.by_priority}
"""Schedulers under which a better network can be slower (DESIGN.md, invariant 3)."""


def predicted(spec, intervals=False):
    """The result document; None where the parts refuse to work together."""
    try:
        return run(spec, intervals=intervals).document
    except InputError:
        return None


def validated(mapping):
    """The scenario of a mapping; None where it is refused."""
    try:
        return Scenario.model_validate(mapping)
    except (InputError, ValidationError):
        return None


def digest(document):
    """What two processes must agree on, to the last digit."""
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()[:16]


def numbers(value, where=""):
    """Every number of a document, with its place."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(item, f"{where}.{key}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from numbers(item, f"{where}[{place}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield where, value


def alike(one, other, tolerance):
    """Places at which the times of two documents differ by more than a relative tolerance."""
    keys = ("iteration_time_s", "breakdown_s", "communication_total_s", "waiting_s")
    scale = one["iteration_time_s"]
    for key in keys:
        for (where, first), (_, second) in zip(numbers(one[key], key), numbers(other[key], key), strict=True):
            if abs(first - second) > tolerance * scale:
                yield f"{where}: {first!r} and {second!r}"


def rewritten(data, change):
    """A resolved scenario with every quantity changed by `change(number, unit)`, a text."""
    if isinstance(data, dict):
        return {key: rewritten(item, change) for key, item in data.items()}
    if isinstance(data, list):
        return [rewritten(item, change) for item in data]
    match = QUANTITY.fullmatch(data) if isinstance(data, str) else None
    return data if match is None else change(float(match[1]), match[2])


def is_sound(spec, result):
    """Finite, not negative, and adding up; no link carries more than it can."""
    for where, number in numbers(result):
        if not math.isfinite(number) or (number < 0 and not where.startswith(".calibration")):
            yield f"{where} is {number}"
    time, parts = result["iteration_time_s"], result["breakdown_s"]
    if not math.isclose(math.fsum(parts.values()), time, rel_tol=1e-9):
        yield f"the breakdown sums to {math.fsum(parts.values())!r}, the iteration takes {time!r}"
    if parts["communication_exposed"] > result["communication_total_s"] * (1 + 1e-9) + 1e-12 * time:
        yield f"{parts['communication_exposed']} s of communication are exposed, of {result['communication_total_s']}"
    for low, high in result["intervals_s"].values():
        if not low <= time * (1 + 1e-12) or not time <= high * (1 + 1e-12):
            yield f"{time} is not between {low} and {high}"
    yield from links_hold(spec, result)
    if spec.cluster.workers == 1 and (result["traffic"]["total_bytes"] or result["communication_total_s"]):
        yield "one worker communicates"


def links_hold(spec, result):
    """No link is busy for more than all of the time, but for what its token bucket held."""
    burst, time = getattr(spec.cluster.network, "burst", 0.0), result["iteration_time_s"]
    for link in result["links"]:
        full = link["bytes"] / link["utilisation"] / time if link["utilisation"] else math.inf
        if link["utilisation"] > 1 + 1e-9 + burst / (full * time if full * time else math.inf):
            yield f"{link['name']} is busy {100 * link['utilisation']:.6g} %"


def is_above_compute(spec, result):
    """Nothing is faster than the fastest worker's compute."""
    cluster = spec.cluster
    if cluster.stragglers.jitter or cluster.other_gpus or cluster.stragglers.slow:
        return
    if result["scaling_efficiency"] is not None and result["scaling_efficiency"] > 1 + 1e-9:
        yield f"the scaling efficiency is {result['scaling_efficiency']!r}"
    if cluster.loading is not None:
        loading = spec.workload.batch_size * cluster.gpus_per_node / cluster.loading.rate
        if result["iteration_time_s"] < loading * (1 - 1e-9):
            yield f"the batches take {loading!r}, the iteration {result['iteration_time_s']!r}"


def flows_agree(spec, result):
    """The fold's answer is that of flows, wherever `auto` folds."""
    if result["fidelity"]["tier"] != "fold" or spec.cluster.workers == 1:
        return
    flowed = predicted(spec.model_copy(update={"fidelity": "flows"}))
    if flowed is not None:
        yield from (f"fold and flows: {item}" for item in alike(result, flowed, 1e-9))


def with_stated_times(spec):
    """The scenario with a curve for every kernel: estimates of those without one have start-ups that do not scale."""
    cluster = spec.cluster
    others = tuple(item.model_copy(update={"gpu": with_stated_kernels(item.gpu)}) for item in cluster.other_gpus)
    cluster = cluster.model_copy(update={"gpu": with_stated_kernels(cluster.gpu), "other_gpus": others})
    return spec.model_copy(update={"cluster": cluster, "workload": spec.workload.made_from(None)})


def with_stated_kernels(gpu):
    """The GPU with a curve for every kernel, none of which is interpolated by logarithms."""
    if gpu.ideal:
        return gpu
    curves = {name: gpu.curve(name) or gpu.estimate(name).curve for name in KERNELS}
    exact = {name: curve if isinstance(curve, Affine | NLogN) else Affine(slope=1e-9) for name, curve in curves.items()}
    return gpu.model_copy(update={"kernels": {**exact, "elementwise": Affine(slope=1e-11)}})


def time_scales(spec, result):
    """All times doubled and all rates halved: the iteration takes exactly twice as long."""
    if any(item.kind in OWN_CONSTANTS for item in (spec.topology, *(job.topology for job in spec.other_jobs))):
        return
    spec = with_stated_times(spec)
    result = predicted(spec)
    if result is None:
        return
    mapping = rewritten(spec.resolved(), lambda number, unit: f"{number * SLOWER[unit]!r} {unit}")
    if spec.cluster.loading is not None:
        mapping["cluster"]["loading"]["rate"] /= 2
    slower = predicted(Scenario.model_validate(mapping, context={"units_required": True}))
    if slower is None:
        yield "refused when all times are doubled"
    elif slower["iteration_time_s"] != 2 * result["iteration_time_s"]:
        yield f"doubled: {slower['iteration_time_s']!r} is not twice {result['iteration_time_s']!r}"


def units_agree(spec, result):
    """The same quantities in other units are the same scenario, to the last digit."""

    def change(number, unit):
        other, factor = OTHER_UNITS.get(unit, (unit, 1.0))
        return f"{number * factor!r} {other}"

    again = Scenario.model_validate(rewritten(spec.resolved(), change), context={"units_required": True})
    other = predicted(again)
    if other is None or other["iteration_time_s"] != result["iteration_time_s"]:
        yield f"other units: {other and other['iteration_time_s']!r} instead of {result['iteration_time_s']!r}"
    if again.digest != spec.digest:
        yield "other units: another digest"


def chosen(result):
    """What a library chose, and how many calls there are."""
    return [(item["primitive"], item["algorithm"], item["calls"]) for item in result["collectives"]]


def better_is_not_slower(spec, result):
    """A network with more bandwidth, or with less latency, does not make the iteration longer.

    Where several exchanges share links, what ends sooner may let another one in at a worse time, as under a scheduler
    by priority. Where messages of one exchange share links, one that starts earlier takes its share from another, for
    which others may wait, so that fair sharing is not monotonic either (Graham's anomalies of 1969); that costs a small
    part of the iteration. Where the host takes time for every message besides, they are done one by one, in an order
    that the times decide, and it may cost any part.
    The wait for data is that of workers that keep to their mean: where each does local steps of its own, a longer wait
    costs slow and fast ones different parts of their periods. Where an exchange goes on in the next period and paces
    vary, what is measured may wait for one that began in the warm-up, so that all periods are measured from the start.
    """
    followed = result["fidelity"]["tier"] != "fold"
    if followed and spec.cluster.runtime.message_overhead:
        return
    period = spec.scheduler.period
    apart = spec.cluster.loading and period is not None and not period.together
    if period is not None and spec.scheduler.kind == "overlapped_diloco" and spec.warmup:
        spec = spec.model_copy(update={"warmup": 0, "iterations": spec.warmup + spec.iterations})
        result = predicted(spec)
    most = 1 + (0.01 if followed or apart else 1e-9)
    several = spec.scheduler.streams > 1 or spec.other_jobs or spec.cluster.background
    if spec.scheduler.kind in BY_RULE or several:
        return
    network = spec.cluster.network
    for change in ({"bandwidth": 2 * network.bandwidth}, {"latency": network.latency / 2}):
        cluster = spec.cluster.model_copy(update={"network": network.model_copy(update=change)})
        faster = predicted(spec.model_copy(update={"cluster": cluster}))
        if faster is None or chosen(faster) != chosen(result):
            continue
        if faster["iteration_time_s"] > result["iteration_time_s"] * most:
            yield f"{change}: {faster['iteration_time_s']!r} instead of {result['iteration_time_s']!r}"


def asked_fold_holds(spec, result):
    """A fold that is asked for is refused, or no link carries more than it can."""
    if result["fidelity"]["tier"] == "fold":
        return
    folded = predicted(spec.model_copy(update={"fidelity": "fold"}))
    if folded is not None:
        yield from (f"fold, as asked: {item}" for item in links_hold(spec, folded))


ALWAYS = (is_sound, is_above_compute)
IN_TURN = (flows_agree, time_scales, units_agree, better_is_not_slower, asked_fold_holds)
