"""Training configurations of other tools: the schedule of local steps that they really run."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from simulator.errors import InputError, Problem
from simulator.loading.documents import Document, read_document, read_text
from simulator.loading.problems import validate_document
from simulator.records import Record, replace
from simulator.schedulers.diloco import DiLoCo
from simulator.schedulers.local_sgd import LocalSGD
from simulator.schedulers.local_steps import LocalSteps
from simulator.schedulers.streaming_diloco import StreamingDiLoCo
from simulator.studies.start.training_scripts import read_script

MAX_STEPS = 1_000_000


class _Keys(BaseModel):
    """Keys of another tool; what has no influence on the schedule is ignored."""

    model_config = ConfigDict(extra="ignore", strict=True)


class FaultTolerance(_Keys):
    """Section `fault_tolerance` of torchtitan (pytorch/torchtitan, components/ft/config/job_config.py, at 2fc04c6f)."""

    enable: bool = False
    semi_sync_method: str | None = None
    sync_steps: int = Field(default=5, ge=1, le=MAX_STEPS)
    num_fragments: int = Field(default=1, ge=1, le=100_000)
    module_fqns_per_model_fragment: list[list[str]] = []
    fragment_sync_delay: int = Field(default=0, ge=0, le=MAX_STEPS)
    fragment_update_alpha: float = Field(default=0.0, ge=0, le=1)
    should_quantize: bool = False


class Torchtitan(_Keys):
    """What is read of a torchtitan configuration."""

    fault_tolerance: FaultTolerance = FaultTolerance()


class MaxText(_Keys):
    """Keys of MaxText (AI-Hypercomputer/maxtext, `DilocoParams` and the tutorial of DiLoCo, 2026)."""

    enable_diloco: bool = False
    enable_streaming_diloco: bool = False
    diloco_sync_period: int = Field(default=36, ge=1, le=MAX_STEPS)
    num_diloco_fragments: int | None = Field(default=None, ge=2, le=100_000)
    use_sequential_layers: bool = False
    num_communication_overlapping_steps: int = Field(default=0, ge=0, le=MAX_STEPS)
    communication_overlapping_alpha: float = Field(default=0.0, ge=0, le=1)


class Schedule(Record):
    """A scheduler as a scenario states it, and what a reader of the other tool's file might not expect."""

    scheduler: LocalSteps
    stated: int
    notes: tuple[str, ...]

    def text(self) -> str:
        """A piece of YAML for a scenario."""
        steps = self.scheduler.period.steps
        head = f"every tensor is exchanged once in {steps} inner steps"
        head += "" if steps == self.stated else f", not in {self.stated} as the file states"
        keys = self.scheduler.model_dump(mode="json", exclude_unset=True)
        lines = [f"# {line}" for line in (head, *self.notes)] + ["scheduler:", f"  kind: {self.scheduler.kind}"]
        return "\n".join(lines + [f"  {key}: {_scalar(value)}" for key, value in keys.items() if key != "kind"])


