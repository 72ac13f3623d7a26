"""Doubts about the training framework: costs that it states, those that nobody measured of it, slowed compute."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from simulator.engine.clock.numbers import ALIKE
from simulator.engine.clock.run_points import times_of
from simulator.engine.plan.plan import Plan
from simulator.hardware.gpu import Gpu
from simulator.hardware.kernels import HOST_KERNELS
from simulator.hardware.runtime import RUNTIME_COSTS, Runtime, Way
from simulator.hardware.slowdown import spread_between_models
from simulator.hardware.widths import FACTOR_COSTS, constant_width, costs_paid, largest_known, same_device
from simulator.models.widths import mape_of_width
from simulator.prediction.doubts.doubt import FACTORS, Doubt, Measurement, Said, Sentence, seconds_at_ends
from simulator.prediction.doubts.sentences import Reader
from simulator.prediction.simulated import Simulated
from simulator.records import replace
from simulator.scenario.changes import with_value
from simulator.scenario.scenario import Scenario
from simulator.units import show_bytes

MINUTES = 10.0
"""Some iterations on two workers, from which `sparsim calibrate runtime` fits a cost."""
STATED, ABSENT = "cost of software", "cost of software, not measured"
"""What costs are called that the runtime does not state: they are taken as 0."""
_ANY = 10.0
"""Width of a cost of 0, for which no factor says anything: its upper end is a value of its own."""
_COSTS, _ABSENT, _SLOWED = 2, 3, 4
"""Places of what is said of the software, among sentences of one size."""
_OF_ONE_WORKER = ("kernel_launch", "host_read")


def doubt_software(made: Simulated, slowed: float) -> Iterator[Doubt]:
    """Doubts about every cost of the runtime that takes part in the iteration, and about the slowdown of compute, by
    which the iteration is `slowed` (s)."""
    scenario, plan, breakdown = made.scenario, made.plan, made.figures.timed
    cluster = scenario.cluster
    runtime, gpu, network = cluster.runtime, cluster.gpu, cluster.network
    way = network.way(cluster.nodes)
    on_host = {HOST_KERNELS[kernel] for kernel in plan.work.kernels if kernel in HOST_KERNELS}
    for name, cost in _costs_of(runtime, gpu, way, on_host):
        if cluster.workers > 1 or name in _OF_ONE_WORKER:
            yield cost.with_seconds(*_first_order(name, cost, scenario, plan, breakdown))
    if is_slowdown_unknown(scenario, plan):
        yield _slowdown(scenario, plan.slowdown, slowed)


def remark_on_software(reader: Reader) -> Iterator[Sentence]:
    """That the runtime was fitted elsewhere, and that the slowdown of compute is not known."""
    scenario, plan = reader.simulated.scenario, reader.simulated.plan
    cluster = scenario.cluster
    if text := _describe_way(cluster.runtime, cluster.network.way(cluster.nodes)):
        yield _costs_sentence(cluster.runtime, text)
    if is_slowdown_unknown(scenario, plan):
        yield _describe_slowdown(cluster.runtime, plan.slowdown, slowdown_spread(scenario))


def _costs_of(runtime: Runtime, gpu: Gpu, way: Way, on_host: Collection[str]) -> Iterator[tuple[str, Doubt]]:
    """Doubts about the costs that a runtime states over a way, and about those that arise without being stated, such as
    `on_host` of what the method does on the CPU; without seconds."""
    here, paid = runtime.over(way), {*costs_paid(runtime, gpu.framework), *on_host}
    costs = _costs_sentence(runtime, _describe_way(runtime, way))
    why = f": taken as 0, since nobody measured it for {runtime.name}, and sized by the largest of other set-ups"
    nothing = Sentence(after=why, terms=None, less=0.0, place=_ABSENT)
    for name in FACTOR_COSTS:
        if getattr(here, name):
            yield name, _stated(name, runtime, gpu, way, costs)
        elif name in paid and name not in runtime.fitted_rows:
            yield name, _absent(name, runtime, nothing)


def _costs_sentence(runtime: Runtime, elsewhere: str) -> Sentence:
    """That the costs were fitted elsewhere, or else which of them were not measured."""
    return Sentence(elsewhere, f"not measured for {runtime.name}: ", f" ({FACTORS})", place=_COSTS)


def _stated(name: str, runtime: Runtime, gpu: Gpu, way: Way, sentence: Sentence) -> Doubt:
    """A cost that the runtime states, with its width over this way."""
    known = constant_width(runtime, name, way, gpu.device)
    width = known.width
    called = "" if sentence.text else f"{RUNTIME_COSTS[name].label} ({width:.2g})"

    def change(changed: Scenario, end: float) -> Scenario:
        here = changed.cluster.runtime.over(way)
        factor = width ** (-end if RUNTIME_COSTS[name].unit == "B/s" else end)
        return with_value(changed, "cluster.runtime", here.model_copy(update={name: getattr(here, name) * factor}))

    said = () if known.level == "measured" else (Said(sentence, called),)
    mape, settle = mape_of_width(width), _measurement(name)
    key = STATED, f"{runtime.name}/{name}"
    return Doubt(*key, known.level, width, known.source, settle, said, change, held_out_mape=mape)


def _absent(name: str, runtime: Runtime, sentence: Sentence) -> Doubt:
    """A cost that the runtime does not state: it is taken as 0, and may be as large as any set-up showed."""
    cost, most = RUNTIME_COSTS[name], largest_known(name)

    def change(changed: Scenario, end: float) -> Scenario:
        here = changed.cluster.runtime.over(changed.cluster.network.way(changed.cluster.nodes))
        return with_value(changed, "cluster.runtime", here.model_copy(update={name: max(0.0, end) * most}))

    source = f"taken as 0; the largest that another set-up showed is {most:.3g} {cost.unit}"
    key, said = (ABSENT, f"{runtime.name}/{name}"), (Said(sentence, cost.label),)
    return Doubt(*key, "assumed", _ANY, source, _measurement(name), said, change, absolute=True)


def _describe_way(runtime: Runtime, way: Way) -> str:
    """That the runtime was fitted over another transport than that of the network, or behind a slower NIC."""
    fitted, foreign = runtime.fitted_for, runtime.is_prior_over(way.transport)
    width = runtime.endpoint_width(way)
    if fitted is None or not (foreign or width > 1):
        return ""
    if foreign:
        where = f"{runtime.name} was fitted over {fitted.transport}, and this network is {way.transport}"
    else:
        rates = f"{show_bytes(fitted.carried or 0)}/s, and this network carries {show_bytes(way.carried or 0)}/s"
        where = f"{runtime.name} was fitted behind NICs that carry {rates}"
    if width == 1:
        return f"{where}: its costs may be wrong by a factor of {fitted.width:g} either way"
    middle = f"{show_bytes(runtime.over(way).endpoint_bandwidth or 0)}/s per endpoint"
    return f"{where}: {middle}, between both, may be wrong by a factor of {width:.2g} either way"


def _first_order(
    name: str, cost: Doubt, scenario: Scenario, plan: Plan, breakdown: Mapping[str, float]
) -> tuple[float, float]:
    """Seconds by which an iteration is shorter and longer at the ends of a cost's width.

    A rate of the software counts as far as it limits the way of a message, which the NIC limits, too.
    """
    if cost.what == ABSENT:
        return 0.0, largest_known(name) * len(plan.work.uses) if RUNTIME_COSTS[name].per_call else 0.0
    seconds, width = _seconds(name, plan, breakdown), cost.width
    if RUNTIME_COSTS[name].unit != "B/s":
        return seconds_at_ends(seconds, width)
    network, rate = scenario.cluster.network, float(getattr(plan.setup.runtime, name))
    nic = network.carried(scenario.cluster.nodes)
    now, slow, fast = (min(nic, rate * factor) for factor in (1.0, 1 / width, width))
    return seconds * (1 - now / fast), seconds * (now / slow - 1)


def _seconds(name: str, plan: Plan, breakdown: Mapping[str, float]) -> float:
    """Seconds of an iteration that are proportional to a cost, to first order."""
    cost, value = RUNTIME_COSTS[name], float(getattr(plan.setup.runtime, name))
    if cost.unit == "B/s":
        return breakdown["communication_exposed"]
    kernel = _KERNEL_OF_COST.get(name)
    if kernel is not None:
        return plan.work.kernels[kernel].seconds if kernel in plan.work.kernels else 0.0
    return value * len(plan.work.uses) if cost.per_call else 0.0


_KERNEL_OF_COST = {cost: kernel for kernel, cost in HOST_KERNELS.items()}


def _slowdown(scenario: Scenario, value: float, slowed: float) -> Doubt:
    """The slowdown of compute by communication: its spread is added or taken away, and it is not below 0."""
    spread = slowdown_spread(scenario)

    def change(changed: Scenario, end: float) -> Scenario:
        return with_value(changed, "workload.compute_slowdown", max(0.0, value + end * spread))

    share = spread / value if value else 0.0
    width = 1 + (share or spread)
    made = Doubt(
        "prior",
        "slowdown of compute by communication",
        "assumed",
        width,
        "leave-one-out error over the set-ups and models in which it was measured",
        _measurement("compute_slowdown"),
        (Said(_describe_slowdown(scenario.cluster.runtime, value, spread)),),
        change,
        held_out_mape=mape_of_width(width),
        touched=(value, spread + min(spread, value)) if value else None,
        absolute=True,
    )
    return made.with_seconds(min(share, 1.0) * slowed, share * slowed)


def _describe_slowdown(runtime: Runtime, value: float, spread: float) -> Sentence:
    """That the slowdown is not known of this model."""
    what = "the middle of what other set-ups show"
    if not runtime.slowdown_width:
        what = f"that of {runtime.name} with other models, or taken as 0 since nobody measured it"
    return Sentence(
        f"how much collectives slow kernels down was not measured here; {100 * value:.0f} % is {what}, and may be "
        f"wrong by {100 * spread:.0f} percentage points either way",
        place=_SLOWED,
    )


def find_slowed(made: Sequence[Simulated]) -> list[float]:
    """Seconds by which exchanges make each iteration longer because they slow compute down, with workers that keep to
    their mean; 0 where that is known."""
    slowed = [0.0] * len(made)
    places = [n for n, it in enumerate(made) if it.plan.slowdown and is_slowdown_unknown(it.scenario, it.plan)]
    unsteady = [n for n in places if not made[n].is_steady]
    times = {n: float(made[n].figures.times[0]) for n in places}
    times |= zip(unsteady, times_of([(made[n].plan, ALIKE) for n in unsteady]), strict=True)
    free = times_of([(replace(made[n].plan, slowdown=0.0), ALIKE) for n in places])
    for place, time in zip(places, free, strict=True):
        slowed[place] = max(0.0, times[place] - time)
    return slowed


def slowdown_spread(scenario: Scenario) -> float:
    """What the slowdown of compute may be off by, added either way; 0 where it was measured for this model.

    An estimate (`auto`) has its own width; a slowdown that was measured for other models, or for none, is off by as
    much as those of two models are on one GPU.
    """
    workload, runtime = scenario.workload, scenario.cluster.runtime
    if workload.compute_slowdown is not None:
        return 0.0
    if runtime.slowdown_width:
        return runtime.slowdown_width * runtime.compute_slowdown
    of = runtime.fitted_on
    if of is not None and workload.name in of.workloads and same_device(of.device, scenario.cluster.gpu.device):
        return 0.0
    return spread_between_models()


def is_slowdown_unknown(scenario: Scenario, plan: Plan) -> bool:
    """Whether exchanges meet compute that they may slow down by more or less than is assumed."""
    return plan.setup.scheduler.overlap and scenario.cluster.workers > 1 and slowdown_spread(scenario) > 0


def _measurement(name: str) -> Measurement:
    command = "sparsim calibrate runtime SCENARIOS --term"
    return Measurement(RUNTIME_COSTS[name].label, command, MINUTES, name)
