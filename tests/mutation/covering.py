"""Which test runs which line, and for how long: a pytest plugin that notes it, and what is read from the notes.

Under coverage.py: `coverage run --branch -m pytest -p covering`, with this folder on PYTHONPATH.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TIMES = Path("results/mutation/times.json")
OF_IMPORTS = ("tests/cli/test_cli.py::test_shipped_schemas_are_up_to_date",)
"""What sees defaults and bounds, though another test may have imported them first."""
_seconds: dict[str, float] = {}


def room(path: str) -> str:
    """The room of a file of the program, or of its tests: the first folder, or "" of a file that stands above them.

    Examples in the docstrings of a module are tests of its room.

    >>> room("simulator/engine/clock/graph.py"), room("tests/test_units.py::test_a"), room("simulator/units.py")
    ('engine', '', '')
    >>> room("tests/contracts/test_documentation.py::test_examples_in_docstrings_hold[simulator.engine.clock.graph]")
    'engine'
    """
    if "[simulator." in path:
        path = path.partition("[")[2].removesuffix("]").replace(".", "/")
    return path.split("/")[1] if path.count("/") > 1 else ""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Every line from here on is this test's."""
    from coverage import Coverage

    current, began = Coverage.current(), time.perf_counter()
    if current is not None:
        current.switch_context(item.nodeid)
    yield
    _seconds[item.nodeid] = time.perf_counter() - began
    if current is not None:
        current.switch_context("")


def pytest_sessionfinish(session: Any) -> None:
    """Write how long each test took, beside what is known of others."""
    TIMES.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(TIMES.read_text()) if TIMES.exists() else {}
    TIMES.write_text(json.dumps(known | _seconds))


class Covering:
    """Tests by line, as the notes say."""

    def __init__(self, data: Path) -> None:
        from coverage import CoverageData

        self.data = CoverageData(str(data))
        self.data.read()
        self.seconds: dict[str, float] = json.loads(TIMES.read_text())
        self._known: dict[str, dict[int, list[str]]] = {}

    def tests(self, path: str, lines: tuple[int, ...], most: float) -> list[str]:
        """Tests that run any of `lines`: up to `most` seconds of those of the same room, then as many of others.

        The tests of the file itself are among the first: what is remembered, only the first of them was seen to run.

        Of every test function the fastest case comes first, then of every function the next: many different tests
        rather than many cases of one. What is run by an import alone (no `lines`) may be noticed by any test of the
        file, and by any of its room.
        """
        by_line = self._by_line(path)
        found = {name for line in lines or by_line for name in by_line.get(line, ()) if name in self.seconds}
        own = {name for name in (found if lines else self.seconds) if room(name) == room(path)}
        folder = str(Path("tests") / Path(path).parent.relative_to("simulator"))
        own |= {name for name in self.seconds if name.startswith(f"{folder}/test_{Path(path).stem}.py::")}
        known = [] if lines else [name for name in OF_IMPORTS if name in self.seconds]
        return [*self._fastest(own, most), *known, *self._fastest(found - own, most)]

    def _fastest(self, found: set[str], most: float) -> list[str]:
        cases: dict[str, list[str]] = defaultdict(list)
        for name in sorted(found, key=lambda name: (self.seconds[name], name)):
            cases[name.partition("[")[0]].append(name)
        in_turn = sorted(
            ((turn, self.seconds[name], name) for names in cases.values() for turn, name in enumerate(names)),
        )
        chosen, total = [], 0.0
        for _, seconds, name in in_turn:
            if total + seconds <= most or not chosen:
                chosen.append(name)
                total += seconds
        return chosen

    def _by_line(self, path: str) -> dict[int, list[str]]:
        if path not in self._known:
            self._known[path] = self.data.contexts_by_lineno(str(Path(path).resolve()))
        return self._known[path]
