"""Docstrings of specs, split into the description of each key and the remaining prose."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

from simulator.component import Component, Spec

_CLAUSE = re.compile(r"(?<=[.;])\s+(?=`)")
_SENTENCE = re.compile(r"(?<=[.;])\s+(?=[A-Z`])")
_ITEM = re.compile(r"^- ", re.MULTILINE)
_SPECIAL = re.compile(r"([\\*_<>$|\[\]{}~^])")
_BARE_BASES = (Spec, Component)


def said_of(spec: type[Spec]) -> tuple[str, dict[str, str]]:
    """The docstring's prose as Markdown, and what it and the docstrings of base classes say about each key.

    A list item, sentence or clause that begins with a key in backticks describes that key and is not prose. A key
    without a description of its own refers to the key or the prose that mentions it, or gets the sentence of the base
    class that does.
    """
    own, found = _cut(spec, spec)
    for base in spec.__mro__[1:]:
        if isinstance(base, type) and issubclass(base, Spec) and base not in _BARE_BASES and base.__doc__:
            found = _cut(base, spec)[1] | found
    return own, {key: found.get(key, "") for key in spec.model_fields}


def _cut(holder: type[Spec], spec: type[Spec]) -> tuple[str, dict[str, str]]:
    """Prose and keys of one class's own docstring."""
    own, mentioned, prose = dict[str, str](), dict[str, str](), list[str]()
    if "__doc__" not in vars(holder):
        return "", {}
    for paragraph in inspect.cleandoc(holder.__doc__ or "").split("\n\n"):
        left = list[str]()
        for clause in _clauses(paragraph):
            key = re.match(r"(?:- )?`(\w+)`", clause)
            if key is not None and key[1] in spec.model_fields and key[1] not in own:
                own[key[1]] = _cell(clause)
                for other in _keys(clause, spec):
                    mentioned.setdefault(other, f"see `{key[1]}`")
            else:
                left.append(clause)
        for sentence in _SENTENCE.split(" ".join(left)):
            for key in _keys(sentence, spec):
                mentioned.setdefault(key, "see above" if holder is spec else sentence)
        if left:
            prose.append(("\n" if left[0].startswith("- ") else " ").join(left))
    return "\n\n".join(markdown(part) for part in prose), mentioned | own


def _keys(text: str, spec: type[Spec]) -> list[str]:
    return [key for key in re.findall(r"`(\w+)(?:: [^`]*)?`", text) if key in spec.model_fields]


def _clauses(paragraph: str) -> Iterator[str]:
    """List items, or clauses that begin with a backtick, with white space normalised."""
    if paragraph.startswith("- "):
        yield from (f"- {' '.join(item.split())}" for item in _ITEM.split(paragraph) if item.strip())
    else:
        yield from (" ".join(clause.split()) for clause in _CLAUSE.split(paragraph))


def _cell(clause: str) -> str:
    """What a clause says about the key it begins with: without a key before a colon, and without the full stop."""
    text = re.sub(r"^(?:- )?`\w+`: ", "", clause.rstrip(";."))
    return text.removeprefix("- ")


def markdown(text: str) -> str:
    """Plain docstring text as MyST: what Markdown would read as mark-up is escaped, except inside backticks.

    >>> markdown("2 * k * `a_b` of d_G")
    '2 \\\\* k \\\\* `a_b` of d\\\\_G'
    """
    parts = re.split(r"(`[^`]*`)", text)
    made = "".join(part if part.startswith("`") else _SPECIAL.sub(r"\\\1", part) for part in parts)
    return re.sub(r"^(\d+)\. ", r"\1\\. ", made)  # a sentence that begins with a number is no list
