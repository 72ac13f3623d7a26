"""Studies of one scenario in any form, and the typed answers that they return: in a line, in a notebook, as a table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from simulator.answers import Answer
from simulator.records import asdict
from simulator.reporting.answers.advised import MethodAdvice
from simulator.reporting.answers.explained import ExplainedIteration
from simulator.reporting.answers.trained import TrainingQuality
from simulator.reporting.answers.validated import ValidatedModel
from simulator.scenario.reading import ScenarioSource, load
from simulator.scenario.scenario import Scenario
from simulator.units import count_of, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from simulator.reporting.wording.blocks import Block
    from simulator.studies.advice.candidates import Grid
    from simulator.studies.quality.iterations import MeasuredIterations


_LINE = 400


class ShownAnswer(Answer):
    """An answer whose figures are attributes; `to_dict()` is the document that the command prints with `--json`."""

    table: ClassVar[str]
    """The field that holds the rows of its table."""

    @classmethod
    def of(cls, answer: Answer) -> Self:
        """What a study answers, as it shows itself in Python."""
        return cls(**asdict(answer))

    @property
    def text(self) -> str:
        """The answer in words."""
        raise NotImplementedError

    def to_frame(self) -> pd.DataFrame:
        """The rows of the answer as a table; keys of mappings are joined by dots."""
        import pandas as pd

        return pd.json_normalize(self.to_dict()[self.table])

    def __repr__(self) -> str:
        name = shorten(getattr(self, "scenario", None) or "", 100)
        parts = [part for part in (name, shorten(self.text, _LINE - len(name) - 40)) if part]
        return f"<{type(self).__name__} {'; '.join(parts)}>"

    def _blocks(self) -> Iterable[Block]:
        """What a notebook shows."""
        from simulator.reporting.wording.blocks import texts

        return [*texts(filter(None, [getattr(self, "scenario", None)]), "title"), self.text]

    def _repr_html_(self) -> str:
        from simulator.reporting.notebook import blocks_html

        return blocks_html(self._blocks())


class Explanation(ShownAnswer, ExplainedIteration):
    """Where the time of an iteration goes: `terms`, `counterfactuals`, `uncertainty`, `sensitivity`."""

    table = "terms"

    @property
    def text(self) -> str:
        """The largest terms, and what would save most."""
        return self.summary

    def _blocks(self) -> Iterable[Block]:
        from simulator.reporting.wording.explanation import explanation_blocks

        return explanation_blocks(self, ["terms", "formulas"])


class Advice(ShownAnswer, MethodAdvice):
    """What to use: `answer`, `recommended`, `ranking`, `break_even`, `reasons`."""

    table = "ranking"

    @property
    def text(self) -> str:
        """What to use, and how sure that is."""
        return self.answer

    def _blocks(self) -> Iterable[Block]:
        from simulator.reporting.wording.advice import ranking_blocks

        return [*super()._blocks(), *ranking_blocks(self)]


class Validation(ShownAnswer, ValidatedModel):
    """Predicted against measured: `rows`, `groups`, `overall`, `signs`."""

    table = "rows"

    @property
    def text(self) -> str:
        """How many rows there are, and their errors."""
        overall, count = self.overall, count_of(len(self.rows), "row")
        if overall.mape is None or overall.bias is None:
            return f"{count}, none of them counted"
        return f"{count}; MAPE {100 * overall.mape:.1f} %, bias {100 * overall.bias:+.1f} %"


class Quality(ShownAnswer, TrainingQuality):
    """What trainings took to a target: `settings`, `laws`; with a scenario also `methods`, by time to the target."""

    table = "settings"

    @property
    def text(self) -> str:
        """The target and where it was looked for; the answer where there is one."""
        return self.answer or f"{self.target} in {self.trainings}"


def explain(source: ScenarioSource, /, **overrides: Any) -> Explanation:
    """Where the time of one iteration goes, as `sparsim explain`: terms that sum to it, and what would change it.

    `source` and `overrides` as for `run`. Raises InputError where the parts of the scenario cannot work together.
    """
    from simulator.studies.explain.explanation import explain as study

    return Explanation.of(study(load(source, overrides)))


def advise(
    source: ScenarioSource,
    /,
    iterations_to_target: Mapping[str, float] | MeasuredIterations | None = None,
    grid: Grid | None = None,
    exhaustive: int | None = None,
    *,
    processes: int | None = None,
    **overrides: Any,
) -> Advice:
    """Which method, schedule and topology to use, as `sparsim advise`, and where compression starts to pay.

    `source` and `overrides` as for `run`. `iterations_to_target`: iterations that your training needs with each method
    (`{"dense": 1000, "topk 0.01": 1100}`); the ranking is then by time to the target. `grid` and `exhaustive`: the
    combinations to choose from, and up to how many of them are tried completely. `processes`: how many predict
    (default: one per core, where copies of this process can be made); the answer is the same.

    Raises InputError where the parts cannot work together, or for an unknown method.
    """
    from simulator.studies.advice.advice import advise as study
    from simulator.studies.advice.search import EXHAUSTIVE

    most = EXHAUSTIVE if exhaustive is None else exhaustive
    return Advice.of(study(load(source, overrides), iterations_to_target, grid, most, processes=processes))


def validate(*places: ScenarioSource | Sequence[ScenarioSource], processes: int | None = None) -> Validation:
    """Predictions against measurements, as `sparsim validate`: scenarios with `measured:`, in files, folders or Python.

    Without arguments, the measurements that come with the package. `processes` as for `advise`. Raises InputError with
    every problem of every file.
    """
    from simulator.studies.validate.validation import validate as study

    given: list[Any] = []
    for place in places:
        given += place if isinstance(place, list | tuple) else [place]
    paths = [os.fspath(item) for item in given if isinstance(item, str | os.PathLike)]
    scenarios = [load(item) for item in given if not isinstance(item, str | os.PathLike)]
    return Validation.of(study(paths, scenarios, processes=processes))


def quality(
    trainings: str | os.PathLike[str],
    target: str,
    scenario: ScenarioSource | None = None,
    *,
    task: str = "",
    workers: int = 0,
    batch_size: int = 0,
    dense_iterations: float | None = None,
    price: float | None = None,
    **overrides: Any,
) -> Quality:
    """What trainings took to a target such as `loss 0.4`, as `sparsim quality`; with a scenario, the time to it.

    `trainings`: a folder of `sparsim record training`, or a table of iterations. `scenario`, `overrides`: as for `run`.
    `task`, `workers` and `batch_size` say where iterations are looked up, `price` is that of one GPU for an hour.

    Raises InputError where the target was not reached or lies outside of what was run.
    """
    from simulator.studies.quality.observations import parse_target
    from simulator.studies.quality.quality import describe_quality
    from simulator.studies.quality.study import read_study

    study = read_study(os.fspath(trainings), parse_target(target))
    loaded: Scenario | None = None if scenario is None else load(scenario, overrides)
    settings: dict[str, Any] = {"task": task, "workers": workers, "batch_size": batch_size}
    return Quality.of(describe_quality(study, loaded, **settings, dense_iterations=dense_iterations, price=price))
