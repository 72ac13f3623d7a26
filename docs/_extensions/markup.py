"""Pieces of MyST that the generated pages are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; bars and line ends inside cells are escaped."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("\\|", "|").replace("|", "\\|").split())


def code(value: object) -> str:
    """A value as inline code."""
    return f"`{value}`"


def target(name: str) -> str:
    """A link target."""
    return f"({name})="


def page(*parts: str) -> str:
    """Parts with a blank line between them; empty parts are left out."""
    return "\n\n".join(part for part in parts if part) + "\n"
