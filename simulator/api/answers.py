"""What studies return: typed answers that show themselves in a line, in a notebook, and as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from simulator.answers import Answer
from simulator.api.texts import shorten
from simulator.records import asdict
from simulator.reporting.answers.advised import MethodAdvice
from simulator.reporting.answers.explained import ExplainedIteration
from simulator.reporting.answers.trained import TrainingQuality
from simulator.reporting.answers.validated import ValidatedModel
from simulator.units import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from simulator.reporting.wording.blocks import Block

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
