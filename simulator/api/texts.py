"""Texts of short representations."""

from __future__ import annotations


def shorten(text: str, limit: int) -> str:
    """A text on one line, cut to `limit` characters.

    >>> shorten("a longer\\nname", 9)
    'a long...'
    """
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 3].rstrip()}..."


def first_sentence(text: str) -> str:
    """The text up to the first full stop that ends a sentence.

    >>> first_sentence("No: 1.7 times slower. It adds time.")
    'No: 1.7 times slower'
    """
    return text.partition(". ")[0].removesuffix(".")
