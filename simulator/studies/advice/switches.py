"""What the scenario's framework offers as a setting, each by itself: the line that turns it on, and what it gains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from simulator.errors import InputError
from simulator.hardware.runtime import FRAMEWORKS
from simulator.records import replace
from simulator.reporting.answers.advised import Overrides, Switch
from simulator.scenario.changes import with_value, without_randomness
from simulator.scenario.scenario import Scenario
from simulator.schedulers.bucketed import Bucketed
from simulator.sparsifiers.dense import Dense
from simulator.studies.advice.availability import lines_in, lines_of_setting
from simulator.studies.advice.candidates import Candidate, Change, Grid, dense_candidate
from simulator.studies.advice.search import SearchResult
from simulator.studies.variants.crossing import evaluate
from simulator.studies.variants.names import schedule_name, sharded_part, topology_name

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
    tried = list(_switches(plain, base, grid, found))
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
    rounded = next((item for item in grid.methods if item.precision is not None), None)
    framework = FRAMEWORKS[scenario.cluster.runtime.framework]
    topologies: list[Change] = [{"kind": kind} for kind in framework.topologies if kind != scenario.topology.kind]
    tried = (item.candidate for item in found.outcomes)
    sized = (item for item in tried if item.scheduler is not None and replace(item, scheduler=None) == base)
    fastest = next((item for item in sized if lines_in(scenario, item.of(scenario).scheduler)), None)
    searched = (rounded, fastest, *(replace(base, topology=each) for each in topologies))
    for candidate in searched if sharded_part(scenario.scheduler) is None else ():
        if candidate is None:
            continue
        made = candidate.of(scenario)
        if candidate.precision is not None:
            label, lines = f"16-bit travel ({made.workload.precision.sent_as})", lines_of_setting("travels", made)
        elif candidate.topology is not None:
            label, lines = f"{topology_name(made)} all-reduce", lines_in(scenario, made.topology)
        else:
            label, lines = schedule_name(made), lines_in(scenario, made.scheduler)
        if lines:
            yield (label, candidate.overrides, lines), made
    scheduler, plain = scenario.scheduler, base.of(scenario)
    sends_rows = getattr(plain.sparsifier, "indexed_slices", False) and any(x.rows for x in scenario.workload.layers)
    keys = dict[str, tuple[str, str, Any]]()
    if isinstance(scheduler, Bucketed) and scheduler.rounds(scenario.workload.micro_batches) > 1:
        keys["no_sync"] = "no_sync", "scheduler.accumulate", "none"
    if sends_rows:
        keys["dense_rows"] = "dense embedding gradients", "sparsifier.indexed_slices", False
    mesh = scenario.parallelism
    if mesh.tensor > 1 and mesh.sequence_parallel and not mesh.overlap:
        keys["tensor_overlap"] = "tensor collectives beside products", "parallelism.overlap", True
    for setting, (label, key, value) in keys.items():
        if lines := lines_of_setting(setting, plain):
            yield (label, {**base.overrides, key: value}, lines), with_value(plain, key, value)
