"""A scenario, and what comes of running it: the result document."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError, core_schema

from simulator.component import MemberOf, Spec, expected
from simulator.errors import InputError, Problem, shown
from simulator.fabrics.base import Fabric
from simulator.loading import (
    TRACE_FILE,
    Document,
    find,
    missing,
    parse_document,
    problems_of,
    read_document,
    read_layers,
)
from simulator.models.hardware import Gpu, Runtime
from simulator.models.layers import Workload
from simulator.models.overlap import INDEPENDENT, Overlap, ScaleMixture
from simulator.schedulers.base import Scheduler
from simulator.sparsifiers.base import Sparsifier
from simulator.topologies.base import Topology
from simulator.units import BytesPerSecond, Ratio, Seconds

MAX_WORKERS = 2**17


class Named:
    """Annotation of a field that may be given by name: the file is read and takes the name's place."""

    def __init__(self, subfolder: str) -> None:
        self.subfolder = subfolder

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        def validate(value: Any, info: ValidationInfo) -> Any:
            return load_named(value, self.subfolder, info) if isinstance(value, str) else value

        return core_schema.with_info_before_validator_function(validate, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, handler(schema)]}


def load_named(name: str, subfolder: str, info: ValidationInfo) -> Any:
    """Read a named config; its mapping, with the layers of a workload read from their CSV file.

    Raises an input-error that carries every problem with its place in that file.
    """
    near = (info.context or {}).get("near")
    path = find(name, near)
    if path is None:
        problem = missing(name, "", subfolder).problems[0]
        raise expected(problem.expected, problem.got, problem.hint)
    try:
        document = read_document(path)
        data = document.data
        if path.name == TRACE_FILE and subfolder == "workloads":
            data = _recorded(document, path.parent)
        elif isinstance(data, dict) and isinstance(data.get("layers"), str):
            data = {**data, "layers": _layers(data["layers"], path.parent, document)}
        target = _TARGETS[subfolder]
        return target(data, {"units_required": True, "near": path.parent}, document)
    except InputError as error:
        raise PydanticCustomError("input_error", "{text}", {"text": str(error), "problems": error.problems}) from None


def _recorded(document: Document, folder: Path) -> dict[str, Any]:
    """A recorded trace as a workload: its layers with their times, and where its gradients are."""
    about = document.data if isinstance(document.data, dict) else {}
    missing_keys = [key for key in ("model", "batch_size") if key not in about]
    if missing_keys:
        raise InputError(Problem(document.where(()), "a trace with `model` and `batch_size`", f"no {missing_keys}"))
    return {
        "name": about["model"],
        "batch_size": about["batch_size"],
        "device": about.get("device", ""),
        "source": about.get("source", ""),
        "gradients": str(folder),
        "layers": _layers("layers.csv", folder, document),
    }


def _layers(name: str, folder: Path, document: Document) -> list[dict[str, Any]]:
    path = folder / name
    if not os.path.isfile(path):
        where = f"{document.where(('layers',))}: layers"
        raise InputError(Problem(where, "a CSV file beside this one", repr(name)))
    return read_layers(path)


def _validated(adapter: TypeAdapter[Any]) -> Callable[[Any, dict[str, Any], Document], Any]:
    def validate(data: Any, context: dict[str, Any], document: Document) -> Any:
        try:
            return adapter.validate_python(data, context=context)
        except ValidationError as error:
            raise InputError(problems_of(error, document)) from None

    return validate


class WorkloadSource(Spec):
    """A named workload at another batch size, or with the step that one GPU was measured to take."""

    trace: str
    batch_size: int | None = Field(default=None, ge=1)
    compute_time: Seconds | None = None
    input_time: Seconds = 0.0


class Stragglers(Spec):
    """How workers differ: random jitter of every worker's compute, and workers that are always slow.

    `jitter` is the standard deviation of a worker's forward and backward from iteration to iteration, relative to its
    mean; `distribution` its shape: `normal` (cut at a tenth of the mean), `lognormal`, `uniform`, or `exponential` (a
    tail on top of a floor, as from interrupts).
    """

    class Slow(Spec):
        """One worker whose compute takes `factor` times as long."""

        worker: int = Field(ge=0)
        factor: float = Field(gt=0, le=1000)

    jitter: Ratio = 0.0
    distribution: Literal["normal", "lognormal", "uniform", "exponential"] = "normal"
    slow: tuple[Slow, ...] = ()


