"""Colours of pages: those of the figures by their names in `assets/theme.css`; how templates are read."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2

from simulator.reporting.figures.style.panels import tint

ASSETS = files("simulator.reporting.page") / "assets"
_DARK = "prefers-color-scheme: dark"


def css_colour(colour: str) -> str:
    """A colour of the figures as the page names it.

    >>> css_colour("#0072B2")
    'var(--series-blue)'
    """
    return f"var(--{_name_of(colour)})"


def _name_of(colour: str) -> str:
    return next(name for name, value in read_theme()[0].items() if name.startswith("series-") and value == colour)


@cache
def read_theme() -> tuple[dict[str, str], dict[str, str]]:
    """The colours of `assets/theme.css` by name, without the leading hyphens: in light, and in dark."""
    text = (ASSETS / "theme.css").read_text(encoding="utf-8")
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w+)", part)) for part in text.split(_DARK))
    return light, light | dark


def ink_on(colour: str, strength: float) -> str:
    """Black or white for a text on a tint (`colours.tint`), whichever is easier to read, in light and dark.

    >>> ink_on("#0072B2", 0.0), ink_on("#0072B2", 1.0)
    ('light-dark(#000000, #FFFFFF)', 'light-dark(#FFFFFF, #000000)')
    """
    inks = [tint(mode[_name_of(colour)], strength, mode["background"])[1].upper() for mode in read_theme()]
    return f"light-dark({', '.join(inks)})"


def make_environment(read: Callable[[str], str], **filters: Callable[..., Any]) -> jinja2.Environment:
    """An environment whose templates `read` returns by name, with filters of the page's own."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(read),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters
    return environment
