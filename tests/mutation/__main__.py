"""Mutation testing: how many small faults in the code the tests notice, on a random sample of all that are possible.

    pip install coverage
    python tests/mutation cover                                  # once: which test runs which line, minutes
    python tests/mutation run --seed 1 --count 200               # try mutants in random order; goes on where it stopped
    python tests/mutation table --seed 1 > docs/developers/mutants.md

What was tried of a seed's order is a simple random sample, wherever it was stopped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from covering import Covering, room
from operators import Mutant, mutants
from table import reasons
from table import written as page
from trial import WHICH, Tree

ROOT = Path(__file__).resolve().parents[2]
NEED_TORCH = ("record", "training")
"""Rooms whose tests need PyTorch, which takes longer to load than a mutant's tests may."""
RESULTS = Path("results/mutation")
SAME = "simulator/__init__.py"


def pool(root: Path = ROOT, only: str = "") -> list[Mutant]:
    """Every mutant of the program below `root`, in order, but for those of the rooms that need PyTorch."""
    files = sorted((root / "simulator").rglob("*.py"))
    found = [(str(path.relative_to(root)), path.read_bytes()) for path in files]
    found = [(path, source) for path, source in found if room(path) not in NEED_TORCH]
    return [mutant for path, source in found if only in path for mutant in mutants(path, source)]


def cover() -> None:
    """Run the tests under coverage.py, noting which test runs which line and for how long."""
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parent), "CI": "1", "HYPOTHESIS_PROFILE": "mutation"}
    coverage = [sys.executable, "-m", "coverage"]
    subprocess.run([*coverage, "erase"], check=True)
    subprocess.run([*coverage, "run", "-m", "pytest", *WHICH, "-p", "covering"], env=env, check=False)
    subprocess.run([*coverage, "combine"], check=True)


def run(seed: int, count: int, minutes: float, budget: float, *, only: str, again: bool) -> None:
    """Try `count` mutants in the seed's order, for so many minutes; `again`: first those that survived before."""
    kept = RESULTS / f"{only.replace('/', '-') or 'all'}-{seed}.jsonl"
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    covering, until = Covering(Path(".coverage")), time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        # From the copy: the working tree may change while this runs.
        tree, killers = Tree(ROOT, Path(folder)), set[str]()
        possible = {mutant.key: mutant for mutant in pool(tree.place, only)}
        # What has changed since it was tried is no mutant of this code.
        rows = [row for row in rows if row["key"] in possible]
        known = reasons()
        tried = {r["key"]: r for r in rows if not again or r["outcome"] != "survived" or r["key"] in known}
        first = {row["key"] for row in rows} - tried.keys()
        order = sorted(possible.values(), key=lambda mutant: (mutant.key not in first, _drawn(seed, mutant)))
        for number, mutant in enumerate(order):
            if time.monotonic() > until or len(tried) >= count:
                break
            if mutant.key in tried:
                continue
            row = tried[mutant.key] = _tried(mutant, tree, covering, budget)
            place = f"{mutant.path}:{mutant.line}"
            outcome = f"{row['outcome']} {row['seconds']:.1f}s [{row['by']}]"
            print(f"{number} {outcome} {place}: {mutant.before} -> {mutant.after}", flush=True)
            killers |= {row["by"]} & covering.seconds.keys()
            left = [row for row in rows if row["key"] not in tried and row["key"] in first]
            written = kept.with_suffix(".new")
            written.write_text("".join(json.dumps(row) + "\n" for row in [*tried.values(), *left]))
            written.replace(kept)
        _innocent(tree, sorted(killers))


def _tried(mutant: Mutant, tree: Tree, covering: Covering, budget: float) -> dict[str, Any]:
    """What became of a mutant, as a row of the results."""
    began, tests = time.monotonic(), covering.tests(mutant.path, mutant.lines, budget)
    expected = sum(covering.seconds[name] for name in tests)
    text = mutant.applied((tree.place / mutant.path).read_bytes())
    outcome, by = tree.judge(mutant.path, text, tests, 20 + 3 * expected) if tests else ("survived", "no test")
    took = round(time.monotonic() - began, 2)
    return mutant.row() | {"outcome": outcome, "by": by, "tests": len(tests), "seconds": took}


def _drawn(seed: int, mutant: Mutant) -> str:
    """A mutant's place in the seed's random order: the same whatever else there is."""
    return hashlib.sha256(f"{seed} {mutant.key}".encode()).hexdigest()


def _innocent(tree: Tree, tests: list[str]) -> None:
    """The tests that noticed something pass where there is nothing. Raises RuntimeError."""
    outcome, by = tree.judge(SAME, (tree.place / SAME).read_bytes(), tests, 3600.0) if tests else ("survived", "")
    if outcome != "survived":
        raise RuntimeError(f"fails without a mutant, too: {by or outcome}")


def main() -> None:
    """What the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python tests/mutation", description=__doc__)
    parser.add_argument("what", choices=("cover", "run", "table"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--again", action="store_true", help="try once more what survived without a known reason")
    parser.add_argument("--budget", type=float, default=12.0, help="seconds of tests per mutant")
    parser.add_argument("--only", default="", help="files whose path holds this")
    given = parser.parse_args()
    os.chdir(ROOT)
    if given.what == "cover":
        cover()
    elif given.what == "run":
        run(given.seed, given.count, given.minutes, given.budget, only=given.only, again=given.again)
    else:
        rows = [json.loads(line) for line in (RESULTS / f"all-{given.seed}.jsonl").read_text().splitlines()]
        print(page(rows, pool(), given.seed))


if __name__ == "__main__":
    main()