class LinkCondition(Spec):
    """Links that carry less: all whose name is or starts with `link`, such as `node 3 NIC` or `leaf 0 to spine 1`.

    `factor` of the bandwidth is left (0: none) from `start` to `until`, in seconds of an iteration (default:
    throughout). A link that fails over is two of these: down, then at the backup's bandwidth.
    """

    link: str = Field(min_length=1)
    factor: float = Field(ge=0, le=1)
    start: Seconds = 0.0
    until: Seconds | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.until is not None and self.until <= self.start:
            raise expected("`until` after `start`", f"{self.start:g} s to {self.until:g} s")
        return self


class BackgroundTraffic(Spec):
    """Traffic of others between two nodes that never ends: at most `bandwidth`, sharing fairly."""

    source: int = Field(ge=0)
    destination: int = Field(ge=0)
    bandwidth: BytesPerSecond

    @model_validator(mode="after")
    def _two_nodes(self) -> Self:
        if self.source == self.destination:
            raise expected("two different nodes", f"{self.source} twice")
        return self


class OtherGpus(Spec):
    """Nodes with another GPU: selection and combining by its kernels, forward and backward times `factor`."""

    nodes: tuple[Annotated[int, Field(ge=0)], ...] = Field(min_length=1)
    gpu: Annotated[Gpu, Named("gpus")]
    factor: float = Field(gt=0, le=1000)


class Cluster(Spec):
    """The machines: nodes of GPUs, what joins them, and the software that runs on them."""

    nodes: int = Field(ge=1, le=MAX_WORKERS)
    gpus_per_node: int = Field(default=1, ge=1, le=1024)
    gpu: Annotated[Gpu, Named("gpus")]
    network: Annotated[Fabric, MemberOf(Fabric), Named("networks")]
    runtime: Annotated[Runtime, Named("runtimes")] = Runtime()
    stragglers: Stragglers = Stragglers()
    links: tuple[LinkCondition, ...] = ()
    background: tuple[BackgroundTraffic, ...] = ()
    other_gpus: tuple[OtherGpus, ...] = ()

    @property
    def workers(self) -> int:
        """GPUs in all, p."""
        return self.nodes * self.gpus_per_node

    @model_validator(mode="after")
    def _workers_exist(self) -> Self:
        if self.workers > MAX_WORKERS:
            raise expected(f"at most {MAX_WORKERS} workers", str(self.workers))
        outside = [item.worker for item in self.stragglers.slow if item.worker >= self.workers]
        if outside:
            raise expected(f"slow workers below {self.workers}", str(outside), "workers count from 0")
        named = [node for item in self.other_gpus for node in item.nodes]
        named += [node for item in self.background for node in (item.source, item.destination)]
        absent = sorted({node for node in named if node >= self.nodes})
        if absent:
            raise expected(f"nodes below {self.nodes}", str(absent), "nodes count from 0")
        return self


class Measured(Spec):
    """What was measured on this set-up; read by `validate`. `used_in_fit`: it served to fit a constant."""

    iteration_time: Seconds | None = None
    forward: Seconds | None = None
    backward: Seconds | None = None
    selection: Seconds | None = None
    communication: Seconds | None = None
    combine: Seconds | None = None
    update: Seconds | None = None
    source: str
    used_in_fit: bool | tuple[str, ...] = False


def _workload(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, dict) and "trace" in value:
        source = WorkloadSource.model_validate(value, context=info.context)
        workload = load_named(source.trace, "workloads", info)
        if source.batch_size is not None:
            workload = workload.rescaled(source.batch_size)
        return workload.model_copy(update={"compute_time": source.compute_time, "input_time": source.input_time})
    if isinstance(value, dict) and isinstance(value.get("layers"), str):
        near = (info.context or {}).get("near") or Path()
        if not os.path.isfile(near / value["layers"]):
            raise expected("layers in a CSV file beside this one", shown(value["layers"]))
        return {**value, "layers": read_layers(near / value["layers"])}
    return value


