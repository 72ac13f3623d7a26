"""From what is written, and its JSON Schema, to a workload: tensors, and their times on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

from simulator.architectures.building import Architecture
from simulator.architectures.config_json import read_config
from simulator.component import discover, expected, unknown_key_error
from simulator.errors import InputError, format_value, suggest_nearest
from simulator.files import write_yaml
from simulator.hardware.gpu import Gpu
from simulator.hardware.operator_times import OperatorClock
from simulator.loading.finding import CONFIG_FILE
from simulator.models.layers import Estimated, Layer, Workload
from simulator.models.operators import ARITHMETIC_BYTES, WHOLE, Description, ElementWise, Split
from simulator.models.precision import Precision
from simulator.models.small_cache import LatestResults, ResultsOfObjects

_OWN = ("device", "update_time", "estimated", "measured_precision", "layers")
SHARED = tuple(key for key in Workload.model_fields if key not in _OWN)
"""Keys of a workload that a described model has as well."""


def is_described(value: Any) -> bool:
    """Whether what is written describes a model."""
    return isinstance(value, dict) and ("model" in value or "config" in value)


def describe_workload(value: Mapping[str, Any], info: ValidationInfo) -> Workload:
    """The workload of a described model, whose layers have no times until `price` is told the GPU.

    Raises an expected-error for an unknown model, and ValidationError for keys that are wrong.
    """
    kinds = discover(Architecture)
    value = _with_config(value, (info.context or {}).get("near")) if "config" in value else value
    kind = value["model"]
    if not isinstance(kind, str) or kind not in kinds:
        hint = suggest_nearest(str(kind), kinds)
        raise expected("a kind of model", format_value(kind), hint)
    member = kinds[kind]
    known = {"model", *SHARED, *member.model_fields}
    unknown = [key for key in value if key not in known]
    if unknown:
        details = [InitErrorDetails(type=unknown_key_error(key, known), loc=(key,), input=None) for key in unknown]
        raise ValidationError.from_exception_data(kind, details)
    shared = {key: value[key] for key in SHARED if key in value}
    sizes = {key: value[key] for key in member.model_fields if key in value}
    workload = Workload.model_validate({**shared, "layers": [{"name": "none", "numel": 1}]}, context=info.context)
    architecture = cast(Architecture, member.model_validate(sizes, context=info.context))
    return of_architecture(architecture, workload)


def _with_config(value: Mapping[str, Any], near: Path | None) -> Mapping[str, Any]:
    """The keys of a config.json, where what is written beside it counts."""
    name = value["config"]
    if "model" in value or not isinstance(name, str):
        got = format_value(name) if "model" not in value else "both"
        raise expected("the path of a config.json, or a `model`", got)
    try:
        found = read_config(name, near)
    except InputError as error:
        raise PydanticCustomError("input_error", "{text}", {"text": str(error), "problems": error.problems}) from None
    called = Path(name).stem if Path(name).name != CONFIG_FILE else Path(name).parent.name or found.kind
    beside = {key: item for key, item in value.items() if key != "config"}
    notes = "; ".join(text for key, text in found.notes.items() if key not in beside)
    source = {"source": f"sizes of {name}" + (f": {notes}" if notes else "")}
    return {"name": called, **source, **found.sizes, **beside}


class Origin(NamedTuple):
    """What a described model was made from: its sizes, the keys of the workload that were written beside them, and how
    its layers are divided over GPUs, one of which it describes."""

    architecture: Architecture
    stated: frozenset[str]
    split: Split = WHOLE


def of_architecture(architecture: Architecture, workload: Workload) -> Workload:
    """A workload with the tensors of an architecture at its batch size; nothing else of it changes."""
    return _without_times(workload, Origin(architecture, frozenset(workload.model_fields_set)))


def describe_again(workload: Workload, changes: Mapping[str, Any]) -> Workload:
    """A described model with some keys of the workload changed, where they are not None; without times.

    At another batch size, its wait for data is in proportion. Raises an expected-error where sizes do not fit.
    """
    origin: Origin = workload.origin
    stated = {key: value for key, value in changes.items() if value is not None}
    if "batch_size" in stated and "input_time" not in stated and workload.input_time:
        stated["input_time"] = workload.input_time * stated["batch_size"] / workload.batch_size
    changed = workload.model_copy(update=stated)
    changed.refuse_unfit()
    return _without_times(changed, origin._replace(stated=origin.stated | {*stated}))


def recompute_fully(workload: Workload) -> Workload:
    """A described transformer that keeps only the inputs of its blocks, without times; any other workload as it is."""
    origin: Origin | None = workload.origin
    if origin is None or getattr(origin.architecture, "recompute", "full") == "full":
        return workload
    architecture = origin.architecture.model_copy(update={"recompute": "full"})
    return _without_times(workload, origin._replace(architecture=architecture))


def price(workload: Workload, gpu: Gpu, element_wise: ElementWise = "one_kernel") -> Workload:
    """A described model with the times of its layers on a GPU; any other workload as it is.

    `element_wise`: how the framework runs norms, rotary positions and gates (`Runtime.element_wise`). Each layer takes
    the sum of its operators (`simulator.hardware.operator_times`); on an ideal GPU none has a time.
    Raises an expected-error where the GPU does not state the rate of the model's arithmetic.
    """
    known = workload.estimated is not None and workload.estimated.element_wise == element_wise
    if workload.origin is None or (known and workload.device == _device(gpu)):
        return workload
    origin: Origin = workload.origin
    asked = (origin.architecture, workload.batch_size, workload.micro_batches, workload.precision, origin.split)
    layers, estimated = _PRICED.get(
        (*asked, element_wise, gpu.fingerprint), lambda: _priced(*asked, gpu=gpu, element_wise=element_wise)
    )
    return workload.model_copy(update={"layers": layers, "estimated": estimated, "device": _device(gpu)})


def written(workload: Workload, gpu: Gpu | None = None) -> Mapping[str, Any] | None:
    """A described model as it is written, from which it can be made again; None where it was changed since, or stated.

    `gpu`: for which it has times, if it has any. Quantities have their units.
    """
    if workload.origin is None:
        return None
    origin: Origin = workload.origin
    again = _without_times(workload, origin)
    as_before = workload.estimated.element_wise if workload.estimated is not None else "one_kernel"
    if (price(again, gpu, as_before) if gpu is not None else again) != workload:
        return None
    shared = workload.model_dump(mode="json", include=set(origin.stated) & {*SHARED})
    sizes = origin.architecture.model_dump(mode="json", exclude_none=True)
    return {"model": origin.architecture.kind, **shared, **sizes}


@lru_cache(maxsize=64)
def description_of(architecture: Architecture, samples: int, precision: Precision, split: Split = WHOLE) -> Description:
    """Tensors and operators; the same object for the same question. Raises an expected-error where sizes do not fit."""
    return architecture.describe(samples, precision, split)


def divide_layers(
    workload: Workload, split: Split, gpu: Gpu, element_wise: ElementWise
) -> tuple[Workload, Description]:
    """What one of the GPUs has of a described model whose layers they divide, with its times on `gpu`; and the
    operators of one of its passes. Raises an expected-error for a model whose layers cannot be divided so."""
    origin: Origin | None = workload.origin
    if origin is None or not origin.architecture.divides:
        got = "one whose layers are stated" if origin is None else f"model: {origin.architecture.kind}"
        known = ", ".join(
            kind for kind, each in discover(Architecture).items() if issubclass(each, Architecture) and each.divides
        )
        raise expected(f"a described model whose layers can be divided, for `parallelism`: {known}", got)
    part = price(_without_times(workload, origin._replace(split=split)), gpu, element_wise)
    return part, description_of(origin.architecture, workload.pass_size, workload.precision, split)


_PRICED: LatestResults[tuple[tuple[Layer, ...], Estimated | None]] = LatestResults(256)


def _priced(
    architecture: Architecture,
    samples: int,
    passes: int,
    precision: Precision,
    split: Split,
    *,
    gpu: Gpu,
    element_wise: ElementWise,
) -> tuple[tuple[Layer, ...], Estimated | None]:
    """The layers with the times of all passes, each over an equal part of the samples."""
    whole = description_of(architecture, samples, precision, split)
    if gpu.ideal:
        return _layers(whole), None
    made = description_of(architecture, samples // passes, precision, split)
    clock = OperatorClock(gpu, made.arithmetic, element_wise=element_wise)
    layers = tuple(
        Layer(
            name=tensor.name,
            numel=tensor.numel,
            rows=tensor.rows,
            by_product=tensor.by_product,
            frozen=tensor.frozen,
            shape=tensor.shape,
            forward=passes * clock.time(one.forward),
            backward=passes * clock.time(one.backward),
        )
        for tensor, one in zip(whole.tensors, made.tensors, strict=True)
    )
    return layers, clock.estimated(made)


def _without_times(workload: Workload, origin: Origin) -> Workload:
    made = description_of(origin.architecture, workload.batch_size, workload.precision, origin.split)
    changes: dict[str, Any] = {"layers": _layers(made), "measured_precision": workload.precision.gradients}
    changes |= {"estimated": None, "device": ""}
    if "activation_bytes" not in origin.stated:
        changes["activation_bytes"] = made.kept_bytes or None
    if "frozen_bytes" not in origin.stated:
        changes["frozen_bytes"] = float(ARITHMETIC_BYTES[made.arithmetic] * made.frozen) or None
    return workload.model_copy(update=changes).made_from(origin)


_bare: ResultsOfObjects[tuple[Layer, ...]] = ResultsOfObjects(64)


def _layers(made: Description) -> tuple[Layer, ...]:
    def make() -> tuple[Layer, ...]:
        each = made.tensors
        return tuple(
            Layer(one.name, one.numel, rows=one.rows, by_product=one.by_product, frozen=one.frozen, shape=one.shape)
            for one in each
        )

    return _bare.get((made,), make)


def _device(gpu: Gpu) -> str:
    return gpu.device or gpu.name


class OrDescribed:
    """Annotation of a workload that may be described instead: adds a schema for each kind of model.

    `named`: keys of a described model may also stand beside its name, as `trace`.
    """

    def __init__(self, *, named: bool = False) -> None:
        self.named = named

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return handler(source)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> Mapping[str, Any]:
        stated = handler.resolve_ref_schema(handler(Workload.__pydantic_core_schema__))["properties"]
        shared = {key: stated[key] for key in SHARED}
        choices: list[JsonSchemaValue] = [handler(schema)]
        sizes: JsonSchemaValue = {}
        for kind, member in discover(Architecture).items():
            entry = handler.resolve_ref_schema(handler(member.__pydantic_core_schema__))
            properties = {"model": {"const": kind}} | shared | entry.get("properties", {})
            sizes |= entry.get("properties", {})
            required = ["model", "batch_size", *entry.get("required", [])]
            choices.append(entry | {"properties": properties, "required": required, "title": kind})
        files = {"config": "A model as its config.json describes it; other keys count more than that file's."}
        files |= {"trace": "A described model by its name; other keys count more than its own."} if self.named else {}
        for key, description in files.items():
            choices.append(
                {
                    "title": key,
                    "description": description,
                    "type": "object",
                    "properties": {key: {"type": "string"}} | shared | sizes,
                    "required": [key, "batch_size"] if key == "config" else [key],
                    "additionalProperties": False,
                }
            )
        return {"anyOf": choices}


def write_workload(path: Path, workload: Workload) -> None:
    """Write a workload as YAML: a described model as its description, any other with its layers and their times."""
    made = written(workload) or workload.model_dump(mode="json", exclude_defaults=True)
    write_yaml(path, made, default_flow_style=None)