def _scalar(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_schedule(path: Path) -> Schedule:
    """The schedule of a torchtitan (.toml) or MaxText (.yml, .yaml) file, or of a script (.py) that uses torchft.

    Raises InputError for any other file, one that cannot be read, and one that the tool itself would refuse.
    """
    if path.suffix == ".toml":
        document = _read_toml(path)
        return _of_torchtitan(validate_document(Torchtitan.model_validate, document).fault_tolerance, document)
    if path.suffix in (".yml", ".yaml"):
        document = read_document(path)
        return _of_maxtext(validate_document(MaxText.model_validate, document), document)
    if path.suffix == ".py":
        return _of_script(path)
    what = "a .toml file of torchtitan, a .yml file of MaxText or a .py script with torchft"
    raise InputError(Problem(str(path), what, path.name))


def _of_script(path: Path) -> Schedule:
    """The schedule of a script: torchtitan's, whose section `fault_tolerance` holds the arguments of torchft."""
    keys, bucket = read_script(path)
    document = Document(str(path), {"fault_tolerance": keys}, {})
    made = _of_torchtitan(validate_document(Torchtitan.model_validate, document).fault_tolerance, document)
    if bucket is None:
        return made
    notes = tuple(note.replace("one exchange per tensor", "tensors travel in buckets") for note in made.notes)
    fields = made.scheduler.model_dump(exclude_unset=True) | {"bucket_size": bucket}
    return Schedule(type(made.scheduler).model_validate(fields), made.stated, notes)


def _read_toml(path: Path) -> Document:
    """A TOML file as data. Its parser gives no places of parts; of what is not TOML, the error states the line."""
    try:
        return Document(str(path), tomllib.loads(read_text(path)), {})
    except ValueError as error:
        raise InputError(Problem(str(path), "well-formed TOML", str(error))) from None
    except RecursionError:
        raise InputError(Problem(str(path), "less nesting", "too many levels")) from None


def _of_torchtitan(keys: FaultTolerance, document: Document) -> Schedule:
    """Steps of `torchft.local_sgd`: of P fragments one every H/P steps, its exchange started `delay` steps before."""
    where = f"{document.path}: fault_tolerance"
    method = (keys.semi_sync_method or "").lower()
    if not keys.enable or method not in ("diloco", "local_sgd"):
        got = f"enable = {_scalar(keys.enable)}, semi_sync_method = {method or 'none'}"
        hint = "without, gradients are exchanged in every step"
        raise InputError(Problem(where, "enable = true and semi_sync_method of diloco or local_sgd", got, hint))
    notes = ["one exchange per tensor; torchft keeps its copy on the host: state host_bandwidth"]
    steps = keys.sync_steps
    if method == "local_sgd":
        if keys.should_quantize:
            notes.append("should_quantize is not used by local_sgd")
        return Schedule(LocalSGD(inner_steps=steps), steps, tuple(notes))
    count, delay = len(keys.module_fqns_per_model_fragment) or keys.num_fragments, keys.fragment_sync_delay
    if steps % count:
        raise InputError(Problem(f"{where}.sync_steps", f"a multiple of the {count} fragments", str(steps)))
    if delay >= steps // count:
        raise InputError(Problem(f"{where}.fragment_sync_delay", f"below {steps // count}, H/P", str(delay)))
    if keys.should_quantize:
        notes.append("should_quantize: 8 bits travel; state a sparsifier such as quantised_all_reduce")
    if count == 1 and not delay:
        return Schedule(DiLoCo(inner_steps=steps), steps, tuple(notes))
    if count > 1:
        notes.append(f"one of {count} fragments every {steps // count} steps; pattern: neighbouring blocks")
    made = StreamingDiLoCo(
        inner_steps=steps, fragments=count, pattern="sequential", delay=delay, mixing=keys.fragment_update_alpha
    )
    return Schedule(made, steps, tuple(notes))


def _of_maxtext(keys: MaxText, document: Document) -> Schedule:
    """Steps of MaxText: of P fragments one every max(1, round(H/P)) steps, exchange and compute in one program."""
    steps, count, delay = keys.diloco_sync_period, keys.num_diloco_fragments, keys.num_communication_overlapping_steps
    if not keys.enable_diloco:
        hint = "without, gradients are exchanged in every step"
        raise InputError(Problem(document.where(("enable_diloco",)), "enable_diloco: true", "false", hint))
    if not keys.enable_streaming_diloco:
        return Schedule(DiLoCo(inner_steps=steps), steps, ())
    if count is None:
        raise InputError(Problem(document.path, "num_diloco_fragments beside enable_streaming_diloco", "no such key"))
    notes = [f"one of {count} fragments every {max(1, round(steps / count))} steps: max(1, round({steps} / {count}))"]
    if delay:
        notes.append("exchange and compute are one program, so that the delay hides nothing")
    fields = {
        "inner_steps": steps,
        "fragments": count,
        "pattern": "sequential" if keys.use_sequential_layers else "strided",
        "delay": delay,
        "mixing": keys.communication_overlapping_alpha,
        "one_program": True,
    }
    made = validate_document(StreamingDiLoCo.model_validate, replace(document, data=fields))
    return Schedule(made, steps, tuple(notes))
