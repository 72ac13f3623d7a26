"""One trial: do the tests notice a mutant? Each in a fork of a process that has the libraries loaded already."""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

LIBRARIES = (
    "numpy", "scipy.optimize", "scipy.sparse", "pandas", "pydantic", "simpy", "yaml", "click", "rich.console",
    "hypothesis.extra.numpy", "pyarrow.parquet",
)  # fmt: skip
MEMORY = 6 * 2**30
COPIED = ("simulator", "sparsim", "tests", "configs", "scenarios", "examples", "notebooks", "docs", "README.md",
          "DESIGN.md", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff", "pyproject.toml", "LICENSE")  # fmt: skip


SNAPSHOTS = ("tests/golden", "tests/contracts/test_documentation.py", "tests/contracts/test_notebooks.py",
             "tests/studies/validate/test_validation.py")  # fmt: skip
"""Tests that compare whole results, pages and tables with earlier ones: they notice changes, and not what is wrong."""
WHICH = ("-n0", "-m", "not long and not torch and not groundtruth and not fuzz and not browser",
         *(f"--ignore={path}" for path in SNAPSHOTS))  # fmt: skip
"""In this process, and without what takes more than the budget for a mutant."""
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "--assert=plain", "--tb=no", *WHICH)
"""Plain: what is loaded already can't be rewritten, and nobody reads why an assertion fails."""
NOT_RUN = 99


class _First:
    """The first test that fails."""

    name = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.name:
            self.name = f"import of {report.nodeid}"


class Tree:
    """A copy of the working tree in which mutants are tried."""

    def __init__(self, source: Path, place: Path) -> None:
        self.place = place
        for name in COPIED:
            if (source / name).is_dir():
                shutil.copytree(source / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif (source / name).exists():
                shutil.copy2(source / name, place / name)
        # The fork must import from here, and load quickly what every trial needs.
        sys.path[:0] = [str(place)]
        sys.dont_write_bytecode = True
        for name in LIBRARIES:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)

    def judge(self, path: str, text: bytes, tests: list[str], seconds: float) -> tuple[str, str]:
        """What becomes of `text` in the place of `path` after at most `seconds`: the outcome, and who noticed."""
        place, before = self.place / path, (self.place / path).read_bytes()
        place.write_bytes(text)
        try:
            return self._tried(tests, seconds)
        finally:
            place.write_bytes(before)

    def _tried(self, tests: list[str], seconds: float) -> tuple[str, str]:
        here, there = os.pipe()
        child = os.fork()
        if not child:
            self._run(tests, there)
        os.close(there)
        status = _waited(child, seconds)
        with os.fdopen(here, "rb") as pipe:
            first = pipe.read().decode() if status is not None else ""
        if status is None:
            return "timed out", ""
        code = os.waitstatus_to_exitcode(status)
        if code in (pytest.ExitCode.NO_TESTS_COLLECTED, NOT_RUN):
            raise RuntimeError(f"these tests did not run: {tests}")
        return ("survived" if code == 0 else "killed"), first or f"exit {code}" * (code != 0)

    def _run(self, tests: list[str], pipe: int) -> None:
        """In the fork: run the tests, and leave without any of the parent's business."""
        os.setsid()
        os.chdir(self.place)
        os.environ |= {"PYTHONPATH": str(self.place), "HYPOTHESIS_PROFILE": "mutation", "PYTHONDONTWRITEBYTECODE": "1"}
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        with open(os.devnull, "r+") as nothing:
            for stream in (0, 1, 2):
                os.dup2(nothing.fileno(), stream)
        first, code = _First(), NOT_RUN
        try:
            code = int(pytest.main([*OPTIONS, *tests], [first]))
            os.write(pipe, first.name.encode())
        finally:
            os._exit(code)


def _waited(child: int, seconds: float) -> int | None:
    """The status of a child that ends in time; the others are ended, with all that they started."""
    until, status = time.monotonic() + seconds, None
    while time.monotonic() < until:
        ended, code = os.waitpid(child, os.WNOHANG)
        if ended:
            status = code
            break
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if status is None:
        os.waitpid(child, 0)
    return status
