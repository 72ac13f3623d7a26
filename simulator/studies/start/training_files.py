"""Training configurations of other programs, recognised by what stands in them, as the blocks of a scenario."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import TypeAdapter

from simulator.component import MemberOf
from simulator.errors import InputError, Problem
from simulator.loading.documents import Document, read_text, validate_document
from simulator.models.pipeline import Parallelism
from simulator.records import Record
from simulator.schedulers.base import Scheduler
from simulator.schedulers.local_steps import LocalSteps
from simulator.sparsifiers.base import Sparsifier
from simulator.studies.start.scenario_text import TextLine, join_lines
from simulator.studies.start.training_formats import FORMATS
from simulator.studies.start.training_keys import Format, Stated, Value, flatten
from simulator.studies.start.training_syntax import SYNTAXES

_PARTS: dict[str, TypeAdapter[object]] = {
    "parallelism": TypeAdapter(Parallelism),
    "scheduler": TypeAdapter(Annotated[Scheduler, MemberOf(Scheduler)]),
    "sparsifier": TypeAdapter(Annotated[Sparsifier, MemberOf(Sparsifier)]),
}
_BLOCKS = ("workload", "cluster", *_PARTS)
_WIDTH = 118
_MOST_BYTES = 2**19
"""Of a configuration or script."""

Leaf = Value | tuple[Value, str]
Tree = dict[str, "Leaf | Tree"]


class Blocks(Record):
    """What a configuration says of a scenario.

    `program`: whose configuration it is. `lines`: keys of the scenario with their values, and what of the file each
    comes from. `parts`: the blocks that are complete, as a scenario has them. `notes`: what a reader has to know.
    """

    program: str
    lines: Mapping[str, tuple[Value, str]]
    parts: Mapping[str, object]
    notes: tuple[str, ...]

    def text(self) -> str:
        """A piece of YAML for a scenario, with a comment for each key."""
        tree = _nest(self.lines)
        said = "\n".join([f"From a configuration of {self.program}.", *self.notes])
        plain = "".join(c if c.isprintable() or c == "\n" else "?" for c in said)
        lines = [line for note in plain.split("\n") for line in textwrap.wrap(note, _WIDTH, subsequent_indent="  ")]
        blocks = {block: tree[block] for block in _BLOCKS if block in tree}
        return join_lines([*(TextLine(f"# {line}") for line in lines), *_yaml_lines(blocks)])


def _nest(lines: Mapping[str, Leaf]) -> Tree:
    tree: Tree = {}
    for key, leaf in lines.items():
        place = tree
        *levels, last = key.split(".")
        for level in levels:
            inner = place.setdefault(level, {})
            place = inner if isinstance(inner, dict) else place
        place[last] = leaf
    return tree


def _yaml_lines(tree: Tree, indent: str = "") -> Iterator[TextLine]:
    for key, leaf in tree.items():
        if isinstance(leaf, dict):
            yield TextLine(f"{indent}{key}:")
            yield from _yaml_lines(leaf, f"{indent}  ")
        elif isinstance(leaf, tuple):
            value, why = leaf
            yield TextLine(f"{indent}{key}: {str(value).lower() if isinstance(value, bool) else value}", why)


def read_blocks(path: Path, gpus: int | None = None) -> Blocks:
    """The blocks of a scenario that a configuration states; of a job on so many GPUs, where it depends on them.

    `path` may end with `:NAME`, one of several functions in a file of Python, which is not run. Raises InputError for
    files that are of none of the programs, or that the program itself would refuse, and for what is not modelled.
    """
    name = ""
    if not path.exists() and ":" in path.name:
        stem, _, name = path.name.rpartition(":")
        path = path.with_name(stem)
    document, program = _recognise(path, name)
    stated = Stated(document, gpus, short=program.short)
    program.translate(stated)
    stated.finish(program.harmless)
    tree = _nest({key: value for key, (value, _) in stated.lines.items()})
    parts = {
        block: validate_document(adapter.validate_python, Document(f"{path}: {block}", tree[block], {}))
        for block, adapter in _PARTS.items()
        if block in tree
    }
    notes = list(stated.notes)
    scheduler = parts.get("scheduler")
    if isinstance(scheduler, LocalSteps):
        steps, asked = scheduler.period.steps, scheduler.inner_steps
        differs = "" if steps == asked else f", not in {asked} as the file states"
        notes.insert(0, f"Every tensor is exchanged once in {steps} inner steps{differs}.")
    return Blocks(program.name, stated.lines, parts, tuple(notes))


def _recognise(path: Path, name: str) -> tuple[Document, Format]:
    """The keys of a file in the first syntax in which they are those of a program; its ending says what is tried first.

    Raises InputError where there is none: what is wrong with a text that its ending promises to be well-formed.
    """
    text, refused = read_text(path, _MOST_BYTES), list[InputError]()
    for syntax in sorted(SYNTAXES, key=lambda each: path.suffix not in each.endings):
        try:
            document = syntax.parse(text, str(path), name)
        except InputError as error:
            refused += [error] * (path.suffix in syntax.endings)
            continue
        keys = [key for key, _ in flatten(document.data)]
        for program in FORMATS:
            if any(re.fullmatch(program.marks, key) for key in keys):
                return document, program
    if refused:
        raise refused[0]
    what = f"a configuration of {', '.join(program.name for program in FORMATS)}"
    raise InputError(Problem(str(path), what, "a file that is not a configuration of any of these, by its keys"))
