"""Changes of a scenario: `key=value` texts of the command line, and values given in Python."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeAlias

from simulator.errors import InputError, Problem, format_value
from simulator.loading.replacing import parse_setting, replace_key
from simulator.records import Record
from simulator.units import SiFloat, SiInt

Overrides: TypeAlias = Sequence[str] | Mapping[str, Any]
"""Texts such as `cluster.nodes=16`; or values by dotted key, where mappings may stand for the keys below."""
_WHOLE = ("kind", "trace", "model")
"""Keys that say what a part is: a mapping with one of them, or with a list of layers, takes the place of the part."""
_PLAIN = ("versus", "measured")
"""Keys of a scenario whose mappings are values."""


class Override(Record):
    """One key and its new value; `text` is how the command line writes both, `where` what messages call the key."""

    key: str
    value: Any
    text: str
    where: str

    def apply(self, data: Any, near: Path | None) -> Any:
        """A copy of parsed data with the key set. Raises InputError where there is no place for it."""
        try:
            return replace_key(data, self.key, self.value, near or Path())
        except InputError as error:
            if self.where.startswith("--set"):
                raise
            found = [Problem(self.where, item.expected, item.got, item.hint) for item in error.problems]
            raise InputError(found) from None


def read_overrides(overrides: Overrides) -> list[Override]:
    """Every key that changes, in order. Raises InputError for what is not `key=value`, or has no text as its key."""
    if isinstance(overrides, Mapping):
        return list(_flatten(overrides, ""))
    return [_parse(text) for text in overrides]


def _parse(text: str) -> Override:
    key, value = parse_setting(text, "sparsifier.density=0.01")
    return Override(key, value, text, f"--set {key}")


def _flatten(changes: Mapping[Any, Any], above: str) -> Iterator[Override]:
    """Dotted keys of nested mappings; a mapping that says what a part is stays whole."""
    for name, value in changes.items():
        if not isinstance(name, str) or not name:
            raise InputError(Problem(above or "the scenario", "keys that are texts", format_value(name)))
        key = f"{above}.{name}" if above else name
        if isinstance(value, Mapping) and value and not _says_what_it_is(value) and key not in _PLAIN:
            yield from _flatten(value, key)
        else:
            yield Override(key, as_data(value), f"{key}={_as_text(value)}", key)


def _says_what_it_is(part: Mapping[Any, Any]) -> bool:
    """Whether a mapping describes a whole part; a number of layers changes a model that is described already."""
    return any(word in part for word in _WHOLE) or isinstance(part.get("layers"), list | tuple | str)


def as_data(value: Any) -> Any:
    """A value from Python as a document has it: plain containers, paths as texts, and numbers marked as being in SI.

    >>> as_data({"nodes": 2, "links": ({"factor": 0.5},)})
    {'nodes': 2, 'links': [{'factor': 0.5}]}
    """
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): as_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_data(item) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return SiInt(value) if isinstance(value, Integral) else SiFloat(value)


def _as_text(value: Any) -> str:
    """A value as the command line writes it.

    >>> _as_text(16), _as_text(True), _as_text({"kind": "topk", "density": 0.01}), _as_text("1 Gbit/s")
    ('16', 'true', '{kind: topk, density: 0.01}', '1 Gbit/s')
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_as_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_as_text, value)) + "]"
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, Real):
        return str(int(value)) if isinstance(value, Integral) else f"{float(value):.12g}"
    described = getattr(value, "described", None)
    return _as_text(described("json")) if described is not None else str(getattr(value, "name", value))
