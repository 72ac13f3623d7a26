"""A page as a browser's parser sees it."""

from __future__ import annotations

import json
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Parsed(HTMLParser):
    """Elements with their attributes, the text of each, its pieces, and what is left open or closed twice."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.pieces: list[str] = []
        self.wrong: list[str] = []
        self._open: list[int] = []
        self.feed(html)
        self.close()
        self.wrong += [self.elements[place][0] for place in self._open]

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.texts.append("")
        if tag not in VOID:
            self._open.append(len(self.elements) - 1)

    def handle_endtag(self, tag):
        if not self._open or self.elements[self._open[-1]][0] != tag:
            self.wrong.append(f"/{tag}")
        else:
            self._open.pop()

    def handle_data(self, data):
        for place in self._open:
            self.texts[place] += data
        if data.strip() and self.elements[self._open[-1]][0] not in ("script", "style"):
            self.pieces.append(data)

    def all(self, tag):
        """Attributes and text of every element of a kind."""
        return [(held, text) for (name, held), text in zip(self.elements, self.texts, strict=True) if name == tag]

    def text(self, tag):
        return [text for _, text in self.all(tag)]

    def data(self):
        """What the page's scripts read."""
        (found,) = [text for held, text in self.all("script") if held.get("id") == "data"]
        return json.loads(found)
