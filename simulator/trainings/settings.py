"""What of a training sets its length: method, density, workers, batch and learning rates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from simulator.component import discover
from simulator.records import Record
from simulator.sparsifiers.base import Sparsifier
from simulator.sparsifiers.dense import Dense
from simulator.trainings.runs import TrainingSpec
from simulator.units import count_of

Tuning = tuple[float, float, float, float]
"""Learning rate and momentum, and those of the outer optimiser where there are local steps."""
_NOT_LEARNT = ("kind", "density", "implementation")
"""What a method's parameters are besides the recipe: whose code carries it out changes no weight."""


class Recipe(Record, order=True):
    """What is trained and how, but for the density, the workers and the batch, over which a law is fitted."""

    task: str
    elements: int
    kind: str
    parameters: str
    error_feedback: bool
    local_steps: int
    precision: str

    @property
    def name(self) -> str:
        """The method in words: its kind, the parameters that are not its defaults, and how else it was trained."""
        parts = [self.kind, *(f"{key}={value}" for key, value in json.loads(self.parameters).items())]
        parts += [] if self.error_feedback else ["without error feedback"]
        parts += [f"with {self.local_steps} local steps"] if self.local_steps > 1 else []
        parts += [f"in {self.precision}"] if self.precision != "fp32" else []
        return " ".join(parts)


class Setting(Record, order=True):
    """One point at which trainings were made. `density`: 1 for a method that has none."""

    recipe: Recipe
    density: float
    workers: int
    batch_size: int

    @property
    def method(self) -> str:
        """The method with its density: `topk 0.01`."""
        kind, _, rest = self.recipe.name.partition(" ")
        density = f"{self.density:.4g}" if self.has_density else ""
        return " ".join(part for part in (kind, density, rest) if part)

    @property
    def words(self) -> str:
        """The setting in words: `topk 0.01 with 8 workers and batch 32`."""
        return f"{self.method} with {count_of(self.workers, 'worker')} and batch {self.batch_size}"

    @property
    def has_density(self) -> bool:
        """Whether the method has a density."""
        return "density" in discover(Sparsifier)[self.recipe.kind].model_fields

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of the method that are not its defaults, with its density."""
        return dict(json.loads(self.recipe.parameters)) | ({"density": self.density} if self.has_density else {})


def recipe_of(spec: TrainingSpec) -> Recipe:
    """The recipe of a training; parameters of its task make it another task."""
    member = spec.sparsifier
    task = " ".join([spec.task, *(f"{key}={value}" for key, value in sorted(spec.parameters.items()))])
    # Dense sends everything, so that error feedback has nothing to keep.
    fed_back = spec.error_feedback or member.kind == Dense.kind
    return Recipe(
        task, spec.elements, member.kind, changed_parameters(member), fed_back, spec.local_steps, spec.precision
    )


def setting_of(spec: TrainingSpec) -> Setting:
    """The setting of a training."""
    density = float(getattr(spec.sparsifier, "density", 1.0))
    return Setting(recipe_of(spec), density, spec.workers, spec.batch_size)


def tuning_of(spec: TrainingSpec) -> Tuning:
    """Learning rate and momentum of a training, inner and outer."""
    return spec.learning_rate, spec.momentum, spec.outer_learning_rate, spec.outer_momentum


def changed_parameters(member: Sparsifier) -> str:
    """The parameters of a method that are not its defaults and change what is learnt, as JSON."""
    given = member.model_dump(mode="json", exclude_defaults=True)
    return json.dumps({key: given[key] for key in sorted(given) if key not in _NOT_LEARNT})
