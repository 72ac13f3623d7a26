"""A page as one HTML file that holds its style, scripts, data and, where it has drawings, the plotting library."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from simulator.answers import plain
from simulator.errors import InputError, Problem
from simulator.files import write_text
from simulator.reporting.figures.data.sources import KINDS, Source, refuse_edited
from simulator.reporting.page.charts import Page
from simulator.reporting.page.pages.calibration_page import calibration_page
from simulator.reporting.page.pages.run_page import run_page
from simulator.reporting.page.pages.study_pages import build_up_page, quality_page, sweep_page, validation_page
from simulator.reporting.page.theme import ASSETS, make_environment
from simulator.reporting.wording.values import format_value, sort_key
from simulator.scenario.versions import versions

_PAGES = {
    "run": run_page,
    "sweep": sweep_page,
    "validation": validation_page,
    "gpu": calibration_page,
    "network": calibration_page,
    "runtime": calibration_page,
    "quality": quality_page,
    "build_up": build_up_page,
    "trace": build_up_page,
}
_STYLES = ("theme.css", "drawings.css", "page.css")
_NAME = 30
"""A value at a glance that is longer is a name, which needs more room than a number."""
_SCRIPTS = ("format.js", "theme.js", "ticks.js", "charts.js", "tables.js", "terms.js", "points.js", "start.js")


def page_of(source: Source) -> Page:
    """The page of a source. Raises InputError for a source that has none, and for results that somebody has cut."""
    if source.kind not in _PAGES:
        wanted = "a run, a sweep, a validation, a calibration, times to quality or a build-up study"
        raise InputError(Problem(source.place, wanted, KINDS[source.kind]))
    with refuse_edited(source.place):
        return _PAGES[source.kind](source)


def write_page(page: Page, path: Path) -> None:
    """Write a page; the same bytes for the same results.

    Raises InputError for a place that can't be written, and where drawings need the extra `report`.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        hint = "one figure: sparsim report --figure KIND"
        raise InputError(Problem(str(path), "a file name that ends in .html", path.suffix or "none", hint))
    write_text(path, html_of(page))


def html_of(page: Page) -> str:
    """The page as HTML. Raises InputError where it has drawings and the extra `report` is not installed."""
    zoomed = any(chart.views for chart in page.charts) or (page.points is not None and page.points.y)
    library = _plotting_library() if zoomed else ""
    script = "\n".join(_asset(name) for name in _SCRIPTS)
    data = {
        "charts": [plain({"choices": c.choices, "first": c.first, "views": c.views}) for c in page.charts],
        "points": plain(page.points),
    }
    contents = [(f"chart-{chart.kind}", chart.title) for chart in page.charts]
    contents += [("points", "All points")] * (page.points is not None)
    contents += [(anchor(table.title), table.title) for table in page.tables]
    contents.append(("provenance", "Where this comes from"))
    html = (
        make_environment(_asset, cell=lambda value, kind: format_value(kind, value), sort_key=sort_key, anchor=anchor)
        .get_template("page.html.j2")
        .render(
            page=page,
            contents=contents,
            names=any(len(value) > _NAME for _, value in page.glance),
            style="\n".join(map(_asset, _STYLES)),
            script=script,
            library=_compress(library) if library else "",
            policy=_policy([script, library] if library else [script]),
            data=script_json(data),
            version=versions()["sparsim"],
        )
    )
    return str(html)


@cache
def _compress(text: str) -> str:
    """A text as base64 of gzip without a date, which is a third of its size."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def script_json(data: Any) -> str:
    """JSON that is safe inside a script element, whatever its texts contain.

    >>> script_json({"name": "</script><!--&"})
    '{"name":"\\\\u003c/script\\\\u003e\\\\u003c!--\\\\u0026"}'
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _policy(scripts: list[str]) -> str:
    """A policy for the browser: no network, and no script but the page's own, whatever a name contains."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def anchor(title: str) -> str:
    """The anchor of a heading: its words.

    >>> anchor("In A only: 4 points")
    'in-a-only-4-points'
    """
    return "-".join(re.findall(r"[a-z0-9]+", title.lower())) or "part"


def _plotting_library() -> str:
    """The script plotly.js (MIT) from the package `plotly`."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        hint = "pip install 'sparsim[report]'"
        raise InputError(Problem("sparsim report", "the extra `report`", f"no {error.name}", hint)) from None
    # A browser reads each line break as one character, and the policy holds the digest of what it reads.
    return str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")
