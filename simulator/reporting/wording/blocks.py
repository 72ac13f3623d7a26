"""Blocks: what an answer says, in the order in which it is read, in the words of its quantities; printers show them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from simulator.models.timeline import TERM_LABELS
from simulator.prediction.memory_parts import PART_LABELS
from simulator.prediction.result import column_keys
from simulator.records import Record
from simulator.reporting.wording.values import format_share, format_value


class Column(Record):
    """A column of a table: `kind` says how its values are shown (`values.KINDS`, or `bars`), `about` what it means.

    The cells of `bars` are the values of A and B as fractions of the longest bar. Where the first column is `text`, the
    terminal leaves a cell empty that is as the one above it.
    """

    key: str
    label: str
    kind: str = "text"
    about: str = ""


_KNOWN = {
    "iteration_time_interval_s.p5": ("90 % interval, from", "time"),
    "iteration_time_interval_s.p95": ("90 % interval, to", "time"),
    "throughput_samples_per_s": ("throughput (samples/s)", "number"),
    "scaling_efficiency": ("scaling efficiency", "share"),
    "communication_total_s": ("exposed and hidden communication", "time"),
    "waiting_s": ("waiting for the slowest worker, in all collectives", "time"),
    "traffic.sent_bytes_per_worker": ("sent per worker", "bytes"),
    "traffic.sent_bytes_per_worker_max": ("sent by the busiest worker", "bytes"),
    "traffic.total_bytes": ("sent by all workers and servers", "bytes"),
    "traffic.busiest_link.bytes": ("bytes over the busiest link", "bytes"),
    "traffic.busiest_link.utilisation": ("utilisation of the busiest link", "share"),
    "density.target": ("target density", "share"),
    "density.selected": ("selected density", "share"),
    "density.aggregated": ("aggregated density", "share"),
    "density.build_up": ("build-up", "number"),
    "density.padding": ("padding", "number"),
    "period.compute_utilisation": ("compute utilisation", "share"),
    "period.time_s": ("time of a period of local steps", "time"),
    "period.synchronisation_s": ("exchange of a period", "time"),
    "memory.least_bytes": ("memory, from", "bytes"),
    "memory.most_bytes": ("memory, to", "bytes"),
    "elastic.iteration_time_s": ("iteration time with all losses", "time"),
    "scheduler.inner_steps": ("local steps", "count"),
    "speed_up": ("speed-up over dense", "number"),
    "speed_up_interval.p5": ("speed-up, from", "number"),
    "speed_up_interval.p95": ("speed-up, to", "number"),
    "probability": ("probability to pay", "number"),
    "verdict": ("pays", "text"),
    "workers": ("workers", "count"),
    "precision": ("precision", "text"),
    "fidelity.tier": ("fidelity", "text"),
    "digest": ("digest", "text"),
}
_ABOUT = {
    "iteration_time_interval_s.p5": "5th percentile of the iteration time",
    "iteration_time_interval_s.p95": "95th percentile of the iteration time",
}
_UNITS = (("_bytes_per_s", "bandwidth"), ("_bytes", "bytes"), ("_s", "time"))


def describe(key: str) -> Column:
    """A key of a result, or a column of a sweep, in words.

    >>> describe("cluster.network.bandwidth_bytes_per_s").label, describe("breakdown_s.selection").kind
    ('network bandwidth', 'time')
    """
    about = _ABOUT.get(key) or (column_keys()[key].what.replace("`", "") if key in column_keys() else "varied")
    if key in _KNOWN:
        return Column(key, *_KNOWN[key], about)
    part, _, term = key.partition(".")
    if part in ("breakdown_s", "idle_s"):
        return Column(key, TERM_LABELS.get(term, term), "time", about)
    if term.startswith("parts_bytes."):
        name = term.removeprefix("parts_bytes.")
        return Column(key, PART_LABELS.get(name, _as_words(name)), "bytes", about)
    last = key.removeprefix("cluster.").removeprefix("period.").removeprefix("elastic.")
    for suffix, kind in _UNITS:
        if last.endswith(suffix):
            return Column(key, _as_words(last.removesuffix(suffix)), kind, about)
    return Column(key, _as_words(last), "percent" if last.endswith(".density") else "number", about)


def method_name(value: Any) -> str:
    """A sparsifier, or another part of a scenario, as a legend names it, from its kind or its JSON.

    >>> [method_name(item) for item in ("topk", '{"kind": "topk", "density": 0.01}', '{"kind": "qsgd", "bits": 4}')]
    ['topk', 'topk 1 %', 'qsgd bits 4']
    """
    text = str(value)
    if not text.startswith("{"):
        return text
    try:
        content = json.loads(text)
    except ValueError:
        return text
    parts = [str(content.pop("kind", ""))]
    density = content.pop("density", None)
    if density is not None:
        parts.append(format_share(density) if isinstance(density, int | float) else str(density))
    return " ".join([*parts, *(f"{key} {item}" for key, item in content.items())])


def format_varied(column: str, value: Any) -> str:
    """A value of a varied column: a number with its unit, anything else as `method_name` does.

    >>> format_varied("cluster.network.bandwidth_bytes_per_s", 1.25e9), format_varied("topology", "ring")
    ('10 Gbit/s', 'ring')
    """
    import pandas as pd  # heavy, and only for figures and pages

    if pd.isna(value):
        return "–"
    return format_value(describe(column).kind, value) if pd.api.types.is_number(value) else method_name(value)


def last_word(column: str) -> str:
    """The last part of a varied key, without its unit.

    >>> last_word("scheduler.partition_bytes"), last_word("cluster.network.bandwidth_bytes_per_s")
    ('partition', 'bandwidth')
    """
    return describe(column.rpartition(".")[2]).label


def _as_words(name: str) -> str:
    return name.replace(".", " ").replace("_", " ")


PRINTED = 40
"""Rows that the terminal prints of a table that may be long, and of which the first ones matter most."""


class BarColumn(Column):
    """A column of shares that are bars on the terminal: `longest` characters for 1, or as many as have room in a line
    in which `beside` characters are those of other columns."""

    kind: str = "bar"
    longest: int = 24
    beside: int = 0


def columns(kind: str, *labels: str, **named: str) -> tuple[Column, ...]:
    """Columns of one kind, whose keys are the words of their labels, or are given by name.

    >>> [column.key for column in columns("count", "points", "from iteration", n="rows")]
    ['points', 'from_iteration', 'n']
    """
    words = {label.replace(" ", "_").replace("-", "_"): label for label in labels}
    return tuple(Column(key, label, kind) for key, label in {**words, **named}.items())


class Table(Record):
    """A sortable table with all its rows; `choose` names the columns that it can be filtered by.

    A `folded` table is shown when the reader opens it. The terminal prints the first `most` rows, and those of
    `styles`, by their number, in bold or another style; a `listing` stays a table where words have to be broken for it;
    the column `dim` is less important than the others.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    choose: Sequence[str] = ()
    folded: bool = False
    most: int | None = None
    styles: Mapping[int, str] = {}
    listing: bool = False
    dim: int | None = None

    @classmethod
    def of(cls, title: str, columns: Sequence[Column], items: Iterable[Any], **more: Any) -> Table:
        """A table of records or mappings, whose fields or keys are those of the columns; cells may be missing."""
        return cls(title, columns, [[_cell(item, column.key) for column in columns] for item in items], **more)

    @classmethod
    def facts(cls, rows: Iterable[Sequence[str]], dim: int = 0) -> Table:
        """Names and values in columns without headings."""
        rows = list(rows)
        kinds = ["unbroken", *["words"] * (len(rows[0]) - 1)] if rows else []
        return cls("", [Column("", "", kind) for kind in kinds], rows, dim=dim)

    def text_rows(self) -> list[list[str]]:
        """The cells as text."""
        kinds = [column.kind for column in self.columns]
        return [[format_value(kind, value, "-") for kind, value in zip(kinds, row, strict=True)] for row in self.rows]


