"""Training configurations of other programs, recognised by what stands in them, as the blocks of a scenario."""

from __future__ import annotations

import ast
import json
import re
import textwrap
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from pydantic import TypeAdapter

from simulator.component import MemberOf
from simulator.errors import InputError, Problem
from simulator.loading.documents import Document, parse_document, parse_scalar, read_text, validate_document
from simulator.loading.finding import CONFIG_FILE
from simulator.models.pipeline import Parallelism
from simulator.records import Record
from simulator.schedulers.base import Scheduler
from simulator.schedulers.local_steps import LocalSteps
from simulator.sparsifiers.base import Sparsifier
from simulator.studies.start.scenario_text import Line, join_lines
from simulator.studies.start.training_formats import FORMATS
from simulator.studies.start.training_keys import Format, Stated, Token, Value, flatten

_PARTS: dict[str, TypeAdapter[object]] = {
    "parallelism": TypeAdapter(Parallelism),
    "scheduler": TypeAdapter(Annotated[Scheduler, MemberOf(Scheduler)]),
    "sparsifier": TypeAdapter(Annotated[Sparsifier, MemberOf(Sparsifier)]),
}
_BLOCKS = ("workload", "cluster", *_PARTS)
_WIDTH = 118
_MOST_BYTES = 2**17
"""Of a configuration or script."""
_MOST_LEVELS = 200
"""Of a name in TOML, whose parser takes their square."""
_TOKENS = re.compile(r"""[\w-]+|"(?:[^"\\\n]|\\.)*"?|'[^'\n]*'?|\S""")

Leaf = Value | tuple[Value, str]
Tree = dict[str, "Leaf | Tree"]
Keys = dict[str, object]


class Blocks(Record):
    """What a configuration says of a scenario.

    `program`: whose configuration it is. `lines`: keys of the scenario with their values, and what of the file each
    comes from. `parts`: the blocks that are complete, as a scenario has them. `notes`: what a reader has to know.
    `compiled`: why kernels are fused, where they are.
    """

    program: str
    lines: Mapping[str, tuple[Value, str]]
    parts: Mapping[str, object]
    notes: tuple[str, ...]
    compiled: str = ""

    def text(self) -> str:
        """A piece of YAML for a scenario, with a comment for each key."""
        fused = [f"{self.compiled}: state element_wise: compiled in cluster.runtime."] if self.compiled else []
        return join_lines([*self.comments(*fused), *self.yaml_lines(*_BLOCKS)])

    def comments(self, *more: str) -> Iterator[Line]:
        """What a reader has to know, above all else."""
        said = "\n".join([f"From a configuration of {self.program}.", *self.notes, *more])
        plain = "".join(c if c.isprintable() or c == "\n" else "?" for c in said)
        for note in plain.split("\n"):
            yield from (f"# {line}" for line in textwrap.wrap(note, _WIDTH, subsequent_indent="  "))

    def yaml_lines(self, *blocks: str) -> Iterator[Line]:
        """Those of these blocks that are stated, with a comment for each key."""
        tree = _nest(self.lines)
        yield from _yaml_lines({block: tree[block] for block in blocks if block in tree})


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


def _yaml_lines(tree: Tree, indent: str = "") -> Iterator[Line]:
    for key, leaf in tree.items():
        if isinstance(leaf, dict):
            yield f"{indent}{key}:"
            yield from _yaml_lines(leaf, f"{indent}  ")
        elif isinstance(leaf, tuple):
            value, why = leaf
            yield f"{indent}{key}: {str(value).lower() if isinstance(value, bool) else value}", why


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
    return Blocks(program.name, stated.lines, parts, tuple(notes), stated.compiled)


def _recognise(path: Path, name: str) -> tuple[Document, Format]:
    """The keys of a file in the first syntax in which they are those of a program; its ending says what is tried first.

    Raises InputError where there is none: what is wrong with a text that its ending promises to be well-formed.
    """
    text, refused = read_text(path, _MOST_BYTES), list[InputError]()
    for syntax, (endings, parse) in sorted(_SYNTAXES.items(), key=lambda each: path.suffix not in each[1][0]):
        try:
            document = parse(text, str(path), name)
        except (InputError, ValueError, RecursionError, MemoryError) as error:
            if path.suffix in endings:
                other = InputError(Problem(str(path), f"well-formed {syntax}", str(error) or "fewer levels"))
                refused.append(error if isinstance(error, InputError) else other)
            continue
        keys = [key for key, _ in flatten(document.data)]
        for program in FORMATS:
            if any(re.fullmatch(program.marks, key) for key in keys):
                return document, program
    if refused:
        raise refused[0]
    what = f"a configuration of {', '.join(program.name for program in FORMATS)}"
    hint = f"a model is given by `sparsim new --model {path}`" if path.name == CONFIG_FILE else ""
    raise InputError(Problem(str(path), what, "a file that is not a configuration of any of these, by its keys", hint))