class OtherJob(Spec):
    """Another job beside this one: on GPUs of its own on some of the cluster's nodes, over the same wires.

    It iterates without end from `start` on, on the cluster's kind of GPU.
    """

    nodes: tuple[Annotated[int, Field(ge=0)], ...] = Field(min_length=1)
    gpus_per_node: int = Field(default=1, ge=1, le=1024)
    workload: Annotated[
        Workload,
        BeforeValidator(_workload, json_schema_input_type=Workload | WorkloadSource),
        Named("workloads"),
    ]
    topology: Annotated[Topology, MemberOf(Topology)]
    sparsifier: Annotated[Sparsifier, MemberOf(Sparsifier)]
    scheduler: Annotated[Scheduler, MemberOf(Scheduler)]
    runtime: Annotated[Runtime, Named("runtimes")] = Runtime()
    start: Seconds = 0.0


class CollectiveOrder(Spec):
    """The order in which one worker issues its buckets' collectives, by number in backward order from 0."""

    worker: int = Field(ge=0)
    buckets: tuple[Annotated[int, Field(ge=0)], ...] = Field(min_length=1)


class Mixture(Spec):
    """The overlap law as a mixture of scales with a core that all select; `sparsim trace fit` prints both."""

    spread: float = Field(gt=0, le=8)
    core: float = Field(ge=0, le=1)


class Scenario(Spec):
    """One question: this model, on this cluster, with this method. The same constructor in YAML and in Python.

    `versus` names what `run` compares with, as dotted keys and the values they take instead.
    """

    name: str = "unnamed"
    workload: Annotated[
        Workload,
        BeforeValidator(_workload, json_schema_input_type=Workload | WorkloadSource),
        Named("workloads"),
    ]
    cluster: Cluster
    topology: Annotated[Topology, MemberOf(Topology)]
    sparsifier: Annotated[Sparsifier, MemberOf(Sparsifier)]
    scheduler: Annotated[Scheduler, MemberOf(Scheduler)]
    overlap_concentration: float | None = Field(default=None, ge=0)
    overlap_mixture: Mixture | None = None
    iterations: int = Field(default=20, ge=1, le=100_000)
    warmup: int = Field(default=2, ge=0, le=100_000)
    seed: int = Field(default=0, ge=0, lt=2**63)
    fidelity: Literal["auto", "fold", "flows"] = "auto"
    other_jobs: tuple[OtherJob, ...] = ()
    collective_order: tuple[CollectiveOrder, ...] = ()
    measured: Measured | None = None
    question: str = ""
    versus: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _others_fit(self) -> Self:
        absent = sorted({node for job in self.other_jobs for node in job.nodes if node >= self.cluster.nodes})
        if absent:
            raise expected(f"nodes of other jobs below {self.cluster.nodes}", str(absent), "nodes count from 0")
        workers = [item.worker for item in self.collective_order if item.worker >= self.cluster.workers]
        if workers:
            raise expected(f"workers below {self.cluster.workers}", str(workers), "workers count from 0")
        if self.fidelity == "fold" and (self.other_jobs or self.cluster.background):
            raise expected("fidelity auto or flows", "fold", "traffic of others can only be shared with by flows")
        return self

    @property
    def concentration(self) -> Overlap:
        """The overlap law; independence unless one is stated."""
        if self.overlap_mixture is not None:
            return ScaleMixture(self.overlap_mixture.spread, self.overlap_mixture.core)
        return INDEPENDENT if self.overlap_concentration is None else self.overlap_concentration

    def resolved(self) -> dict[str, Any]:
        """Every key with its value, names replaced by what they name: enough to build the scenario again."""
        return self.model_dump(mode="json")

    @property
    def digest(self) -> str:
        """SHA-256 over all that a prediction depends on, with the engine's version: the identity of a point."""
        parts = {"workload": self.workload, "gpu": self.cluster.gpu, "network": self.cluster.network}
        parts |= {"runtime": self.cluster.runtime}
        inert = {"name", "measured", "question", "versus"}
        exclude = {key: True for key in (*inert, "workload")} | {"cluster": {"gpu", "network", "runtime"}}
        inputs = self.model_dump(mode="json", exclude=exclude)
        known = {name: part.fingerprint for name, part in parts.items()} | {"engine": engine_version()}
        return hashlib.sha256(json.dumps({**known, **inputs}, sort_keys=True).encode()).hexdigest()


