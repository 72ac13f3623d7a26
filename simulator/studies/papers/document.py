"""The document of a paper: parts to carry out, figures to draw, and what the paper states beside what is found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from simulator.bounds import Count, Index
from simulator.component import Spec, expected
from simulator.errors import suggest_nearest
from simulator.loading.documents import Document, KeyPath, read_document, validate_document
from simulator.loading.finding import named_file
from simulator.records import Record, replace
from simulator.scenario.conditions import COMPARE, number_of

PAPERS = "scenarios/papers"
NOT_STATED = "not stated in what could be read"
UNITS = {"time": "s", "share": "share", "times": "times", "number": "number", "bytes": "B"}
"""The unit of a figure by how it is written."""
STUDIES = ("sweep", "build_up", "distribution", "training", "quality")
"""Keys of a part that say how it is carried out; a part has one of them."""
Stated = Annotated[float, Field(ge=-1e18, le=1e18)]


class ComputedFigure(Spec):
    """One figure, computed from the rows of a part.

    - `what`: it is.
    - `column`: of the rows.
    - `where`: which rows, by column; a value, a list of values, or comparisons, as under `skip` of a sweep.
    - `per`: a second column, by which the first one is divided row by row.
    - `take`: what is made of the rows.
    - `over`: the figure is divided by that of the rows that meet these conditions as well, instead of those of `where`
      with the same columns.
    - `lowest`: only the row in which this column is the lowest, such as the iteration time of the fastest method.
    - `show`: how it is written: seconds, a share in percent, a factor, a number, bytes, or text.
    """

    what: str
    column: str
    where: dict[str, Any] = Field(default_factory=dict)
    per: str = ""
    take: Literal["first", "last", "mean", "median", "min", "max"] = "last"
    over: dict[str, Any] | None = None
    lowest: str = ""
    show: Literal["time", "share", "times", "number", "bytes", "text"] = "number"


class MeasuredFigure(ComputedFigure):
    """A figure of another part, which stands in a sweep as `$NAME`; `part` is that other part."""

    part: str


class Statement(Spec):
    """What the paper states, and what is found here.

    - `says`: in short, in our own words; nothing: it is not stated in what could be read.
    - `place`: where the paper says it.
    - `source`: what was read there; none: that of the paper.
    - `value`: what it comes to: a number, which is met within 1 %, or comparisons as under `skip` of a sweep, such as
      `at_most: 1.58` for "up to 1.58" and `above: 1` for "faster" without a figure; none: no figure follows from it.
    - `unit`: of the value: that of the first figure in `found`, which the value is compared with.
    - `by_kernel`: whether the figures depend on the selection kernel; they are then found for each of the paper's.
    - `found`: figures of the part.
    - `note`: what the figures mean, and why they differ from what the paper states.
    """

    says: str = NOT_STATED
    place: str = ""
    source: str = ""
    value: Stated | str | dict[str, Stated | str] | None = None
    unit: str = ""
    by_kernel: bool = False
    found: tuple[ComputedFigure, ...] = Field(min_length=1)
    note: str = ""

    def refuse_unfit(self) -> None:
        if self.says != NOT_STATED and not self.place:
            raise expected("the `place` in the paper where this is said", "nothing")
        if self.value is None:
            return
        if self.says == NOT_STATED:
            raise expected("`says` and `place` of a value that is stated", "only the value")
        unit = UNITS.get(self.found[0].show)
        if self.unit != unit:
            raise expected(f"the unit of the first of `found`: {unit or 'none, it is text'}", self.unit or "none")
        if not self.bounds:
            raise expected("a number, or comparisons: above, at_least, below, at_most", str(self.value))

    @property
    def bounds(self) -> dict[str, float]:
        """The stated value as comparisons; a number stands under `equal`. Empty where it is none of them."""
        given = self.value if isinstance(self.value, dict) else {"equal": self.value}
        read = {word: number_of(bound) for word, bound in given.items() if word in (*COMPARE, "equal")}
        if len(read) < len(given):
            return {}
        return {word: bound[0] for word, bound in read.items() if bound is not None}


class PaperFigure(Spec):
    """A figure of a part.

    - `kind`: of the figure (`sparsim list figures`).
    - `settings`: of the figure.
    - `where`: rows of a sweep, by column.
    - `names`: shorter names for texts in the table of the figure, such as those of its lines.
    """

    kind: str
    settings: dict[str, Any] = Field(default_factory=dict)
    where: dict[str, Any] = Field(default_factory=dict)
    names: dict[str, str] = Field(default_factory=dict)


class BuildUpStudy(Spec):
    """Methods that are replayed over a trace on several numbers of workers.

    - `trace`: its folder, or the name of a shipped one.
    - `methods`: the sparsifiers, as a scenario writes them.
    - `workers`: how many of the recorded workers; none: 1, 2, 4, ... up to all of them.
    """

    trace: str
    methods: tuple[dict[str, Any], ...] = Field(min_length=1)
    workers: tuple[Count, ...] = ()


class DistributionStudy(Spec):
    """The distribution of gradient plus residual in a replay of one method.

    - `trace`: its folder, or the name of a shipped one.
    - `method`: the sparsifier, as a scenario writes it.
    - `iterations`: the recorded iterations to look at.
    - `layers`: tensors to look at, each on its own; none: the whole model.
    """

    trace: str
    method: dict[str, Any]
    iterations: tuple[Index, ...] = Field(min_length=1)
    layers: tuple[str, ...] = ()


class QualityStudy(Spec):
    """Time to a target: iterations of the trainings of a part, times the predicted time of one iteration.

    - `trainings`: the part that trains.
    - `target`: a value of the loss or of the metric, such as `accuracy 0.9`.
    - `scenario`: the model and the cluster of the predicted iteration, in place or by name.
    """

    trainings: str
    target: str
    scenario: dict[str, Any] | str


class PaperPart(Spec):
    """One experiment of a paper; it has one of the keys `sweep`, `build_up`, `distribution`, `training`
    and `quality`.

    - `name`: of its files.
    - `shows`: what it is about.
    - `sweep`: a sweep, as in a file of `sparsim sweep`.
    - `measured`: figures of another part by name; `$NAME` in the sweep stands for the figure.
    - `build_up`: methods on recorded gradients.
    - `distribution`: the distribution of what a method selects from.
    - `training`: a study of trainings, as in a file of `sparsim record training`.
    - `shipped`: a ZIP file beside the document with these trainings, the folders that this part leaves (training.yaml
      and curve.csv of each), which are then read and not made again.
    - `quality`: the time to a target, from the trainings of another part.
    - `figures`: that are drawn from it.
    - `states`: what the paper says about it, and what is found.
    - `quick`: keys of the part with smaller values, for a first look (`--quick`).
    """

    name: str = Field(pattern=r"^[a-z0-9_]+$")
    shows: str
    sweep: dict[str, Any] | None = None
    measured: dict[str, MeasuredFigure] = Field(default_factory=dict)
    build_up: BuildUpStudy | None = None
    distribution: DistributionStudy | None = None
    training: dict[str, Any] | None = None
    shipped: str = ""
    quality: QualityStudy | None = None
    figures: tuple[PaperFigure, ...] = ()
    states: tuple[Statement, ...] = Field(min_length=1)
    quick: dict[str, Any] = Field(default_factory=dict)

    @property
    def study(self) -> str:
        """Which of `STUDIES` the part is; several or none while it is read."""
        return ", ".join(name for name in STUDIES if getattr(self, name) is not None)

    def refuse_unfit(self) -> None:
        if self.study not in STUDIES:
            raise expected(f"one of {', '.join(STUDIES)}", self.study or "none")


class Paper(Spec):
    """A published piece of work and the experiments that are set up again.

    - `title`: of the work.
    - `citation`: authors, year, where it was published, and its number.
    - `read`: what of it could be read.
    - `source`: where its statements were read, if they name no other.
    - `kernels`: kernels of the selection by name, the oldest first and today's last, each with the conditions by which
      its rows are chosen.
    - `kernel`: the one of the paper's software, or of its year where that is not known.
    - `parts`: its experiments.
    """

    title: str
    citation: str
    read: str
    source: str = Field(min_length=1)
    kernels: dict[str, dict[str, Any]] = Field(default_factory=dict)
    kernel: str = ""
    parts: tuple[PaperPart, ...] = Field(min_length=1)

    def refuse_unfit(self) -> None:
        names = [part.name for part in self.parts]
        if len(set(names)) < len(names):
            raise expected("parts with different names", ", ".join(names))
        if self.kernels and self.kernel not in self.kernels:
            raise expected(f"a `kernel` of the paper's software: {', '.join(self.kernels)}", self.kernel or "none")
        if not self.kernels and any(item.by_kernel for part in self.parts for item in part.states):
            raise expected("`kernels` of a paper with figures by kernel", "none")
        trained = [part.name for part in self.parts if part.training is not None]
        for part in self.parts:
            for figure in part.measured.values():
                if figure.part not in names or figure.part == part.name:
                    raise expected("another `part` of the paper", figure.part, suggest_nearest(figure.part, names))
            if part.quality is not None and part.quality.trainings not in trained:
                raise expected("the name of a part that trains", part.quality.trainings, suggest_nearest("", trained))


class PaperDocument(Record):
    """A paper as it was read: its name, its contents, and the file that they are in."""

    name: str
    paper: Paper
    document: Document

    def part_document(self, number: int, key: str, measured: Mapping[str, float] | None = None) -> Document:
        """One key of a part as a document of its own, whose places are those in the file of the paper.

        `measured`: figures that stand in it as `$NAME`.
        """
        start: KeyPath = ("parts", number, key)
        marks = {path[len(start) :]: mark for path, mark in self.document.marks.items() if path[: len(start)] == start}
        data = _with_measured(getattr(self.paper.parts[number], key), measured or {})
        return replace(self.document, data=data, marks=marks)


def _with_measured(value: Any, measured: Mapping[str, float]) -> Any:
    """A study with figures in the place of their names.

    >>> _with_measured({"kind": "exdyna", "padding": "$uneven"}, {"uneven": 1.5})
    {'kind': 'exdyna', 'padding': 1.5}
    """
    if isinstance(value, Mapping):
        return {key: _with_measured(item, measured) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_measured(item, measured) for item in value]
    return measured.get(value[1:], value) if isinstance(value, str) and value.startswith("$") else value


def read_paper(name: str, quick: bool = False) -> PaperDocument:
    """The document of a paper, by its name or file; `quick`: with the smaller values of its parts.

    Raises InputError with every problem and its place.
    """
    found = named_file(name, PAPERS)
    document = read_document(found)
    data: Any = document.data
    if quick and isinstance(data, Mapping) and isinstance(data.get("parts"), list):
        # What a part has under `quick` is put over the part.
        parts = [_merged(part, part.get("quick")) if isinstance(part, Mapping) else part for part in data["parts"]]
        document = replace(document, data={**data, "parts": parts})
    return PaperDocument(found.stem, validate_document(Paper.model_validate, document, found.parent), document)


def _merged(value: Any, changes: Any) -> Any:
    """A mapping with the changes, which go into its inner mappings; anything else is replaced.

    >>> _merged({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}})
    {'a': {'b': 3, 'c': 2}}
    """
    if not isinstance(value, Mapping) or not isinstance(changes, Mapping):
        return value if changes is None else changes
    return {**value, **{key: _merged(value.get(key), change) for key, change in changes.items()}}
