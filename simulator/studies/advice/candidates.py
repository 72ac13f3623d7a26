"""Methods, schedules and topologies that could replace those of a scenario, and iterations that they need."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from simulator.component import Component, build, discover, required_fields
from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.hardware.runtime import FRAMEWORKS
from simulator.loading.documents import read_document
from simulator.loading.finding import find_file
from simulator.models.precision import Precision
from simulator.models.sharding import Mesh
from simulator.records import Record, replace
from simulator.scenario.changes import with_runtime, with_value
from simulator.scenario.scenario import Scenario
from simulator.schedulers.base import Scheduler
from simulator.schedulers.sharded import Sharded
from simulator.sparsifiers.base import Sparsifier
from simulator.sparsifiers.dense import Dense
from simulator.sparsifiers.implementation import RELEASED
from simulator.studies.compare.opponent import gathers_rows
from simulator.studies.variants.names import mesh_of, settings_of, sharded_part, show_size, wires_of
from simulator.topologies.base import Topology
from simulator.units import parse, show_time

DEFAULT_DENSITY = 0.01
BUCKETS = ("1 MiB", "4 MiB", "25 MiB", "64 MiB")
PARTITIONS = ("1 MB", "4 MB", "16 MB")
_SIZED: dict[str, list[dict[str, Any]]] = {
    "bucketed": [{"bucket_size": size} for size in BUCKETS],
    "decoupled": [{"bucket_size": size} for size in BUCKETS[1:3]],
    "priority": [{"partition": size, "credit": size} for size in PARTITIONS],
    "wfbp": [{}, {"partition": "4 MB"}],
    "sequential": [{}],
    "lags": [],
    "asc_wfbp": [],
}
_UNITS: dict[str, tuple[Callable[[float], str], str]] = {
    **dict.fromkeys(("bucket_size", "first_bucket", "partition", "credit"), (show_size, "size")),
    "cycle_time": (show_time, "time"),
}
"""How a parameter is written with its unit, and the dimension of that."""
_BASES: dict[str, type[Component]] = {"sparsifier": Sparsifier, "scheduler": Scheduler, "topology": Topology}

Change = Mapping[str, Any] | None
"""A component as it is written in YAML; None: the scenario's own."""


class Candidate(Record):
    """A scenario with other parts; None keeps the scenario's own.

    `runtime`: the name of another runtime, for a dense run where the scenario's own holds for another method only.
    `precision`: other number formats, in which gradients travel rounded.
    """

    sparsifier: Change = None
    scheduler: Change = None
    topology: Change = None
    runtime: str = ""
    precision: Change = None

    def __hash__(self) -> int:
        return hash(repr(self))  # of mappings, which have no hash of their own

    @property
    def method(self) -> tuple[Change, Change]:
        """Equal for candidates with the same method."""
        return self.sparsifier, self.precision

    @property
    def rounding(self) -> str:
        """How dense gradients travel that are rounded for it, in words that follow the method's name."""
        return "" if self.precision is None else f" sent as {self.precision['travels']}"

    @property
    def parts(self) -> dict[str, Mapping[str, Any]]:
        """The components that are replaced, by family."""
        parts = {"sparsifier": self.sparsifier, "scheduler": self.scheduler, "topology": self.topology}
        return {name: dict(part) for name, part in parts.items() if part is not None}

    @property
    def overrides(self) -> Mapping[str, Any]:
        """Dotted keys and values that turn the scenario into this candidate, as for `--set`."""
        made: dict[str, Any] = {n: part if len(part) > 1 else part["kind"] for n, part in self.parts.items()}
        made |= {} if self.precision is None else {"workload.precision": self.precision}
        return made | ({"cluster.runtime": self.runtime} if self.runtime else {})

    def of(self, scenario: Scenario) -> Scenario:
        """The scenario with these parts. Raises a validation error for parameters that a member refuses."""
        update: dict[str, Any] = {name: build(_BASES[name], part) for name, part in self.parts.items()}
        if self.runtime:
            scenario = with_runtime(scenario, self.runtime)
        if self.precision is not None:
            scenario = with_value(scenario, "workload.precision", Precision.model_validate(self.precision))
        return scenario.model_copy(update=update)


class Grid(Record):
    """The methods, schedules and topologies to combine; the scenario's own comes first in each.

    `left_out`: what is not among them, and the reason. `dense_only`: combinations of dense and schedules
    of sharded models that no other method is tried with: all GPUs share one model, or round what they exchange.
    """

    methods: tuple[Candidate, ...]
    schedulers: tuple[Change, ...]
    topologies: tuple[Change, ...]
    left_out: tuple[str, ...] = ()
    dense_only: tuple[Candidate, ...] = ()

    @property
    def points(self) -> int:
        """Number of combinations."""
        return len(self.methods) * len(self.schedulers) * len(self.topologies) + len(self.dense_only)


def density_of(scenario: Scenario) -> float | None:
    """The scenario's own density; None for a method without one."""
    return getattr(scenario.sparsifier, "density", None)