_TARGETS = {
    "workloads": _validated(TypeAdapter(Workload)),
    "gpus": _validated(TypeAdapter(Gpu)),
    "networks": _validated(TypeAdapter(Annotated[Fabric, MemberOf(Fabric)])),
    "runtimes": _validated(TypeAdapter(Runtime)),
}


@cache
def engine_version() -> str:
    """Version of this package."""
    try:
        return version("sparsim")
    except PackageNotFoundError:
        return "0+unknown"


@cache
def _dependency_versions() -> tuple[tuple[str, str], ...]:
    return tuple((name, version(name)) for name in ("simpy", "numpy", "pydantic"))


def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    return {"sparsim": engine_version(), "python": platform.python_version(), **dict(_dependency_versions())}


def load(path: str | Path, overrides: tuple[str, ...] = ()) -> Scenario:
    """Read a scenario file (a path, or a name in ./scenarios or the package), with `a.b=c` overrides applied.

    Raises InputError with every problem found, each with file, line and column.
    """
    document, near = _opened_scenario(path)
    data = document.data
    for item in overrides:
        key, equals, text = item.partition("=")
        if not equals or not key:
            hint = "for example sparsifier.density=0.01"
            raise InputError(Problem(f"--set {item}", "key=value", shown(item), hint))
        data = replaced(data, key, parse_document(text, f"--set {key}").data, near)
    return scenario_of(data, document, near)


def load_versus(path: str | Path, overrides: tuple[str, ...] = ()) -> Scenario | None:
    """The scenario that `versus` describes: the file's own with those keys replaced; None without `versus`."""
    document, near = _opened_scenario(path)
    changes = document.data.get("versus")
    if not isinstance(changes, dict):
        return None
    data = {key: value for key, value in document.data.items() if key not in ("versus", "question", "measured")}
    for item in overrides:
        key, _, text = item.partition("=")
        data = replaced(data, key, parse_document(text).data, near)
    for key, value in changes.items():
        data = replaced(data, key, value, near)
    return scenario_of({**data, "name": "versus"}, document, near)


def scenario_of(data: Any, document: Document, near: Path) -> Scenario:
    """A validated scenario from parsed data. Raises InputError with every problem found."""
    try:
        return Scenario.model_validate(data, context={"units_required": True, "near": near})
    except ValidationError as error:
        raise InputError(problems_of(error, document)) from None


def _opened_scenario(path: str | Path) -> tuple[Document, Path]:
    found = find(str(path), None, "scenarios")
    if found is None:
        raise missing(str(path), "scenario", "", "scenarios")
    document = read_document(found)
    if not isinstance(document.data, dict):
        raise InputError(Problem(document.where(()), "a scenario: a mapping", shown(document.data)))
    return document, found.parent


def replaced(data: Any, key: str, value: Any, near: Path) -> Any:
    """A copy of `data` with the dotted `key` set; a name on the way is replaced by the mapping it names."""
    parts = key.split(".")
    copy = _copied(data)
    place = copy
    for depth, part in enumerate(parts[:-1]):
        child = _child(place, part, key)
        if isinstance(child, str):
            child = _opened(child, near)
        if child is None:
            child = {}
        if not isinstance(child, dict | list):
            where = ".".join(parts[: depth + 1])
            raise InputError(Problem(f"--set {key}", f"a mapping at {where}", shown(child)))
        child = _copied(child)
        place[int(part) if isinstance(place, list) else part] = child
        place = child
    if isinstance(place, list):
        _child(place, parts[-1], key)
        place[int(parts[-1])] = value
    else:
        place[parts[-1]] = value
    return copy


def _child(place: Any, part: str, key: str) -> Any:
    if isinstance(place, dict):
        return place.get(part)
    if not part.isdecimal() or int(part) >= len(place):
        raise InputError(Problem(f"--set {key}", f"an index below {len(place)}", part))
    return place[int(part)]


def _copied(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else list(value)


def _opened(name: str, near: Path) -> Any:
    """The mapping behind a config's name, or `{kind: name}` for a component."""
    path = find(name, near)
    if path is None:
        return {"kind": name}
    data = read_document(path).data
    if isinstance(data, dict) and isinstance(data.get("layers"), str):
        data = {**data, "layers": str((path.parent / data["layers"]).resolve())}
    return data