TORCHFT = {
    "DiLoCo": ("manager", "model_fragments", "inner_optimizer", "outer_optimizer", "sync_every"),
    "LocalSGD": ("manager", "model", "optimizer", "sync_every"),
}
"""Calls of meta-pytorch/torchft, `local_sgd.py`, with their arguments by position."""


def _python(text: str, path: str, name: str) -> Document:
    """The call of `DiLoCo` or `LocalSGD`, or the function that returns a configuration of torchtitan."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of numbers and escapes that are odd, not wrong
            tree = ast.parse(text, path)
    except SyntaxError as error:
        raise InputError(Problem(f"{path}:{error.lineno or 1}", "a script of Python", error.msg)) from None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _last_name(node.func) in TORCHFT]
    if len(calls) > 1:
        got = f"{len(calls)} in lines {', '.join(str(call.lineno) for call in calls)}"
        raise InputError(Problem(path, f"one call of {' or '.join(TORCHFT)}", got))
    if calls:
        call, method = calls[0], _last_name(calls[0].func)
        stated = [*zip(TORCHFT[method], call.args, strict=False), *((each.arg, each.value) for each in call.keywords)]
        keys = {f"torchft.{key}": _literal(value) for key, value in stated} | {"torchft.call": method}
        return Document(path, keys, dict.fromkeys(((key,) for key in keys), (call.lineno, call.col_offset + 1)))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    known: dict[str, Keys] = {}
    made = {key: keys for key in functions if (keys := _returned(key, functions, known))}
    if name in made or len(made) == 1:
        name = name if name in made else next(iter(made))
        return Document(path, made[name] | {"function": name}, {})
    if made:
        hint = f"write {Path(path).name}:NAME"
        raise InputError(Problem(path, f"one of its configurations: {', '.join(made)}", name or "no name", hint))
    return Document(path, {}, {})


def _last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _arguments(call: ast.Call, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Arguments of a call, and of calls within them, by their full names; what is not written out is its own text."""
    for item in call.keywords:
        place = f"{prefix}{item.arg}"
        inner = item.value.elts if isinstance(item.value, ast.List) else [item.value]
        calls = [each for each in inner if isinstance(each, ast.Call)]
        if not calls:
            yield place, _literal(item.value)
        for each in calls:
            owner = ast.unparse(each.func)
            if owner.endswith(".Config") and inner == [item.value]:
                yield f"{place}.class", owner.removesuffix(".Config")
            within = place if inner == [item.value] else f"{place}.{owner.removesuffix('.Config')}"
            yield from ((within, _literal(first)) for first in each.args[:1])
            yield from _arguments(each, f"{within}.")