def dense_candidate(scenario: Scenario, scheduler: Change = None, topology: Change = None) -> Candidate:
    """Without compression, under the runtime that the scenario's runtime names for that; embeddings are gathered as
    rows where the framework does so."""
    rows = {"indexed_slices": True} if gathers_rows(scenario) else {}
    return Candidate({"kind": Dense.kind, **rows}, scheduler, topology, runtime=scenario.cluster.runtime.dense_runtime)


def implementation_of(scenario: Scenario, method: type[Sparsifier]) -> str:
    """The implementation by which a method is priced: that of the scenario's own method where it has one of that name.

    Where the GPU runs TensorFlow's kernels, it is the code that exists for TensorFlow (GRACE's), if there is any; what
    was written for another framework is not what its users have.
    """
    own = scenario.sparsifier.implementation
    wanted = "grace" if own == RELEASED and scenario.cluster.gpu.framework == "tensorflow-1" else own
    return wanted if wanted in method.known_implementations() else RELEASED


def candidates(scenario: Scenario, density: float) -> Grid:
    """Every registered member that fits the scenario, sparsifiers at `density`.

    Methods are carried out by the scenario's implementation, and schedules have its number of streams. Where dense
    gradients are in fp32, sending them in 16 bits is a method, too.

    Only topologies with the scenario's style (collectives, or push and pull) are taken, since its runtime says nothing
    about the software costs of the other style.
    """
    methods, left_out = _methods(scenario, density)
    own = sharded_part(scenario.scheduler)
    if own is not None:
        return _sharded_grid(scenario, own, tuple(methods), left_out)
    schedulers = [None, *_schedulers(scenario)]
    topologies, foreign = _topologies(scenario)
    left_out.append("scheduler lags: it changes the density")
    left_out.append("scheduler asc_wfbp, topology gloo: they take long to simulate")
    if foreign:
        style = "push and pull" if scenario.topology.style == "collective" else "collectives"
        left_out.append(f"{', '.join(foreign)}: the scenario's runtime does not state the software costs of {style}")
    return Grid(tuple(methods), tuple(schedulers), (None, *topologies), tuple(left_out))


def _sharded_grid(scenario: Scenario, own: Sharded, methods: tuple[Candidate, ...], left_out: list[str]) -> Grid:
    """Meshes of all schedules that a framework of the scenario's own has, too; what they round is tried with dense."""
    places = {place["in"] for place in own.exact.places(mesh_of(scenario, own)._replace(compressed=False))} - {"code"}
    inside = scenario.scheduler is not own
    shared, alone, other = list[Scheduler](), list[Scheduler](), list[str]()
    for kind, member in discover(Scheduler).items():
        if not issubclass(member, Sharded) or set(required_fields(member)):
            continue
        base = own if kind == own.kind else member()
        if not places & {place["in"] for place in base.exact.places(Mesh(2, 2, 1))}:
            other.append(kind)
            continue
        plain = with_value(scenario, "scheduler", base)
        for each in settings_of(base, plain):
            (alone if mesh_of(plain, each).replicas == 1 else shared).append(each)
            alone += wires_of(each, plain)
        if inside:
            for each in settings_of(base, scenario):
                shared.append(scenario.scheduler.model_copy(update={"inside": each}))
                wires = wires_of(each, scenario)
                alone += [scenario.scheduler.model_copy(update={"inside": wire}) for wire in wires]
    known: list[Scheduler] = [scenario.scheduler]
    shared, alone = ([each for each in some if _is_new(each, known)] for some in (shared, alone))
    left_out += [f"scheduler {kind}: in no framework that has {own.kind}" for kind in other]
    left_out.append("topologies other than the scenario's own: frameworks of sharded models offer no other")
    dense_only = tuple(dense_candidate(scenario, _written(each)) for each in alone)
    return Grid(methods, (None, *map(_written, shared)), (None,), tuple(left_out), dense_only)


def _written(scheduler: Scheduler) -> Mapping[str, Any]:
    """A schedule as a scenario writes it, without what is as by default."""
    made = {"kind": scheduler.kind, **scheduler.model_dump(exclude_defaults=True)}
    inside, wire = getattr(scheduler, "inside", None), getattr(scheduler, "reduce_wire", None)
    made |= {"inside": _written(inside)} if inside is not None else {}
    return made | ({"reduce_wire": wire.written} if wire is not None else {})


