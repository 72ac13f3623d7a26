"""Links the first use of each listed word on a page to its row in the glossary, whose text appears as a tool tip."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

GLOSSARY = Path(__file__).parents[1] / "glossary.md"
LINKED = (
    "scenario", "workload", "worker", "sparsifier", "scheduler", "topology", "fabric", "runtime", "opponent",
    "baseline", "exposed communication", "start-up", "scaling efficiency", "speed-up", "break-even", "jitter",
    "bucket", "density", "build-up", "padding", "granularity", "residual", "overlap law", "trace", "collective",
    "payload", "incast", "token bucket", "other job", "link law", "held-out error", "90 % interval", "verdict",
    "MAPE", "trivial sum",
)  # fmt: skip
"""Words of the field, or of this project. Words that everybody knows, such as layer or message, are not linked."""
_NOT_IN = (
    nodes.reference, nodes.title, nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.table,
    nodes.term, nodes.strong, nodes.caption, nodes.raw,
)  # fmt: skip


@cache
def definitions() -> dict[str, str]:
    """Every word of the glossary with what it is, from the first two columns of its tables."""
    found = {}
    for line in GLOSSARY.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 3 and cells[0] != "word" and set(cells[0]) != {"-"}:
            for word in words_of(cells[0]):
                found[word] = cells[1].replace("`", "")
    return found


def words_of(cell: str) -> list[str]:
    """The words of a first cell: `cluster, node` is two; `fidelity: fold, flows` is three."""
    return [word.strip() for word in re.split(r"[,:]", cell)]


def anchor(word: str) -> str:
    """The anchor of a word on the page of the glossary."""
    return f"term-{nodes.make_id(word)}"


@cache
def _pattern() -> re.Pattern[str]:
    longest_first = sorted((word for word in LINKED if word in definitions()), key=len, reverse=True)
    words = "|".join(_forms(word) for word in longest_first)
    return re.compile(rf"(?<![\w-])({words})(?![\w-])", re.IGNORECASE)


def _forms(word: str) -> str:
    """A pattern of the singular and the plural of a word."""
    plural = rf"{re.escape(word[:-1])}(?:y|ies)" if word.endswith("y") else rf"{re.escape(word)}s?"
    return plural.replace(r"\ ", r"\s+")


def singular(text: str) -> str:
    """The word of `LINKED` that a text on a page is a form of."""
    plain = " ".join(text.split())
    return next(word for word in LINKED if re.fullmatch(_forms(word), plain, re.IGNORECASE))


def link_first_uses(tree: nodes.document, uri: str) -> list[str]:
    """Link the first use of each word in the sentences of a page to `uri`, in place; returns the words linked."""
    done: list[str] = []
    for text in list(tree.findall(nodes.Text)):
        if not _is_sentence(text):
            continue
        pieces = _pieces(text.astext(), uri, done)
        if len(pieces) > 1:
            text.parent.replace(text, pieces)
    return done


def _is_sentence(text: nodes.Text) -> bool:
    place = text.parent
    inside = False
    while place is not None:
        if isinstance(place, _NOT_IN) or "sd-card" in place.get("classes", ()):
            return False
        inside = inside or isinstance(place, nodes.paragraph)
        place = place.parent
    return inside


def _pieces(text: str, uri: str, done: list[str]) -> list[nodes.Node]:
    pieces: list[nodes.Node] = []
    end = 0
    for found in _pattern().finditer(text):
        word = singular(found[0])
        if word in done:
            continue
        done.append(word)
        link = nodes.reference(
            "", found[0], internal=True, refuri=f"{uri}#{anchor(word)}", classes=["glossary-term"],
            reftitle=definitions()[word],
        )  # fmt: skip
        pieces += [nodes.Text(text[end : found.start()]), link]
        end = found.end()
    return [*pieces, nodes.Text(text[end:])]


def _add_anchors(tree: nodes.document) -> None:
    """Give every word of the glossary's tables an anchor."""
    for row in tree.findall(nodes.row):
        cell = row[0]
        for paragraph in cell.findall(nodes.paragraph):
            for word in words_of(paragraph.astext()):
                if word in definitions():
                    paragraph.insert(0, nodes.inline("", "", ids=[anchor(word)], classes=["glossary-target"]))


def _on_resolved(app: Sphinx, tree: nodes.document, page: str) -> None:
    if page == "glossary":
        _add_anchors(tree)
    elif app.builder.format == "html":
        link_first_uses(tree, app.builder.get_relative_uri(page, "glossary"))


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("doctree-resolved", _on_resolved)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
