"""The files of a first method of one's own: a package with one sparsifier, its entry point, and its test."""

import keyword
import re
from pathlib import Path

from simulator.component import discover
from simulator.errors import InputError, Problem, format_value
from simulator.files import write_text
from simulator.sparsifiers.base import Sparsifier

_NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
_PROJECT = """\
[build-system]
requires = ["setuptools>=64"]
build-backend = "setuptools.build_meta"

[project]
name = "sparsim-DASHED"
version = "0.1.0"
description = "The method NAME for sparsim"
requires-python = ">=3.11"
dependencies = ["sparsim"]

# sparsim imports every module that is named here before it looks up kinds; its classes register themselves.
[project.entry-points."simulator.plugins"]
NAME = "sparsim_NAME"

[tool.setuptools]
py-modules = ["sparsim_NAME"]
"""
_METHOD = """\
\"\"\"NAME: replace the rule in `choose`, then what follows from it in `expect`, `compute` and `exchange`.\"\"\"

from __future__ import annotations

import numpy as np

from simulator.models.exchange import AllReduce, Bucket, Compute, PushPull, Selection, Step
from simulator.models.gradients import Block, Choice, State, Values
from simulator.models.overlap import Overlap
from simulator.sparsifiers.base import Selective, Style, per_call


class CLASS(Selective, kind="NAME"):
    \"\"\"Every m-th element, m = round(1/density), starting one later each iteration; the rest is kept as residual.

    All workers send the same d/m elements, which an all-reduce sums without indices. Say here what your method is, its
    formula, and where it was published: `sparsim list` prints the first line.
    \"\"\"

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        \"\"\"The algorithm itself: increasing coordinates that each worker sends of u = residual + gradient.\"\"\"
        turn = np.flatnonzero(block.coordinate % self.stride == block.iteration % self.stride)
        return Choice([turn] * block.workers, scanned=block.numel / self.stride)

    def expect(self, bucket: Bucket, workers: int, concentration: Overlap) -> Selection:
        \"\"\"The same counts in closed form: of each worker, of the sum of all, of the largest, and the target.\"\"\"
        k = bucket.numel / self.stride
        return Selection(np.full(workers, k), k, k, self.density * bucket.numel, scanned=k)

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        \"\"\"Kernels before the exchange: add the residual, copy what is sent, and clear its residual.\"\"\"
        sent = (selection.largest,)
        return [
            per_call("residual_add", (float(bucket.numel),), 1),
            per_call("gather", sent, 1),
            per_call("residual_clear", sent, 1),
        ]

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        \"\"\"What travels, and the kernels after it: an all-reduce of the values, or push and pull with servers.\"\"\"
        nbytes = bucket.value_bytes * selection.largest
        travel: Step = PushPull(nbytes, nbytes) if style == "push_pull" else AllReduce(nbytes)
        return [travel, per_call("scatter_add", (selection.largest,), 1, "combine")]

    @property
    def stride(self) -> int:
        \"\"\"m, the distance between elements that are sent.\"\"\"
        return max(1, round(1 / self.density))
"""
_TEST = """\
\"\"\"NAME sends as many elements as it says that it does, and runs in a scenario.\"\"\"

import numpy as np
import pytest
from simulator import load, run
from simulator.component import build
from simulator.models.exchange import Bucket
from simulator.models.gradients import Block
from simulator.models.overlap import INDEPENDENT
from simulator.sparsifiers.base import Sparsifier

import sparsim_NAME  # registers the kind, installed or not

D, WORKERS = 20_000, 4


def test_the_closed_form_agrees_with_the_algorithm():
    method = build(Sparsifier, {"kind": "NAME", "density": 0.01})
    assert isinstance(method, sparsim_NAME.CLASS)
    gradients = np.random.default_rng(0).standard_normal((WORKERS, D)).astype(np.float32)
    block = Block(gradients, np.zeros(D, dtype=int), np.arange(D), np.ones(D), (D,))
    replayed = method.select(method.start(block), block).selection
    expected = method.expect(Bucket(0, (D,), 0), WORKERS, INDEPENDENT)
    assert replayed.selected.mean() == pytest.approx(expected.selected.mean(), rel=0.05)
    assert replayed.aggregated == pytest.approx(expected.aggregated, rel=0.05)


def test_a_tenth_of_the_elements_is_a_tenth_of_the_traffic():
    def sent(density):
        scenario = load("quickstart", (f"sparsifier={{kind: NAME, density: {density}}}",))
        return run(scenario).document["traffic"]["sent_bytes_per_worker"]

    assert sent(0.01) == pytest.approx(0.1 * sent(0.1), rel=0.05)
"""


def write_method(name: str, folder: Path) -> list[Path]:
    """Write `pyproject.toml`, `sparsim_NAME.py` and `test_sparsim_NAME.py`; their paths.

    Raises InputError for a name that no kind can have or one has already, and for a folder that exists.
    """
    if not _NAME.fullmatch(name) or keyword.iskeyword(name) or len(name) > 40:
        what = "a name of at most 40 small letters, digits and single _ that begins with a letter"
        raise InputError(Problem("NAME", what, format_value(name), "it becomes the `kind` in scenarios"))
    if name in discover(Sparsifier):
        raise InputError(Problem("NAME", "a kind that is not known yet", f"'{name}'", "see sparsim list sparsifiers"))
    if folder.exists():
        raise InputError(Problem(str(folder), "a new folder", "one that exists", "give another with --out"))
    words = {"NAME": name, "DASHED": name.replace("_", "-"), "CLASS": name.title().replace("_", "")}
    pattern = re.compile("|".join(words))
    texts = {"pyproject.toml": _PROJECT, f"sparsim_{name}.py": _METHOD, f"test_sparsim_{name}.py": _TEST}
    folder.mkdir(parents=True)
    for file, text in texts.items():
        write_text(folder / file, pattern.sub(lambda match: words[match[0]], text))
    return [folder / file for file in texts]
