"""A page as one HTML file: template, style, scripts, the plotting library and the data, all in it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.errors import InputError, Problem
from simulator.reporting.figures.data.sources import KINDS, Source
from simulator.reporting.page.formats import cell, sort_key
from simulator.reporting.page.pages.build_up_page import build_up_page
from simulator.reporting.page.pages.calibration_page import calibration_page
from simulator.reporting.page.pages.run_page import run_page
from simulator.reporting.page.pages.sweep_page import sweep_page
from simulator.reporting.page.pages.validation_page import validation_page
from simulator.reporting.page.parts import Chart, Page
from simulator.scenario.versions import versions
from simulator.studies.storage.files import write_text

if TYPE_CHECKING:
    import jinja2

_PAGES = {
    "run": run_page,
    "sweep": sweep_page,
    "validation": validation_page,
    "gpu": calibration_page,
    "network": calibration_page,
    "runtime": calibration_page,
    "build_up": build_up_page,
    "trace": build_up_page,
}
_SCRIPTS = ("format.js", "charts.js", "tables.js", "terms.js", "points.js", "start.js")
_ASSETS = files("simulator.reporting.page") / "assets"


def page_of(source: Source) -> Page:
    """The page of a source. Raises InputError for a source that has none."""
    if source.kind not in _PAGES:
        wanted = "a run, a sweep, a validation, a calibration or a build-up study"
        raise InputError(Problem(source.place, wanted, KINDS.get(source.kind, source.kind)))
    return _PAGES[source.kind](source)


def make_page(source: Source, path: Path) -> None:
    """Write the page of a source; the same bytes for the same results.

    Raises InputError for a source without a page, a place that can't be written, or without the extra `report`.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(Problem(str(path), "a file name that ends in .html", path.suffix or "none"))
    write_text(path, html_of(page_of(source)))


def html_of(page: Page) -> str:
    """The page as HTML. Raises InputError without the extra `report`."""
    environment, library = _environment(), _library()
    script = "\n".join(_asset(name) for name in _SCRIPTS)
    data = {"charts": [_chart(chart) for chart in page.charts], "points": asdict(page.points) if page.points else None}
    html = environment.get_template("page.html.j2").render(
        page=page,
        style=_asset("page.css"),
        script=script,
        library=_packed(library),
        policy=_policy([script, library]),
        data=script_json(data),
        version=versions()["sparsim"],
    )
    return str(html)


@cache
def _packed(text: str) -> str:
    """A text as base64 of gzip, without a date: a third of its size, and far fewer pieces for the browser to read."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _chart(chart: Chart) -> dict[str, Any]:
    views = [{"chosen": view.chosen, "plot": view.plot} for view in chart.views]
    return {"choices": chart.choices, "first": chart.first, "views": views}


def script_json(data: Any) -> str:
    """JSON that may stand inside a script element, whatever its texts hold.

    >>> script_json({"name": "</script><!--&"})
    '{"name":"\\\\u003c/script\\\\u003e\\\\u003c!--\\\\u0026"}'
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _policy(scripts: list[str]) -> str:
    """No network, no script but those that are meant: a browser runs nothing else, whatever a name holds."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _environment() -> jinja2.Environment:
    try:
        import jinja2
    except ImportError as error:
        raise _missing(error) from None
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cell": lambda value, kind: cell(kind, value), "sort_key": sort_key}
    return environment


def _library() -> str:
    """The plotting library's script, plotly.js (MIT), as the package `plotly` carries it."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise _missing(error) from None
    # A browser reads each line break as one character, and the digest is of what it reads.
    return str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")


def _missing(error: ImportError) -> InputError:
    return InputError(
        Problem("sparsim report", "the extra `report`", f"no {error.name}", "pip install 'sparsim[report]'")
    )


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
