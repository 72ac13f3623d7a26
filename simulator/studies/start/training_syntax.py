"""Texts of training configurations as keys and values: JSON, TOML, YAML, Python and command lines. Nothing is run."""

from __future__ import annotations

import ast
import json
import re
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from simulator.errors import InputError, Problem
from simulator.loading.documents import Document, parse_document, parse_scalar

TORCHFT = {
    "DiLoCo": ("manager", "model_fragments", "inner_optimizer", "outer_optimizer", "sync_every"),
    "LocalSGD": ("manager", "model", "optimizer", "sync_every"),
}
"""Calls of meta-pytorch/torchft, `local_sgd.py`, with their arguments by position."""


_DEEPEST = 20
"""Most functions that call each other for a configuration."""


class Token(str):
    """A word of a command line, which may be the value of an option or what follows a flag."""


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
    made = {key: keys for key in functions if (keys := _returned(key, functions))}
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


def _returned(name: str, functions: Mapping[str, ast.FunctionDef], depth: int = 0) -> dict[str, object]:
    """The keys of the configuration that a function returns, those that it changes afterwards included."""
    known: dict[str, dict[str, object]] = {}

    def value(node: ast.expr | None) -> dict[str, object]:
        owner = _last_name(node.func) if isinstance(node, ast.Call) else ""
        if owner in functions and depth < _DEEPEST:
            return _returned(owner, functions, depth + 1)
        if isinstance(node, ast.Call) and owner in ("Config", "JobConfig"):
            return dict(_arguments(node))
        return known.get(node.id, {}) if isinstance(node, ast.Name) else {}

    for node in functions[name].body:
        if isinstance(node, ast.Return):
            return value(node.value)
        if isinstance(node, ast.Assign):
            base, _, key = ast.unparse(node.targets[0]).partition(".")
            changed = dict(_arguments(ast.Call(ast.Name(""), [], [ast.keyword(key, node.value)])))
            kept = {k: v for k, v in known.get(base, {}).items() if k != key and not k.startswith(f"{key}.")}
            known[base] = kept | changed if key and kept else value(node.value)
    return {}


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
        for key, stated in _options(_expand(line, variables)):
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


class Syntax(NamedTuple):
    """A kind of text: what it is called in messages, how its files end, and how it becomes keys and values."""

    name: str
    endings: tuple[str, ...]
    read: Callable[[str, str, str], Document]

    def parse(self, text: str, path: str, name: str = "") -> Document:
        """The keys and values of a text; `name` is that of a function in it. Raises InputError for other texts."""
        try:
            return self.read(text, path, name)
        except (ValueError, RecursionError, MemoryError) as error:
            raise InputError(Problem(path, f"well-formed {self.name}", str(error) or "fewer levels")) from None


SYNTAXES = (
    Syntax("JSON", (".json",), lambda text, path, _: Document(path, json.loads(text), {})),
    Syntax("TOML", (".toml",), lambda text, path, _: Document(path, tomllib.loads(text), {})),
    Syntax("YAML", (".yml", ".yaml"), lambda text, path, _: parse_document(text, path)),
    Syntax("Python", (".py",), _python),
    Syntax("command lines", (".sh", ".slurm", ".sbatch"), _command_line),
)
"""In the order in which they are tried."""
