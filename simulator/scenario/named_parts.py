"""Parts of a scenario that may be given by the name of a file, which is read and takes the place of the name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationInfo,
)
from pydantic_core import PydanticCustomError, core_schema

from simulator.aliases import file_of
from simulator.architectures.describing import OrDescribed, describe_workload, is_described, written
from simulator.component import MemberOf, Spec, expected
from simulator.errors import InputError, Problem, format_value
from simulator.fabrics.base import Fabric
from simulator.hardware.gpu import Gpu
from simulator.hardware.runtime import Runtime
from simulator.loading.csv_tables import read_layers
from simulator.loading.documents import Document, parse_document, read_document, read_text, validate_document
from simulator.loading.finding import TRACE_FILE, find_file, find_in_folder, find_shipped, missing_file_error
from simulator.loading.replacing import parse_setting, replace_key, wrap_config
from simulator.models.layers import MAX_BATCH, MAX_MICRO_BATCHES, Layer, Since, Workload
from simulator.models.optimisers import NamedOptimiser
from simulator.models.precision import PrecisionField
from simulator.models.small_cache import ResultsOfObjects
from simulator.records import replace
from simulator.units import Ratio, Seconds


class Named:
    """Annotation of a field that may be given by the name of a file."""

    def __init__(self, subfolder: str) -> None:
        self.subfolder = subfolder

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        def validate(value: Any, info: ValidationInfo) -> Any:
            return load_named(value, self.subfolder, info) if isinstance(value, str) else value

        return core_schema.with_info_before_validator_function(validate, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, handler(schema)]}


def load_named(name: str, subfolder: str, info: ValidationInfo) -> Any:
    """Read a named config, with the layers of a workload from their CSV file.

    The latest are remembered as long as their texts are the same: rows of a study name the same parts again and again.
    Raises an input-error that carries every problem with its place in that file.
    """
    near = (info.context or {}).get("near")
    path = find_file(name, near) or find_file(file_of(subfolder, name), near)
    if path is None:
        problem = missing_file_error(name, subfolder, near=near is not None).problems[0]
        raise expected(problem.expected, problem.got, problem.hint)
    try:
        return _read_named(path, subfolder, name, near)
    except InputError as error:
        raise PydanticCustomError("input_error", "{text}", {"text": str(error), "problems": error.problems}) from None


_parts: ResultsOfObjects[Any] = ResultsOfObjects(64)


def _read_named(path: Path, subfolder: str, name: str, near: Path | None) -> Any:
    text, place = read_text(path), str(path)
    document = parse_document(text, place)
    data = wrap_config(document.data, name, path)
    if path.name == TRACE_FILE and subfolder == "workloads":
        data = _recorded(document, path.parent)
    elif data is not document.data:  # found from where it is named
        return _validate_part(subfolder, replace(document, data=data), near)
    elif isinstance(data, dict) and is_described(data):  # may name files of its own
        return _validate_part(subfolder, document, path.parent)
    elif isinstance(data, dict) and isinstance(data.get("layers"), str):
        data = {**data, "layers": _layers(data["layers"], path.parent, document)}
    layers, whole = data.get("layers") if isinstance(data, dict) else None, replace(document, data=data)
    table = layers if isinstance(layers, tuple) else None  # of a file of its own; all else is in the text
    return _parts.get((table,), lambda: _validate_part(subfolder, whole, path.parent), subfolder, place, text)


def _recorded(document: Document, folder: Path) -> dict[str, Any]:
    """A recorded trace as a workload: its layers with their times, and where its gradients are."""
    about = document.data if isinstance(document.data, dict) else {}
    absent = [key for key in ("model", "batch_size") if key not in about]
    if absent:
        raise InputError(
            Problem(document.where(()), "a trace with `model` and `batch_size`", f"no {', '.join(absent)}")
        )
    return {
        "name": about["model"],
        "batch_size": about["batch_size"],
        "device": about.get("device", ""),
        "source": about.get("source", ""),
        "gradients": str(folder),
        "layers": _layers("layers.csv", folder, document, times_needed=False),
    }


def _layers(name: str, folder: Path, document: Document, times_needed: bool = True) -> tuple[Layer, ...]:
    path = folder / name
    if not os.path.isfile(path):
        where = f"{document.where(('layers',))}: layers"
        raise InputError(Problem(where, "the name of a CSV file in the same folder", repr(name)))
    return read_layers(path, times_needed)


class WorkloadSource(Spec):
    """A named workload at another batch size, or with the measured time of one iteration on one GPU.

    Beside the name of a described model, all of its keys may stand.

    - `trace`: a config's name, or the folder of a recorded trace.
    - `batch_size`: samples per worker and step; times of the GPU change in proportion, those of the host do not.
    - `micro_batches`: forward and backward passes of a step, each over an equal part of the batch; none: as the named
      workload says. Times stay those of the whole batch in one pass.
    - `compute_time`: the measured step of one GPU: forward, backward and update; needed where the layers of a trace
      have no times, which then share it in proportion to their elements.
    - `input_time`: seconds that a step waits for its data; none: those of the named workload, in proportion to the
      batch.
    - `optimiser`: how weights are updated; none: as the named workload says.
    - `compute_slowdown`: how much slower this model's kernels run while a collective is running; none: the same.
    - `precision`: number formats of the training; none: as the named workload says. The times stay the same.
    - `compute_width`: factor by which forward and backward may be off here; none: judged by where they were measured.
    - `settled`: of a recorded trace, the iteration from which on its replay is priced; `auto`: that from which on the
      method has settled; 0: all of them.
    """

    trace: str
    batch_size: int | None = Field(default=None, ge=1, le=MAX_BATCH)
    micro_batches: int | None = Field(default=None, ge=1, le=MAX_MICRO_BATCHES)
    compute_time: Seconds | None = None
    input_time: Seconds | None = None
    optimiser: NamedOptimiser | None = None
    compute_slowdown: Ratio | None = None
    precision: PrecisionField | None = None
    compute_width: float | None = Field(default=None, ge=1, le=100)
    settled: Since | None = None


def workload_of(value: Any, info: ValidationInfo) -> Any:
    """A workload as it is written in a file: a named one, perhaps rescaled, or one whose layers are in a CSV file."""
    if isinstance(value, dict) and "trace" in value:
        named = load_named(value["trace"], "workloads", info) if isinstance(value["trace"], str) else None
        if named is not None and (sizes := written(named)) is not None:
            return describe_workload({**sizes, **{key: item for key, item in value.items() if key != "trace"}}, info)
        source = WorkloadSource.model_validate(value, context=info.context)
        workload = named or load_named(source.trace, "workloads", info)
        if source.compute_time is None and workload.compute_time is None and not workload.has_times:
            hint = f"the layers of {source.trace} have no times: give the step of one GPU, as in `compute_time: 9 ms`"
            raise expected("a compute_time", "none", hint)
        return _changed.get((workload,), lambda: _with_changes(workload, source), source.fingerprint)
    if isinstance(value, dict) and isinstance(value.get("layers"), str) and not is_described(value):
        path = find_in_folder(value["layers"], (info.context or {}).get("near"))
        if path is None:
            raise expected("the name of a CSV file with layers, in the same folder", format_value(value["layers"]))
        return {**value, "layers": read_layers(path, times_needed=True)}
    return described_or_stated(value, info)


_changed: ResultsOfObjects[Workload] = ResultsOfObjects(64)


def _with_changes(workload: Workload, source: WorkloadSource) -> Workload:
    if source.batch_size is not None:
        workload = workload.rescaled(source.batch_size)
    given = (name for name in WorkloadSource.model_fields if name not in ("trace", "batch_size"))
    changes = {name: value for name in given if (value := getattr(source, name)) is not None or name == "compute_time"}
    made = workload.model_copy(update=changes)
    made.refuse_unfit()
    return made


def described_or_stated(value: Any, info: ValidationInfo) -> Any:
    """A workload as it is written in a config: the description of a model, or stated layers."""
    return describe_workload(value, info) if is_described(value) else value


_TARGETS: dict[str, TypeAdapter[Any]] = {
    "workloads": TypeAdapter(Annotated[Workload, BeforeValidator(described_or_stated)]),
    "gpus": TypeAdapter(Gpu),
    "networks": TypeAdapter(Annotated[Fabric, MemberOf(Fabric)]),
    "runtimes": TypeAdapter(Runtime),
}


StatedWorkload = Annotated[
    Workload,
    BeforeValidator(workload_of, json_schema_input_type=Annotated[Workload, OrDescribed(named=True)] | WorkloadSource),
    Named("workloads"),
]
"""What is trained, in any of the forms that a person may write."""
WORKLOADS: TypeAdapter[Any] = TypeAdapter(StatedWorkload)


def read_gpu(name: str) -> Gpu:
    """A GPU by its name or file. Raises InputError with every problem and its place."""
    gpu: Gpu = read_part(name, "gpus")
    return gpu


def read_runtime(name: str) -> Runtime:
    """A runtime by its name or file. Raises InputError with every problem and its place."""
    runtime: Runtime = read_part(name, "runtimes")
    return runtime


def read_part(name: str, subfolder: str, where: str = "") -> Any:
    """A part by its name or file, with or without its `subfolder`; `where`: what asks for it, such as an option.

    Raises InputError with every problem and its place.
    """
    path = find_file(name, None) or find_file(file_of(subfolder, name), None)
    if path is None:
        full = name if name.startswith(f"{subfolder}/") else f"{subfolder}/{name}"
        raise missing_file_error(full, subfolder, where or subfolder.removesuffix("s"))
    return _validate_part(subfolder, read_document(path), path.parent)


def shipped_gpus() -> dict[str, Gpu]:
    """Every GPU that comes with the package, by the name of its file, in alphabetical order."""
    folder = find_shipped("configs/gpus")
    paths = sorted(folder.glob("*.yaml")) if folder else []
    return {path.stem: _validate_part("gpus", read_document(path), path.parent) for path in paths}


def _validate_part(subfolder: str, document: Document, near: Path | None) -> Any:
    return validate_document(_TARGETS[subfolder].validate_python, document, near)


def read_workload(name: str, overrides: tuple[str, ...] = (), batch_size: int | None = None) -> Workload:
    """A workload by its name, its YAML file, or the config.json of a model, with `key=value` overrides applied.

    `batch_size`: samples of a step; none: those of the workload, and 1 for a config.json. Raises InputError with every
    problem.
    """
    workload = _replaced(_as_written(name), overrides, name)
    if batch_size is None or batch_size == workload.batch_size:
        return workload
    if workload.origin is not None:
        return with_overrides(workload, (f"batch_size={batch_size}",))
    return workload.rescaled(batch_size)


def with_overrides(workload: Workload, overrides: tuple[str, ...]) -> Workload:
    """A described workload with `key=value` overrides applied. Raises InputError with every problem."""
    return _replaced(written(workload), overrides, workload.name) if overrides else workload


def _replaced(value: Any, overrides: tuple[str, ...], name: str) -> Workload:
    data: dict[str, Any] = {"workload": value}
    for item in overrides:
        key, changed = parse_setting(item, "layers=16")
        data = replace_key(data, f"workload.{key}", changed, Path())
    made: Workload = validate_document(WORKLOADS.validate_python, Document(name, data["workload"], {}))
    return made


def _as_written(name: str) -> str:
    """What would stand for this workload in a scenario."""
    for candidate in (name, f"workloads/{name}"):
        if find_file(candidate, None) is not None:
            return candidate
    raise missing_file_error(name if name.startswith("workloads/") else f"workloads/{name}", "workloads", "MODEL")
