"""What to use on a set-up: combinations by time, where compression starts to pay, and what single settings gain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from simulator.errors import InputError
from simulator.hardware.runtime import FRAMEWORKS
from simulator.prediction.iterations_to_target import GivenIterations, IterationsOf
from simulator.prediction.memory import memory_of, refuse_what_does_not_fit
from simulator.prediction.run import plan_of, time_batch
from simulator.progress import Watch
from simulator.records import asdict, replace
from simulator.reporting.answers.advised import (
    Border,
    LookedAt,
    MethodAdvice,
    Overrides,
    Switch,
)
from simulator.reporting.answers.explained import Sensitivity
from simulator.scenario.changes import with_value, without_randomness
from simulator.scenario.cluster import LEFT_OUT
from simulator.scenario.scenario import Scenario
from simulator.scenario.versions import versions
from simulator.schedulers.bucketed import Bucketed
from simulator.sparsifiers.dense import Dense
from simulator.studies.advice.availability import lines_in, lines_of_setting
from simulator.studies.advice.candidates import (
    DEFAULT_DENSITY,
    Candidate,
    Grid,
    as_options,
    candidates,
    check_methods,
    dense_candidate,
    density_of,
)
from simulator.studies.advice.crossings import STEPS, bandwidth_borders, crossings
from simulator.studies.advice.ranking import LISTED, SAME, ranking
from simulator.studies.advice.recommendation import Recommendation, Rival, recommend_at_hand, recommendation
from simulator.studies.advice.search import (
    DENSE,
    EXHAUSTIVE,
    Combination,
    SearchResult,
    best_of_each,
    replayed,
    search,
)
from simulator.studies.advice.summary import (
    describe,
    describe_border,
    describe_opponent,
    describe_second,
    find_second,
    reasons,
    summarise,
)
from simulator.studies.explain.sensitivity import input_label, sensitivity
from simulator.studies.processes.executors import map_watched
from simulator.studies.variants.crossing import evaluate, without_replay
from simulator.studies.variants.names import schedule_name, sharded_part, topology_name
from simulator.units import count_of


def advise(
    scenario: Scenario,
    iterations_to_target: Mapping[str, float] | IterationsOf | None = None,
    grid: Grid | None = None,
    exhaustive: int = EXHAUSTIVE,
    *,
    watch: Watch | None = None,
    processes: int | None = None,
    whole: bool = True,
) -> MethodAdvice:
    """Rank what could be used at the scenario's own density, and say where compression pays, how surely, and why.

    What the scenario's framework offers is recommended (any released framework, where the scenario names none), and
    what needs research code or another framework is named second; only where nothing is offered, it is recommended.
    Compression is recommended where it is faster than dense at its best with a probability of at least 95 %; where
    that is not decided, the answer says what to do until it is, and which measurement decides it.

    Without `whole`, break-even points, and what changes the speed-up are left out. An interruption
    (Ctrl-C) leaves out what was not reached yet, once there is a ranking; `interrupted` says what.

    By `iterations_to_target`, which are stated by method or found in trainings, the ranking is by time to target. Grids
    of up to `exhaustive` combinations are tried completely. Raises InputError where the parts cannot work together.
    """
    plan = plan_of(scenario)  # raises InputError where parts cannot work together
    refuse_what_does_not_fit(scenario, memory_of(scenario, plan))
    given: dict[str, float] = {}
    if isinstance(iterations_to_target, Mapping):
        given = check_methods(iterations_to_target)
        targets: IterationsOf | None = GivenIterations(given) if given else None
    else:
        targets = iterations_to_target
    bare, note = without_replay(scenario)
    own_density = density_of(bare)
    density = DEFAULT_DENSITY if own_density is None else own_density
    alone = scenario.cluster.workers == 1
    if alone:  # exchanges nothing: there is nothing to choose from
        grid, targets = Grid((Candidate(),), (None,), (None,)), None
    grid = candidates(bare, density) if grid is None else grid
    watch = watch or Watch()
    looked_at = found = search(bare, grid, exhaustive, watch=watch, processes=processes)
    if note:
        found = replayed(scenario, found, LISTED, processes)
    ranked = ranking(scenario, found, targets, watch, processes)
    rows, row_of = [item.row for item in ranked.ranked], {item.candidate: item.row for item in ranked.ranked}
    best, own = best_of_each(found.outcomes), found.own
    dense, others = best.pop(DENSE, None), [*best.values()]
    # Neighbours of a scenario that fits, such as one with more workers, may not fit themselves.
    free = with_value(bare, "ignore_memory", True)
    of_all = recommendation(ranked)
    advice = recommend_at_hand(ranked, of_all)
    second, words_of_all = find_second(ranked, advice, of_all), describe(ranked, of_all)
    words = describe(ranked, advice, words_of_all)
    border = None if watch.interrupted else _border(free, advice, of_all.rival, watch)
    summary = summarise(ranked, advice, of_all, second, describe_border(free, border))
    whole = whole and not watch.interrupted and not alone
    break_even = crossings(free, others, watch, processes) if dense is not None and whole else []
    refused = looked_at.refused
    needed = {row.method: row.iterations_to_target for row in rows if row.iterations_to_target is not None}
    return MethodAdvice(
        scenario=scenario.name,
        digest=scenario.digest,
        versions=versions(),
        workers=scenario.cluster.workers,
        density=density,
        iterations_to_target=given or needed,
        summary=summary,
        **asdict(words),
        settings=as_options(words.recommended),
        availability=advice.chosen.row.availability,
        second=None if second is None else describe_second(second, words_of_all),
        border=border,
        opponent=describe_opponent(ranked, sum(item.row.method == DENSE for item in looked_at.outcomes)),
        switches=[] if watch.interrupted or alone else switches_of(scenario, grid, found),
        ranking=rows,
        dense=None if dense is None else row_of[dense.candidate],
        yours=None if own is None else row_of[own.candidate],
        break_even=break_even,
        reasons=reasons(scenario.cluster.workers, dense, others, own),
        sensitivity=_speed_up_sensitivity(free, dense, others[0], watch, processes)
        if whole and dense and others and not plan.live
        else None,
        looked_at=LookedAt(
            grid.points,
            len(looked_at.outcomes) + (no := refused.total()),
            no,
            dict(refused.most_common()),
            looked_at.unseen,
            list(grid.left_out),
        ),
        notes=[
            *([] if alone else _notes(density, own_density, note, targets, found)),
            *(targets.warnings(bare) if targets else ()),
            *([LEFT_OUT] if bare.cluster.membership else ()),
        ],
        interrupted=watch.interrupted,
    )


def _border(scenario: Scenario, advice: Recommendation, best: Rival | None, watch: Watch) -> Border | None:
    """Where the bandwidth would change the answer: the method in question, or else the best of all, against dense."""
    rival, dense = advice.rival, advice.dense
    if rival is None and advice.chosen.row.method == DENSE:
        rival, dense = best, advice.chosen
    if rival is None or dense is None:
        return None
    sides = rival.ranked, dense
    if any(item.heavy or item.live for item in sides):
        return None
    pair, part = tuple(item.candidate for item in sides), "the break-even point of the answer"
    found = map_watched(partial(bandwidth_borders, scenario), [pair], watch, part, 1, steps=STEPS)
    return Border(sides[0].name, dense.name, *found[0]) if found else None


def _speed_ups(rival: Scenario, own_runtime: bool, scenarios: Sequence[Scenario]) -> list[float | InputError]:
    """How many times faster scenarios are than with the parts of a rival; an error where one of both cannot run."""
    parts = {name: getattr(rival, name) for name in ("sparsifier", "scheduler", "topology")}
    against = [each.model_copy(update=parts) for each in scenarios]
    if own_runtime:
        against = [with_value(each, "cluster.runtime", rival.cluster.runtime) for each in against]
    times = time_batch([*against, *scenarios])
    return [
        theirs if isinstance(theirs, InputError) else mine if isinstance(mine, InputError) else theirs / mine
        for theirs, mine in zip(times[: len(scenarios)], times[len(scenarios) :], strict=True)
    ]


def _speed_up_sensitivity(
    scenario: Scenario, dense: Combination, best: Combination, watch: Watch, processes: int | None
) -> Sensitivity | None:
    """How the speed-up of the best other method over dense changes with each input, and where the answer changes."""
    start = without_randomness(best.candidate.of(scenario))
    speed_ups = partial(_speed_ups, dense.candidate.of(without_randomness(scenario)), bool(dense.candidate.runtime))
    made = sensitivity(start, speed_ups, watch, processes, ("the speed-up", "larger", "smaller"))
    if watch.interrupted:
        return None
    turns = [
        f"{word} the {input_label(row.input)} ({row.input})"
        for row in made.inputs
        for word, value in (("half", row.at_half), ("twice", row.at_double))
        if value is not None and (value > 1 + SAME) != (made.base > 1 + SAME)
    ]
    return replace(made, of=f"the speed-up of {best.name} over dense", turned_by=turns)


def _notes(
    density: float, own: float | None, note: str, targets: IterationsOf | None, replays: SearchResult
) -> list[str]:
    origin = "the scenario's own" if own is not None else "the default, since the scenario has none"
    made = [
        f"Sparsifiers are ranked at density {density:g}, {origin}. A lower density is always faster per iteration, but "
        "its effect on convergence is not modelled; `--set sparsifier.density=...` ranks them at another one.",
        "Time to target is the iterations to the target times the predicted iteration time; methods without iterations "
        "come last."
        if targets
        else "The ranking is by time per iteration. Methods differ in how many iterations they need; state them with "
        "--iterations-to-target to rank by time to target.",
    ]
    if note:
        made.append(
            f"The ranking replays the trace, as `sparsim run` does. The search and what it leads to use {note}."
        )
        made += [f"{count_of(n, 'combination')} cannot be replayed: {why}." for why, n in replays.refused.items()]
    return made


_WORTH = 0.01
"""Share of the time from which on a gain is named."""


def switches_of(scenario: Scenario, grid: Grid, found: SearchResult) -> list[Switch]:
    """The settings of the scenario's framework that make it at least 1 % faster, each by itself, best first.

    They are set on the scenario, without its compression where it has one: 16-bit travel, the fastest size of buckets,
    the framework's other all-reduce, `no_sync` where every micro-batch is exchanged, dense gradients of embeddings, and
    collectives of the tensor axis beside products. The meshes of sharded models, their formats and topologies are no
    single settings; the search tries them.
    """
    if not found.outcomes:
        return []
    plain = without_randomness(scenario)
    base = Candidate() if scenario.sparsifier.kind == Dense.kind else dense_candidate(scenario)
    tried = [(switch, made) for switch, made in _switches(plain, base, grid, found) if switch[-1]]  # has lines
    first, *others = evaluate([base.of(plain), *(scenario for _, scenario in tried)])
    if isinstance(first, InputError):
        return []
    before, made = first.spread.time, list[Switch]()
    for (setting, _), prediction in zip(tried, others, strict=True):
        if not isinstance(prediction, InputError) and before >= (time := prediction.spread.time) * (1 + _WORTH):
            made.append(Switch(*setting, time, before / time))
    return sorted(made, key=lambda item: item.iteration_time)


def _switches(
    scenario: Scenario, base: Candidate, grid: Grid, found: SearchResult
) -> Iterator[tuple[tuple[str, Overrides, tuple[str, ...]], Scenario]]:
    """Settings by their names: keys and lines that make them, and the scenario that has them."""
    plain, scheduler, mesh = base.of(scenario), scenario.scheduler, scenario.parallelism
    searched: list[Candidate | None] = []
    if sharded_part(scheduler) is None:
        tried = (item.candidate for item in found.outcomes)
        sized = (item for item in tried if item.scheduler is not None and replace(item, scheduler=None) == base)
        searched += [
            next((item for item in grid.methods if item.precision is not None), None),
            next((item for item in sized if lines_in(scenario, item.of(scenario).scheduler)), None),
        ]
        kinds = FRAMEWORKS[scenario.cluster.runtime.framework].topologies
        searched += [replace(base, topology={"kind": kind}) for kind in kinds if kind != scenario.topology.kind]
    for candidate in filter(None, searched):
        made = candidate.of(scenario)
        if candidate.precision is not None:
            label, lines = f"16-bit travel ({made.workload.precision.sent_as})", lines_of_setting("travels", made)
        elif candidate.topology is not None:
            label, lines = f"{topology_name(made)} all-reduce", lines_in(scenario, made.topology)
        else:
            label, lines = schedule_name(made), lines_in(scenario, made.scheduler)
        yield (label, candidate.overrides, lines), made
    keys = list[tuple[str, str, str, Any]]()
    if isinstance(scheduler, Bucketed) and scheduler.rounds(scenario.workload.micro_batches) > 1:
        keys.append(("no_sync", "no_sync", "scheduler.accumulate", "none"))
    if getattr(plain.sparsifier, "indexed_slices", False) and any(layer.rows for layer in scenario.workload.layers):
        keys.append(("dense_rows", "dense embedding gradients", "sparsifier.indexed_slices", False))
    if mesh.tensor > 1 and mesh.sequence_parallel and not mesh.overlap:
        keys.append(("tensor_overlap", "tensor collectives beside products", "parallelism.overlap", True))
    for setting, label, key, value in keys:
        yield (label, {**base.overrides, key: value}, lines_of_setting(setting, plain)), with_value(plain, key, value)
