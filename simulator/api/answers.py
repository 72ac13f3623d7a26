"""Documents that studies return: mappings that show themselves in a line, in a notebook, and as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from simulator.answers import to_document
from simulator.api.texts import shorten
from simulator.units import count_of

if TYPE_CHECKING:
    import pandas as pd

_LINE = 400


class Answer(dict[str, Any]):
    """A document with the keys of the command's `--json`."""

    @classmethod
    def of(cls, answer: Any) -> Self:
        """An answer as plain mappings and lists."""
        return cls(to_document(answer))

    rows = ""
    """The key that holds the rows of its table."""

    @property
    def text(self) -> str:
        """The answer in words."""
        return ""

    def to_dict(self) -> dict[str, Any]:
        """A copy as plain mappings and lists."""
        from copy import deepcopy

        return deepcopy(dict(self))

    def to_frame(self) -> pd.DataFrame:
        """The rows of the answer as a table; keys of mappings are joined by dots."""
        import pandas as pd

        return pd.json_normalize(self[self.rows])

    def __repr__(self) -> str:
        name = shorten(str(self.get("scenario", "")), 100)
        parts = [part for part in (name, shorten(self.text, _LINE - len(name) - 40)) if part]
        return f"<{type(self).__name__} {'; '.join(parts)}>"

    def _repr_html_(self) -> str:
        from simulator.reporting.notebook import answer_html

        return answer_html(str(self.get("scenario", "")), self.text)


class Explanation(Answer):
    """Where the time of an iteration goes: `terms`, `counterfactuals`, `uncertainty`, `sensitivity`."""

    rows = "terms"

    @property
    def text(self) -> str:
        """The largest terms, and what would save most."""
        return str(self["summary"])

    def _repr_html_(self) -> str:
        from simulator.reporting.notebook import explanation_html

        return explanation_html(self)


class Advice(Answer):
    """What to use: `answer`, `recommended`, `ranking`, `break_even`, `reasons`."""

    rows = "ranking"

    @property
    def text(self) -> str:
        """What to use, and how sure that is."""
        return str(self["answer"])

    def _repr_html_(self) -> str:
        from simulator.reporting.notebook import advice_html

        return advice_html(self)


class Validation(Answer):
    """Predicted against measured: `rows`, `groups`, `overall`, `signs`."""

    rows = "rows"

    @property
    def text(self) -> str:
        """How many rows there are, and their errors."""
        overall, count = self["overall"], count_of(len(self["rows"]), "row")
        if overall.get("mape") is None:
            return f"{count}, none of them counted"
        return f"{count}; MAPE {100 * overall['mape']:.1f} %, bias {100 * overall['bias']:+.1f} %"


class Quality(Answer):
    """What trainings took to a target: `settings`, `laws`; with a scenario also `methods`, by time to the target."""

    rows = "settings"

    @property
    def text(self) -> str:
        """The target and where it was looked for; the answer where there is one."""
        return str(self.get("answer") or f"{self['target']} in {self['trainings']}")
