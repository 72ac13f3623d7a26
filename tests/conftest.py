"""Settings of the tests: how many examples Hypothesis tries, and how many processes share the work.

By default Hypothesis tries a few examples, with `HYPOTHESIS_PROFILE=thorough` many (as `.ci/run` does), and as many
without the small ones for mutants (`mutation`). With `CI` set the examples are the same every time.

`SPARSIM_TEST_ORDER=SEED pytest` imports and runs the files in a random order of this seed.
"""

from __future__ import annotations

import gc
import os
import pickle
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from chromium import CHROMIUM, OPTIONS
from hypothesis import HealthCheck, Phase, settings
from places import ROOT

if TYPE_CHECKING:
    from simulator.traces.format.trace import Trace

gc.set_threshold(200_000)  # as in a command: looking for circles after every 700 new objects takes a sixth of the time
# What one process of the tests has compiled, the hundred others need not compile again; a mutant is not to be kept.
if os.environ.get("HYPOTHESIS_PROFILE") != "mutation":
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Worker processes of pytest-xdist inherit a terminal width; the tests of tables expect none.
os.environ.pop("COLUMNS", None)
unhurried = settings(
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("few", unhurried, max_examples=10)
settings.register_profile("thorough", unhurried, max_examples=50)
unshrunk = (Phase.explicit, Phase.generate)
settings.register_profile("mutation", unhurried, max_examples=100, derandomize=True, phases=unshrunk)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "few"))


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """No worker processes where files or folders are named: starting them takes longer than testing most of these."""
    return 0 if config.args_source is pytest.Config.ArgsSource.ARGS else None


def pytest_configure(config: pytest.Config) -> None:
    """The files in a random order, where one is asked for: no test may rest on what another left behind.

    Processes of the tests share the cores, which each would otherwise take all of.
    """
    if worker := getattr(config, "workerinput", None):
        cores = max(1, (os.cpu_count() or 1) // worker["workercount"])
        os.cpu_count = lambda: cores
    seed = os.environ.get("SPARSIM_TEST_ORDER")
    if not seed:
        return
    ignored = tuple(str(config.rootpath / path) for path in config.getoption("ignore") or ())
    paths = [config.invocation_params.dir / arg for arg in config.args]
    files = {str(file) for path in paths for file in (path.rglob("test_*.py") if path.is_dir() else [path])}
    config.args[:] = sorted(file for file in files if not file.startswith(ignored))
    random.Random(int(seed)).shuffle(config.args)


@pytest.fixture(scope="session")
def small_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a trace of four workers and two iterations; the first tensor's gradients are all 0."""
    import numpy as np

    from simulator.models.gradients import Block
    from simulator.models.layers import Layer
    from simulator.traces.format.trace import TraceSpec
    from simulator.traces.format.writer import TraceWriter

    folder, numels = tmp_path_factory.mktemp("small") / "trace", (40, 200, 80)
    layers = tuple(Layer(name=name, numel=numel) for name, numel in zip(("still", "a", "b"), numels, strict=True))
    spec = TraceSpec(format=1, workers=4, iterations=(0,), model="small", batch_size=1)
    piece = np.repeat([0, 1, 2], numels)
    with TraceWriter(folder, spec, layers) as out:
        for number in range(2):
            values = np.random.default_rng(number).standard_normal((4, 320)).astype(np.float32)
            values[:, :40] = 0
            out.append(Block(values, piece, np.arange(320), np.ones(320), numels, number, tuple((n,) for n in numels)))
    return folder


@pytest.fixture(scope="session")
def short_trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """The first eight iterations of a shipped trace."""
    from simulator.traces.format.trace import Trace
    from simulator.traces.format.writer import TraceWriter

    whole = Trace.open(ROOT / "configs" / "traces" / "resnet-digits")
    folder = tmp_path_factory.mktemp("short") / "trace"
    with TraceWriter(folder, whole.spec, whole.layers) as out:
        for block in islice(whole.blocks(), 8):
            out.append(block)
    shutil.copy(whole.folder / "union.csv", folder)
    return Trace.open(folder)


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], Any]], Any]:
    """Makes, in a folder, what several processes of the tests ask for: the first one makes it, the others wait."""
    import fcntl

    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder

    def get(name: str, make: Callable[[Path], Any]) -> Any:
        kept = shared / f"{name}.pickle"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                kept.write_bytes(pickle.dumps(make(shared / name)))
        return pickle.loads(kept.read_bytes())

    return get


@pytest.fixture(scope="session")
def documentation(once: Callable[[str, Callable[[Path], Any]], Any]) -> Path:
    """The folder of the documentation's pages, which build without a warning."""
    pytest.importorskip("sphinx")
    command = [sys.executable, *["-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"], ROOT / "docs"]
    return once("pages", lambda made: subprocess.run([*command, made], check=True) and made)


def pytest_collection_finish() -> None:
    """What was imported and collected stays; the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """What is still held is not looked at ten times more while pytest ends."""
    pytest_collection_finish()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        made = started.chromium.launch(executable_path=CHROMIUM, headless=True, args=[*OPTIONS])
        yield made
        made.close()
