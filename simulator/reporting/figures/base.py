"""The family of figures: the question that each answers, its tidy data, and how it is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

import pandas as pd

from simulator.component import Component, build, discover
from simulator.errors import InputError, Problem, suggest_nearest
from simulator.loading.documents import Document, validate_document
from simulator.reporting.figures.data.sources import DENSITY, KINDS, Source, read_csv, refuse_edited, varied
from simulator.reporting.figures.style.panels import Panels
from simulator.reporting.wording.blocks import method_name


class Figure(Component, family="figure"):
    """Base of all figures.

    `title` and `question` say what is shown, `takes` from which kinds of source (`sources.KINDS`), `columns` what each
    column of the data means, with its unit; `several` whether more than one source may be given. Fields are settings
    of the user. A member implements `collect` and `compose`.
    """

    title: ClassVar[str] = ""
    question: ClassVar[str] = ""
    takes: ClassVar[tuple[str, ...]] = ()
    columns: ClassVar[dict[str, str]] = {}
    several: ClassVar[bool] = False
    width: ClassVar[float] = 7.0
    height: ClassVar[float] = 4.3
    """Size on paper, inches."""

    def data(self, source: Source) -> pd.DataFrame:
        """The tidy table that the picture shows, with exactly `columns`; it is also written next to it as CSV.

        Raises InputError where the source does not hold what the figure needs.
        """
        if source.kind not in self.takes:
            raise self.refusal(source, " or ".join(KINDS[kind] for kind in self.takes), KINDS[source.kind])
        if source.others and not self.several:
            raise self.refusal(source, "one source", f"{1 + len(source.others)} sources")
        with refuse_edited(source.place, f"for figure {self.kind} results as sparsim writes them"):
            table = self.collect(source)
        if list(table.columns) != list(self.columns):
            raise TypeError(f"figure {self.kind}: columns {list(table.columns)}, declared {list(self.columns)}")
        if table.empty:
            raise self.refusal(source, "at least one value to show", "none")
        return table.reset_index(drop=True)

    def refusal(self, source: Source, wanted: str, got: str, hint: str = "") -> InputError:
        """The error to raise where this figure can't be drawn from a source."""
        return InputError(Problem(source.place, f"for figure {self.kind} {wanted}", got, hint))

    def read_rows(self, source: Source, name: str, columns: Sequence[str], hint: str) -> pd.DataFrame:
        """Columns of a CSV table in the folder of a run's result. Raises InputError where there is none."""
        path = source.folder / name if source.folder is not None else None
        if path is None or not path.is_file():
            raise self.refusal(source, f"a run with {name} in its folder", "none", hint)
        table = read_csv(path)
        if not set(columns) <= set(table.columns):
            raise self.refusal(source, f"{name} with {', '.join(columns)}", ", ".join(map(str, table.columns)))
        return table[list(columns)]

    def unique_points(self, source: Source, points: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
        """The first row of each combination of `keys`, which belongs to one point of the sweep.

        Raises InputError where one belongs to several, naming what else varies.
        """
        table = source.table
        if "digest" not in table:
            raise self.refusal(source, "a column digest", "none")
        groups = [points[name] for name in keys]
        several = table.groupby(groups, dropna=False)["digest"].transform("nunique") > 1
        if not several.any():
            return points.drop_duplicates(list(keys))
        own = {*keys, *([DENSITY] if "density" in keys else [])}
        others = [
            column
            for column in varied(table)
            if table[column].groupby(groups, dropna=False).nunique(dropna=False).max() > 1 and column not in own
        ]
        example = method_name(table.loc[several, others[0]].iloc[0]) if others else ""
        raise self.refusal(
            source,
            f"one point for each {' and '.join(keys)}",
            f"several, which differ in {', '.join(others) or 'the base'}",
            f"choose with --where '{others[0]}={example}'" if others else "",
        )

    def collect(self, source: Source) -> pd.DataFrame:
        """The tidy table. Raises InputError where the source lacks something."""
        raise NotImplementedError

    def compose(self, data: pd.DataFrame) -> Panels:
        """What the table looks like, on paper and in a page."""
        raise NotImplementedError


def figures() -> dict[str, type[Figure]]:
    """Every kind of figure, sorted."""
    return cast("dict[str, type[Figure]]", discover(Figure))


def figure_of(kind: str, settings: Mapping[str, Any] | None = None) -> Figure:
    """A figure by its kind. Raises InputError for an unknown kind or setting."""
    known = figures()
    if kind not in known:
        raise InputError(Problem("figure", "a kind of figure", repr(kind), suggest_nearest(kind, known)))
    document = Document(f"figure {kind}", {"kind": kind, **(settings or {})}, {})
    return validate_document(lambda value, context: build(Figure, value), document)
