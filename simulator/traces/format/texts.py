"""The text files of a trace folder: trace.yaml, layers.csv and union.csv, read and checked."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from simulator.component import Spec
from simulator.errors import Problem, format_value
from simulator.models.layers import Layer
from simulator.models.limits import MAX_LAYERS

MAX_YAML_BYTES = 2**20
MAX_CSV_BYTES = 2**26
MAX_DEPTH = 20
MAX_PROBLEMS = 20

_MAX_DIMENSIONS = 64
_SECONDS = "seconds, 0 or more"

S = TypeVar("S", bound=Spec)


@dataclass(frozen=True, slots=True)
class UnionPoint:
    """A measured union: the share of coordinates that at least one of `workers` selected, with its standard error."""

    iteration: int
    granularity: str
    error_feedback: bool
    density: float
    workers: int
    union_density: float
    se: float


def read_spec(path: Path, spec: type[S], problems: list[Problem]) -> S | None:
    """Parse a small YAML file without aliases into `spec`; None, and what is wrong, where that fails."""
    text = _text(path, MAX_YAML_BYTES, problems)
    if text is None:
        return None
    try:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            tagged = getattr(event, "tag", None) not in (None, "!")
            if depth > MAX_DEPTH or tagged or isinstance(event, yaml.AliasEvent):
                where = f"{path}:{event.start_mark.line + 1}" if event.start_mark else str(path)
                what, got = f"plain YAML of at most {MAX_DEPTH} levels", "a tag, an alias or more levels"
                problems.append(Problem(where, what, got))
                return None
        return spec.model_validate(yaml.safe_load(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        problems.append(Problem(where, "well-formed YAML", error.problem or "an error"))
    except ValidationError as error:
        for item in error.errors(include_url=False):
            where = f"{path}: {'.'.join(map(str, item['loc'])) or 'the document'}"
            context = item.get("ctx") or {}
            got = context.get("got", format_value(item["input"]))
            what = context.get("what", item["msg"][:1].lower() + item["msg"][1:])
            if item["type"] == "missing":
                what, got = "this key", "nothing"
            problems.append(Problem(where, what, got, context.get("hint", "")))
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        problems.append(Problem(str(path), "well-formed YAML", format_value(str(error))))
    return None


def read_layers(
    path: Path, problems: list[Problem], needed: tuple[str, ...] = ("name", "numel")
) -> tuple[tuple[Layer, ...], tuple[tuple[int, ...], ...]]:
    """layers.csv: the tensors in forward order, and their shapes where all are given.

    `needed`: columns that must be there; times that may be left out are 0.
    """
    layers: list[Layer] = []
    shapes: list[tuple[int, ...]] = []
    before, names = len(problems), set[str]()
    for row, cells in _csv(path, needed, problems):
        if len(layers) == MAX_LAYERS:
            problems.append(Problem(f"{path}:{row}", f"at most {MAX_LAYERS} layers", "more"))
            break
        read = _Cells(f"{path}:{row}", cells, problems)
        numel = read("numel", int, "a whole number from 1 up", lambda n: 1 <= n <= 10**12)
        times = [
            read(name, float, "seconds, 0 or more", lambda t: 0 <= t < 1e9)
            if name in needed or cells.get(name)
            else 0.0
            for name in ("forward_s", "backward_s")
        ]
        shape = read("shape", _shape, "a shape such as 64x3x7x7") if cells.get("shape") else ()
        if shape and numel and (min(shape) < 1 or math.prod(shape) != numel) and len(problems) < MAX_PROBLEMS:
            problems.append(Problem(f"{path}:{row}: shape", f"a shape of {numel} elements", cells["shape"]))
        if cells["name"] in names and len(problems) < MAX_PROBLEMS:
            problems.append(Problem(f"{path}:{row}: name", "a name of its own", format_value(cells["name"])))
        names.add(cells["name"])
        if None not in (numel, *times, shape):
            layers.append(Layer.model_construct(name=cells["name"], numel=numel, forward=times[0], backward=times[1]))
            shapes.append(shape)
    if not layers and len(problems) == before:
        problems.append(Problem(str(path), "at least one layer", "none"))
    return tuple(layers), tuple(shapes) if all(shapes) else ()


def read_unions(path: Path, problems: list[Problem]) -> tuple[UnionPoint, ...]:
    """union.csv where there is one."""
    points = []
    names = ("iteration", "granularity", "error_feedback", "density", "workers", "union_density", "se")
    for row, cells in _csv(path, names, problems) if path.exists() else ():
        read = _Cells(f"{path}:{row}", cells, problems)
        point = (
            read("iteration", int, "a whole number", lambda n: n >= 0),
            read("granularity", str, "layer, bucket or model", lambda s: s in ("layer", "bucket", "model")),
            read("error_feedback", {"true": True, "false": False}.__getitem__, "true or false"),
            read("density", float, "above 0, at most 1", lambda x: 0 < x <= 1),
            read("workers", int, "a whole number from 1 up", lambda n: n >= 1),
            read("union_density", float, "from 0 to 1", lambda x: 0 <= x <= 1),
            read("se", float, "0 or more", lambda x: 0 <= x < math.inf),
        )
        if None not in point:
            points.append(UnionPoint(*point))
    return tuple(points)


class _Cells:
    """Converts the cells of one row, noting those that it can't."""

    def __init__(self, where: str, cells: dict[str, str], problems: list[Problem]) -> None:
        self.where, self.cells, self.problems = where, cells, problems

    def __call__(
        self, name: str, convert: Callable[[str], Any], what: str, valid: Callable[[Any], bool] = lambda _: True
    ) -> Any:
        try:
            value = convert(self.cells[name])
            if valid(value):
                return value
        except (ValueError, KeyError):
            pass
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(f"{self.where}: {name}", what, format_value(self.cells[name])))
        return None


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("x", maxsplit=_MAX_DIMENSIONS))


def _text(path: Path, limit: int, problems: list[Problem]) -> str | None:
    try:
        if path.stat().st_size > limit:
            problems.append(Problem(str(path), f"at most {limit} bytes", f"{path.stat().st_size} bytes"))
            return None
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        problems.append(Problem(str(path), "a readable file", error.strerror or str(error)))
    except UnicodeDecodeError as error:
        problems.append(Problem(str(path), "UTF-8 text", f"byte {error.start} that is not"))
    return None


def _csv(path: Path, needed: tuple[str, ...], problems: list[Problem]) -> Iterator[tuple[int, dict[str, str]]]:
    """Line number and cells of every row; nothing where columns are missing."""
    text = _text(path, MAX_CSV_BYTES, problems)
    if text is None:
        return
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        header = next(reader, [])
        missing = [name for name in needed if name not in header]
        if missing:
            got = format_value(", ".join(header)) if header else "an empty file"
            problems.append(Problem(f"{path}:1", f"the columns {', '.join(needed)}", got))
            return
        for cells in reader:
            if not cells:
                continue  # a blank line
            if len(cells) != len(header):
                if len(problems) >= MAX_PROBLEMS:
                    return
                problems.append(Problem(f"{path}:{reader.line_num}", f"{len(header)} cells", f"{len(cells)}"))
            else:
                yield reader.line_num, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        problems.append(Problem(f"{path}:{reader.line_num}", "well-formed CSV", str(error)))
