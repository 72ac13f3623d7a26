"""The figure family: what a picture answers, the tidy data behind it, and how it is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

import pandas as pd

from simulator.component import Component, build, discover
from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.reporting.figures.data.sources import KINDS, Source

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase


class Figure(Component, family="figure"):
    """Base of all figures.

    `title` and `question` say in words what is shown, `takes` from which kinds of source (`sources.KINDS`), `columns`
    what each column of the data means, its unit included; `several` whether more than one source may be given.
    Fields are what a user may set. A member implements `collect` and `draw`.
    """

    title: ClassVar[str] = ""
    question: ClassVar[str] = ""
    takes: ClassVar[tuple[str, ...]] = ()
    columns: ClassVar[dict[str, str]] = {}
    several: ClassVar[bool] = False
    width: ClassVar[float] = 7.0
    height: ClassVar[float] = 4.3
    """Inches, of the picture on paper."""

    def data(self, source: Source) -> pd.DataFrame:
        """The tidy table that the picture shows, with exactly `columns`; also what is written beside it as CSV.

        Raises InputError where the source does not hold what the figure needs.
        """
        if source.kind not in self.takes:
            raise self.refused(source, " or ".join(KINDS[kind] for kind in self.takes), KINDS[source.kind])
        if source.others and not self.several:
            raise self.refused(source, "one source", f"{1 + len(source.others)} of them")
        try:
            table = self.collect(source)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            # Results are files that anybody may have edited or cut.
            got = f"something else ({type(error).__name__}: {format_value(str(error))})"
            raise self.refused(source, "results as sparsim writes them", got) from error
        if list(table.columns) != list(self.columns):
            raise TypeError(f"figure {self.kind}: columns {list(table.columns)}, declared {list(self.columns)}")
        if table.empty:
            raise self.refused(source, "at least one value to show", "none")
        return table.reset_index(drop=True)

    def refused(self, source: Source, wanted: str, got: str, hint: str = "") -> InputError:
        """The error that this figure can't be drawn from a source."""
        return InputError(Problem(source.place, f"for figure {self.kind} {wanted}", got, hint))

    def collect(self, source: Source) -> pd.DataFrame:
        """The tidy table. Raises InputError where the source lacks something."""
        raise NotImplementedError

    def draw(self, data: pd.DataFrame, figure: FigureBase) -> None:
        """Draw the table into an empty matplotlib figure (or a part of one) that lays itself out."""
        raise NotImplementedError


def figures() -> dict[str, type[Figure]]:
    """Every kind of figure, sorted."""
    return cast("dict[str, type[Figure]]", discover(Figure))


def figure_of(kind: str, settings: dict[str, Any] | None = None) -> Figure:
    """A figure by its kind. Raises InputError for an unknown kind or setting."""
    from pydantic import ValidationError

    from simulator.loading.documents import Document
    from simulator.loading.problems import problems_of

    known = figures()
    if kind not in known:
        raise InputError(Problem("figure", "a kind of figure", repr(kind), suggest_nearest(kind, known)))
    try:
        return cast(Figure, build(Figure, {"kind": kind, **(settings or {})}))
    except ValidationError as error:
        raise InputError(problems_of(error, Document(f"figure {kind}", settings or {}, {}))) from None
