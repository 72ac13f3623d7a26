"""Terminals that know few characters: what cannot be printed there is replaced by what looks like it."""

from __future__ import annotations

import codecs
import io
import sys
import unicodedata

NAME = "sparsim.look_alike"
LOOK_ALIKES = {
    **dict.fromkeys("–—−‐‑", "-"),
    **dict.fromkeys("█▉▊▋▌▇▆▅▄▃■●━", "#"),
    **dict.fromkeys("▍▎▏▂▁", "."),
    **dict.fromkeys("“”„", '"'),
    **dict.fromkeys("‘’", "'"),
    "…": "...",
    "×": "x",
    "·": ".",
    "•": "*",
    "→": "->",
    "±": "+-",
    "µ": "u",
    "μ": "u",
    "│": "|",
    "─": "-",
    "╸": "-",
    "≤": "<=",
    "≥": ">=",
    "≈": "~",
}


def look_alike(text: str) -> str:
    """The text in ASCII, with a question mark for each character that nothing looks like.

    >>> look_alike("1–2 µs × 10², ██ née 東")
    '1-2 us x 102, ## nee ?'
    """
    return "".join(_look_alike_of(character) for character in text)


def _look_alike_of(character: str) -> str:
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return LOOK_ALIKES.get(character) or plain or "?"


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return look_alike(error.object[error.start : error.end]), error.end


def print_look_alikes() -> None:
    """From now on, what standard output and error cannot encode is replaced instead of being an error."""
    codecs.register_error(NAME, _replace)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=NAME)