def _literal(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return [ast.unparse(item) for item in node.elts] if isinstance(node, ast.List) else ast.unparse(node)


def _returned(name: str, functions: Mapping[str, ast.FunctionDef], returned: dict[str, Keys]) -> Keys:
    """The keys of the configuration that a function returns, those that it changes afterwards included.

    `returned`: those of functions that were read before, since many may call one.
    """
    if name in returned:
        return returned[name]
    returned[name] = {}  # of a function that calls itself
    known: dict[str, Keys] = {}

    def value(node: ast.expr | None) -> Keys:
        owner = _last_name(node.func) if isinstance(node, ast.Call) else ""
        if owner in functions:
            return _returned(owner, functions, returned)
        if isinstance(node, ast.Call) and owner in ("Config", "JobConfig"):
            return dict(_arguments(node))
        return known.get(node.id, {}) if isinstance(node, ast.Name) else {}

    for node in functions[name].body:
        if isinstance(node, ast.Return):
            returned[name] = value(node.value)
            break
        if isinstance(node, ast.Assign):
            base, _, key = ast.unparse(node.targets[0]).partition(".")
            changed = dict(_arguments(ast.Call(ast.Name(""), [], [ast.keyword(key, node.value)])))
            below = f"{key}."
            kept = {k: v for k, v in known.get(base, {}).items() if k != key and not k.startswith(below)}
            known[base] = kept | changed if key and kept else value(node.value)
    return returned[name]


_LONGEST = 64
"""Most characters of a variable whose value is read: numbers and words, no lists of options."""
_ASSIGNED = re.compile(r"^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)=(\S+)[ \t]*$", re.MULTILINE)
_USED = re.compile(r"\$(?:\{(\w+)(?::?-([^${}]*))?\}|(\w+))")
_PRODUCT = re.compile(r"\$\(\(\s*(\w+)\s*\*\s*(\w+)\s*\)\)")
_OPTION = re.compile(r"--([A-Za-z][\w.-]*)(?:=(.*))?")


def _command_line(text: str, path: str, _: str) -> Document:
    """The options of a shell script, with values in place of variables, and the variables of NCCL.

    A variable or an option that is given different values, as in branches, has none: it stays a name with `$`. Options
    in branches count as given; `branches` lists them.
    """
    plain = re.sub(r"(?m)(^|[ \t])#.*$", r"\1", text).translate(str.maketrans("\"'", "  "))
    lines = re.sub(r"\\[ \t]*\r?\n", " ", plain).splitlines()
    variables: dict[str, str] = {}
    for key, value in _ASSIGNED.findall("\n".join(lines)):
        made = _expand(value, variables)
        known = len(made) <= _LONGEST and variables.get(key, made) == made
        variables[key] = made if known else f"${key}"
    keys: dict[str, object] = {key: parse_scalar(made) for key, made in variables.items() if key.startswith("NCCL_")}
    branches, depth = list[str](), 0
    for line in lines:
        depth += len(re.findall(r"^\s*(?:if|case)\b", line)) - len(re.findall(r"\b(?:fi|esac)\b", line))
        for key, stated in dict(_options(_expand(line, variables))).items():  # of one command, the last one counts
            keys[key] = stated if keys.get(key, stated) == stated else Token(f"${key} (several values)")
            branches += [key] * (depth > 0)
    return Document(path, keys | ({"branches": branches} if branches else {}), {})


def _options(line: str) -> Iterator[tuple[str, object]]:
    """Options of a line with the word that follows each, true where that is an option."""
    for word, after in pairwise([*re.sub(r"[()]", " ", line).split(), ""]):
        if option := _OPTION.fullmatch(word):
            follows = "true" if re.match(r"--|-[a-zA-Z]|$", after) else after
            value = parse_scalar(follows if option[2] is None else option[2])
            yield option[1].replace("-", "_"), Token(value) if isinstance(value, str) else value


def _expand(text: str, variables: Mapping[str, str]) -> str:
    """The text with variables that are known in place of their names, and with products of two whole numbers."""

    def multiply(product: re.Match[str]) -> str:
        factors = [variables.get(factor, factor) for factor in product.groups()]
        whole = all(factor.isdecimal() and len(factor) < 10 for factor in factors)
        return str(int(factors[0]) * int(factors[1])) if whole else product[0]

    made = _USED.sub(lambda use: variables.get(use[1] or use[3], use[2] or use[0]), text)
    return _PRODUCT.sub(multiply, made)


def _toml(text: str, path: str, _: str) -> Document:
    """The keys of a text in TOML. Raises ValueError where one has many levels: its parser takes their square."""
    dots, before = 0, ""
    for token in _TOKENS.findall(text):
        dots, before = dots + 1 if token == "." else dots if before == "." else 0, token
        if dots > _MOST_LEVELS:
            raise ValueError(f"a name of more than {_MOST_LEVELS} levels")
    return Document(path, tomllib.loads(text), {})


_SYNTAXES: dict[str, tuple[tuple[str, ...], Callable[[str, str, str], Document]]] = {
    "JSON": ((".json",), lambda text, path, _: Document(path, json.loads(text), {})),
    "TOML": ((".toml",), _toml),
    "YAML": ((".yml", ".yaml"), lambda text, path, _: parse_document(text, path)),
    "Python": ((".py",), _python),
    "command lines": ((".sh", ".slurm", ".sbatch"), _command_line),
}
"""Kinds of texts in the order in which they are tried, by what they are called in messages: how files of each end, and
how a text, of a path, becomes keys and values; the last argument is the name of a function in it."""
