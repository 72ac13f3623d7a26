"""How templates of pages are read: all values are escaped, and a name that is not given is an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jinja2


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
