"""What a person asks for when something is trained; nothing here needs PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from simulator.bounds import LearningRate, Seed
from simulator.component import Spec, build
from simulator.loading.documents import Document, parse_scalar, validate_document
from simulator.loading.replacing import parse_setting, replace_key
from simulator.models.layers import MAX_BATCH
from simulator.records import replace
from simulator.sparsifiers.base import Sparsifier

MAX_WORKERS, MAX_ITERATIONS = 4096, 10_000_000


class TrainingOptions(Spec):
    """One training: the keys of `sparsim record training --set`, and of the base of a study.

    With `local_steps: 1` the mean of what the workers send is the gradient of SGD with `momentum`, as PyTorch defines
    it: v = momentum v + g, w = w - learning_rate v. A method with a momentum of its own, such as DGC, replaces that of
    SGD. With H local steps per iteration, each worker takes H steps of this SGD by itself; the difference of its
    weights goes through the method, and the mean is applied by SGD with `outer_learning_rate` and `outer_momentum`.

    - `task`: a built-in task or a Python file.
    - `parameters`: keyword arguments for the functions of the task.
    - `method`: the sparsifier as a scenario writes it, or in one line, such as `topk 0.01 granularity=model`.
    - `error_feedback`: false empties the residual before every iteration.
    - `workers`: how many are trained, all in one process.
    - `batch_size`: samples per worker and iteration; by default that of the task.
    - `iterations`: exchanges in all.
    - `learning_rate`: by default that of the task.
    - `momentum`: of SGD.
    - `local_steps`: steps of every worker between two exchanges.
    - `outer_learning_rate`, `outer_momentum`: of SGD on the differences of weights, with several local steps.
    - `precision`: the format to which gradients are rounded before the exchange.
    - `evaluate_every`: iterations from one measurement of the metric to the next.
    - `seed`: of weights, batches and methods.
    """

    task: str
    parameters: dict[str, bool | int | float | str] = Field(default_factory=dict)
    method: dict[str, Any] = Field(default_factory=lambda: {"kind": "dense"})
    error_feedback: bool = True
    workers: int = Field(default=4, ge=1, le=MAX_WORKERS)
    batch_size: int | None = Field(default=None, ge=1, le=MAX_BATCH)
    iterations: int = Field(default=400, ge=1, le=MAX_ITERATIONS)
    learning_rate: LearningRate | None = None
    momentum: float = Field(default=0.9, ge=0, lt=1)
    local_steps: int = Field(default=1, ge=1, le=MAX_ITERATIONS)
    outer_learning_rate: LearningRate = 1.0
    outer_momentum: float = Field(default=0.0, ge=0, lt=1)
    precision: Literal["fp32", "fp16", "bf16"] = "fp32"
    evaluate_every: int = Field(default=20, ge=1, le=MAX_ITERATIONS)
    seed: Seed = 0

    @field_validator("method", mode="before")
    @classmethod
    def _read_method(cls, value: Any) -> Any:
        method = parse_method(value) if isinstance(value, str) else value
        if isinstance(method, Mapping):
            build(Sparsifier, method)
        return method

    @cached_property
    def sparsifier(self) -> Sparsifier:
        """The method as a member of the sparsifiers."""
        return build(Sparsifier, self.method)


def parse_method(text: str) -> Mapping[str, Any]:
    """A method that was written in one line: its kind, its density, and other parameters as `key=value`.

    >>> parse_method("topk 0.01 granularity=model")
    {'kind': 'topk', 'density': 0.01, 'granularity': 'model'}
    """
    kind, *words = text.split() or [""]
    pairs = (word.partition("=") for word in words)
    return {"kind": kind} | {
        key if equals else "density": parse_scalar(value if equals else key) for key, equals, value in pairs
    }


def read_options(data: Mapping[str, Any], overrides: Sequence[str] = ()) -> TrainingOptions:
    """Validated options from plain data and `key=value` overrides. Raises InputError with every problem."""
    changes = [parse_setting(item, "momentum=0.5") for item in overrides]
    return change_options(Document("sparsim record training", data, {}), changes)


def change_options(document: Document, changes: Iterable[tuple[str, Any]]) -> TrainingOptions:
    """The options in a document, with dotted keys set in order. Raises InputError with every problem."""
    data = document.data
    for key, value in changes:
        if isinstance(data.get("method"), str):
            data = data | {"method": parse_method(data["method"])}
        data = replace_key(data, key, value, Path())
    return validate_document(TrainingOptions.model_validate, replace(document, data=data))
