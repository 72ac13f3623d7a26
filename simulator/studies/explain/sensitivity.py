"""The numeric inputs that an answer depends on, and how much it changes with each: the slope, and at half and twice."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from simulator.errors import InputError, unless_refused
from simulator.hardware.runtime import RUNTIME_COSTS
from simulator.prediction.run import plan_of, time_batch
from simulator.progress import Watch
from simulator.records import Record, replace
from simulator.reporting.answers.explained import Sensitivity, Slope
from simulator.scenario.changes import scale_compute, scale_curve, value_at, with_value, without_measured_collectives
from simulator.scenario.scenario import Scenario
from simulator.studies.processes.executors import map_watched
from simulator.studies.variants.crossing import without_replay

_NETWORK = {
    "cluster.network.bandwidth": ("B/s", "network bandwidth"),
    "cluster.network.latency": ("s", "network latency"),
    "cluster.network.intra_node.bandwidth": ("B/s", "bandwidth inside nodes"),
    "cluster.network.intra_node.latency": ("s", "latency inside nodes"),
    "cluster.network.hop_latency": ("s", "latency per hop"),
    "cluster.network.uplink": ("B/s", "bandwidth of the uplinks"),
    "cluster.network.oversubscription": ("", "oversubscription"),
    "cluster.network.between.rate": ("B/s", "bandwidth between sites"),
    "cluster.network.between.latency": ("s", "latency between sites"),
    "cluster.network.between.loss": ("", "loss between sites"),
    "cluster.network.store.bandwidth": ("B/s", "bandwidth of the store"),
    "cluster.network.store.latency": ("s", "latency of the store"),
}
_OTHERS = {
    "workload.input_time": ("s", "loading time of a batch"),
    "cluster.loading.rate": ("samples/s", "rate of data loading"),
    "cluster.stragglers.jitter": ("", "jitter"),
    "overlap_concentration": ("", "overlap concentration"),
}
_RUNTIME = {f"cluster.runtime.{name}": (cost.unit, cost.label) for name, cost in RUNTIME_COSTS.items()}
_NODES, _DENSITY, _COMPUTE = "cluster.nodes", "sparsifier.density", "workload.compute_time"
_KERNELS, _MEMORY = "cluster.gpu.kernels.", "cluster.gpu.memory_bandwidth"
_LABELS = {key: label for key, (_, label) in (_NETWORK | _OTHERS | _RUNTIME).items()} | {
    _NODES: "number of nodes",
    _DENSITY: "density",
    _COMPUTE: "compute time",
    _MEMORY: "GPU memory bandwidth",
}


STEP = 0.01
"""Inputs are changed by this share to either side for a slope, numbers of nodes by one node."""


class Input(Record):
    """A numeric input: its dotted key, value and unit, and a function that scales it in a scenario.

    `scale` takes a scenario and a factor, and returns None where the input cannot have that value. `network`: a
    property of the network. `step`: the share by which it is changed for a slope.
    """

    key: str
    value: float
    unit: str
    scale: Callable[[Scenario, float], Scenario | None]
    network: bool = False
    step: float = STEP


def input_label(key: str) -> str:
    """What an input is called in a sentence.

    >>> input_label("workload.compute_time"), input_label("cluster.gpu.kernels.topk")
    ('compute time', 'topk kernel time')
    """
    return _LABELS.get(key) or f"{key.removeprefix(_KERNELS)} kernel time"


def inputs_of(scenario: Scenario) -> list[Input]:
    """The inputs of network, cluster, method, compute, kernels and runtime that the scenario uses."""
    made = [_plain_input(scenario, key, unit, network=True) for key, (unit, _) in _NETWORK.items()]
    nodes = float(scenario.cluster.nodes)
    made.append(Input(_NODES, nodes, "", _scale_nodes, step=1 / nodes))
    if "density" in type(scenario.sparsifier).model_fields:
        density = float(value_at(scenario, _DENSITY))
        made.append(Input(_DENSITY, density, "", lambda it, by: with_value(it, _DENSITY, min(1.0, density * by))))
    plan = plan_of(scenario)
    compute = plan.work.compute_alone
    if compute:
        made.append(Input(_COMPUTE, compute + plan.work.update, "s", scale_compute))
    made += [_plain_input(scenario, key, unit) for key, (unit, _) in _OTHERS.items()]
    made += _kernel_inputs(scenario, set(plan.work.kernels) | {"update"})
    made += [_plain_input(scenario, key, unit) for key, (unit, _) in _RUNTIME.items()]
    return [item for item in made if item.value]


def _kernel_inputs(scenario: Scenario, used: set[str]) -> list[Input]:
    """The scale of every measured curve that is used, and the input that kernels without a curve depend on."""
    gpu = scenario.cluster.gpu
    if gpu.ideal:
        return []
    not_measured = any(gpu.curve(kernel) is None for kernel in used)
    floor = "elementwise" in gpu.kernels
    made = [
        Input(_KERNELS + kernel, 1.0, "times as long", partial(_scale_kernel, kernel))
        for kernel in sorted(gpu.kernels)
        if kernel in used or (kernel == "elementwise" and (not_measured or "residual_add" in used))
    ]
    return [*made, _plain_input(scenario, _MEMORY, "B/s")] if not_measured and not floor else made


def _plain_input(scenario: Scenario, key: str, unit: str, network: bool = False) -> Input:
    """The input that is the value at a key; its value is 0 where the scenario does not have it."""

    def scale(changed: Scenario, factor: float) -> Scenario:
        return with_value(changed, key, value_at(changed, key) * factor)

    return Input(key, float(value_at(scenario, key) or 0.0), unit, scale, network)


def _scale_nodes(scenario: Scenario, factor: float) -> Scenario | None:
    nodes = round(scenario.cluster.nodes * factor)
    return with_value(scenario, _NODES, nodes) if nodes >= 1 else None


def _scale_kernel(name: str, scenario: Scenario, factor: float) -> Scenario:
    kernels = scenario.cluster.gpu.kernels
    return with_value(scenario, "cluster.gpu.kernels", {**kernels, name: scale_curve(kernels[name], factor)})


ITERATIONS = 40
"""Iterations that are averaged at most: all runs share the same random numbers, so few are enough."""
_WITH_OTHER_JOBS = 3
"""Iterations that are averaged where other jobs share the network, which takes long to simulate."""
_SLOPES_OF_LIVE = 3
"""Inputs with slopes where exchanges share links, which takes long to simulate."""
_NOTHING = 1e-9

Answers = Callable[[Sequence[Scenario]], Sequence[float | InputError]]
"""The answers for several scenarios; an error in the place of one that has none."""


def sensitivity(
    scenario: Scenario,
    answers: Answers = time_batch,
    watch: Watch | None = None,
    processes: int | None = None,
    words: tuple[str, str, str] = ("the iteration", "longer", "shorter"),
) -> Sensitivity:
    """How an answer (default: the iteration time) changes with every numeric input.

    `words`: what the answer is called, and more and less of it.

    A measured collective holds at one bandwidth and latency only, so inputs of the network are changed by the link law
    alone, and `base` is the answer by that law. Where exchanges share links only the first few inputs have slopes. An
    interruption leaves out the inputs and the slopes that `watch` has not seen done.
    """
    watch = watch or Watch()
    bare, note = without_replay(scenario)
    most = _WITH_OTHER_JOBS if bare.other_jobs else ITERATIONS
    bare = bare.model_copy(update={"iterations": min(bare.iterations, most), "warmup": min(bare.warmup, most)})
    base = unless_refused(answers([bare])[0])
    network, network_base = bare, base
    if bare.cluster.network.measured:
        network = without_measured_collectives(bare)
        network_base = unless_refused(answers([network])[0])
    starts = [(item, network if item.network else bare) for item in inputs_of(bare)]
    ask = partial(map_watched, partial(_answers_of_pairs, answers), watch=watch, part="the sensitivities")
    halves_and_doubles = ask([[item.scale(it, by) for by in (0.5, 2.0)] for item, it in starts], processes=processes)
    studies = [
        (*starts[place], _row(starts[place][0], network_base if starts[place][0].network else base, *pair))
        for place, pair in sorted(halves_and_doubles.items())
    ]
    studies.sort(key=lambda study: -study[-1].swing)
    rows = [row for *_, row in studies]
    most = _SLOPES_OF_LIVE if plan_of(bare).live else len(studies)
    steps = [[item.scale(it, 1 + by) for by in (-item.step, item.step)] for item, it, _ in studies[:most]]
    for place, pair in ({} if watch.interrupted else ask(steps, processes=processes)).items():
        rows[place] = _with_slope(rows[place], studies[place][0].step, *pair)
    silent = [row.input for row in rows if row.swing <= _NOTHING * abs(base) and not row.elasticity]
    return Sensitivity(
        base=base,
        inputs=rows,
        top=[row.input for row in rows[:3] if row.input not in silent],
        without_effect=silent,
        notes=[note] if note else [],
        answer=_describe([row for row in rows[:3] if row.input not in silent], *words),
    )


def _answers_of_pairs(
    answers: Answers, pairs: Sequence[Sequence[Scenario | None]]
) -> list[tuple[float | None, float | None]]:
    """The answers of pairs of scenarios; None for a scenario that is missing, and where parts do not fit together."""
    known = iter(answers([scenario for pair in pairs for scenario in pair if scenario is not None]))
    made = [None if scenario is None else next(known) for pair in pairs for scenario in pair]
    numbers = [None if isinstance(item, InputError) else item for item in made]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _row(item: Input, base: float, half: float | None, double: float | None) -> Slope:
    known = [value for value in (base, half, double) if value is not None]
    return Slope(item.key, item.value, item.unit, base, None, None, half, double, max(known) - min(known))


def _with_slope(row: Slope, step: float, below: float | None, above: float | None) -> Slope:
    """With d ln(answer) / d ln(input) from the answers a step below and above, one-sided where one has no value."""
    low = (row.base, 0.0) if below is None else (below, -step)
    high = (row.base, 0.0) if above is None else (above, step)
    if row.base <= 0 or low[1] == high[1] or low[0] <= 0 or high[0] <= 0:
        return row
    made = math.log(high[0] / low[0]) / (math.log1p(high[1]) - math.log1p(low[1]))
    made = made if abs(made) > _NOTHING else 0.0
    return replace(row, elasticity=made, derivative=made * row.base / row.value)


def _describe(top: Sequence[Slope], subject: str, more: str, less: str) -> str:
    effects = []
    for row in top:
        name, slope = f"the {input_label(row.input)}", row.elasticity
        effects.append((name, f"{abs(slope):.2g} % {more if slope > 0 else less}" if slope else ""))
    if not effects:
        return f"No input changes {subject}."
    (name, effect), *others = effects
    text = f"Most sensitive to {name}"
    text += f": 1 % more makes {subject} {effect}" if effect else ""
    rest = " and ".join(f"{name} ({effect})" if effect else name for name, effect in others)
    return f"{text}; then to {rest}." if rest else f"{text}."