def _methods(scenario: Scenario, density: float) -> tuple[list[Candidate], list[str]]:
    """The scenario's own method first, then all others; and what is left out, with the reason."""
    own, missing = scenario.sparsifier, list[str]()
    exact = Candidate() if own.kind == Dense.kind else dense_candidate(scenario)
    made = [Candidate()]
    if gathers_rows(scenario):  # the other way of sending embeddings, which is faster where rows are many
        rows = getattr(exact.of(scenario).sparsifier, "indexed_slices", False)
        made.append(replace(exact, sparsifier={"kind": Dense.kind} | ({} if rows else {"indexed_slices": True})))
    for kind, member in discover(Sparsifier).items():
        needed = set(required_fields(member))
        if needed - {"density"}:
            missing.append(kind)
        elif kind == Dense.kind != own.kind:
            made.append(exact)
        elif kind != own.kind and issubclass(member, Sparsifier):
            implementation = implementation_of(scenario, member)
            wanted = {} if implementation == RELEASED else {"implementation": implementation}
            made.append(Candidate(sparsifier={"kind": kind} | ({"density": density} if needed else {}) | wanted))
    precision = scenario.workload.precision
    if precision.gradients == precision.sent_as == "fp32" and sharded_part(scenario.scheduler) is None:
        travels = "fp16" if precision.residuals == "fp32" else precision.residuals
        made.append(replace(exact, precision={**precision.model_dump(exclude_defaults=True), "travels": travels}))
    return made, [f"{', '.join(missing)}: they have parameters without a default"] if missing else []


def _schedulers(scenario: Scenario) -> list[Change]:
    """Those of models that every GPU has whole."""
    made: list[Mapping[str, Any]] = []
    whole = {kind: each for kind, each in discover(Scheduler).items() if not issubclass(each, Sharded)}
    for kind, member in whole.items():
        if not set(required_fields(member)):
            made += [{"kind": kind} | parameters for parameters in _SIZED.get(kind, [{}])]
    offers = FRAMEWORKS[scenario.cluster.runtime.framework].schedules
    made += [offer.scheduler for offer in offers if offer.scheduler["kind"] in whole]
    streams = scenario.scheduler.streams
    if streams != type(scenario.scheduler).model_fields["streams"].default:
        made = [{**item, "streams": streams} for item in made]
    known = [scenario.scheduler]
    return [item for item in made if _is_new(build(Scheduler, dict(item)), known)]


def _is_new(scheduler: Scheduler, known: list[Scheduler]) -> bool:
    """Whether a scheduler is none of those that are known; it is from now on."""
    new = scheduler not in known
    known += [scheduler] if new else []
    return new


def _topologies(scenario: Scenario) -> tuple[list[Change], list[str]]:
    made: list[Change] = []
    foreign = []
    own = scenario.topology
    for kind, member in discover(Topology).items():
        if set(required_fields(member)) or not issubclass(member, Topology):
            continue
        if member.style != own.style:
            foreign.append(kind)
        elif kind in (own.kind, "gloo", "object_store"):
            continue
        elif kind != "hierarchical" or scenario.cluster.gpus_per_node > 1:
            made.append({"kind": kind})
    if "placement" in type(own).model_fields:
        described = own.described("json")
        other = "sharded" if described["placement"] == "round_robin" else "round_robin"
        made.append({**described, "placement": other})
    return made, foreign


def as_options(overrides: Mapping[str, Any]) -> str:
    """Overrides as options of the command line, quoted for a shell.

    >>> as_options({"scheduler": "wfbp", "sparsifier": {"kind": "topk", "density": 0.1}})
    "--set scheduler=wfbp --set 'sparsifier={kind: topk, density: 0.1}'"
    >>> as_options({"scheduler": {"kind": "bucketed", "bucket_size": 2.0**24, "cycle_time": 0.025}})
    "--set 'scheduler={kind: bucketed, bucket_size: 16 MiB, cycle_time: 25 ms}'"
    """
    return " ".join(f"--set {shlex.quote(f'{key}={_as_yaml(key, value)}')}" for key, value in overrides.items())


def _as_yaml(key: str, value: Any) -> str:
    """A value as YAML, sizes and times with a unit where that is exact."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_as_yaml(name, item)}" for name, item in value.items()) + "}"
    if isinstance(value, float) and key in _UNITS:
        show, dimension = _UNITS[key]
        text = show(value)
        return text if parse(text, dimension) == value else str(value)
    return str(value)


MAX_ITERATIONS = 1e15


def read_iterations(path: str) -> dict[str, float]:
    """A file that maps methods to iterations. Raises InputError with the place of everything that is wrong."""
    place = find_file(path, None)
    if place is None:
        raise InputError(Problem(path, "a YAML file of methods and iterations, such as `topk: 32000`", "nothing there"))
    document = read_document(place)
    given = document.mapping("a mapping from methods to iterations")
    problems = [
        Problem(document.describe_place((key,)), "iterations above 0, at most 1e15", format_value(value))
        for key, value in given.items()
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_ITERATIONS
    ]
    if problems:
        raise InputError(problems)
    return check_methods({str(key): float(value) for key, value in given.items()})


def check_methods(targets: Mapping[str, float]) -> dict[str, float]:
    """Iterations by method, each known. Raises InputError for an unknown method, with the nearest known one."""
    kinds, what = discover(Sparsifier), "a method, such as topk or 'topk 0.01'"
    unknown = [name for name in targets if name.split(" ")[0] not in kinds]
    if unknown:
        raise InputError([Problem("iterations to target", what, f"'{n}'", suggest_nearest(n, kinds)) for n in unknown])
    return dict(targets)