def _cell(item: Any, key: str) -> Any:
    return item.get(key) if isinstance(item, Mapping) else getattr(item, key)


Style = Literal["", "title", "dim", "item", "missing", "warning", "first line", "note", "command"]
"""A sentence, a heading, an aside, an entry of a list, what is left out, a warning, one cut to a line, a note, a
command to be copied."""


class Text(Record):
    """A text and what it is."""

    text: str
    style: Style = ""


Block = str | Text | Table
"""A plain text is a sentence; an empty one is an empty line."""


def texts(lines: Iterable[str], style: Style) -> Iterator[Text]:
    """Each line as a text of one style."""
    return (Text(line, style) for line in lines)


def markdown_table(table: Table, rule: str = "---") -> str:
    """The rows of a table below its headings, which `rule` stands under."""
    rows = [[column.label for column in table.columns], *table.text_rows()]
    cells = ([" ".join(text.split()).replace("|", "\\|") for text in row] for row in rows)
    head, *lines = (f"| {' | '.join(row)} |" for row in cells)
    return "\n".join([head, f"|{f'{rule}|' * len(table.columns)}", *lines])


def as_markdown(tables: Iterable[Table]) -> str:
    """Tables as Markdown, each with its title and its note."""
    parts = ((f"**{table.title}**", markdown_table(table, " --- "), table.note) for table in tables)
    return "\n\n".join(part for each in parts for part in each if part)
