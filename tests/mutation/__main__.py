"""Mutation testing: how many small faults in the code the tests notice, on a random sample of all that are possible.

    pip install coverage
    python tests/mutation cover                                  # once: which test runs which line, minutes
    python tests/mutation run --seed 1 --minutes 60              # try mutants in random order; goes on where it stopped
    python tests/mutation table --seed 1 > docs/mutants.md

What was tried of a seed's order is a simple random sample, wherever it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from covering import Covering
from operators import Mutant, mutants
from table import written
from trial import Tree

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("models", "engine", "sparsifiers", "topologies")
RESULTS = Path("results/mutation")
SAME = "simulator/__init__.py"


def pool(root: Path = ROOT, only: str = "") -> list[Mutant]:
    """Every mutant of the packages below `root`, in order."""
    files = [path for name in PACKAGES for path in sorted((root / "simulator" / name).glob("*.py"))]
    found = [(str(path.relative_to(root)), path.read_bytes()) for path in files]
    return [mutant for path, source in found if only in path for mutant in mutants(path, source)]


def cover() -> None:
    """Run the default tests under coverage.py, noting which test runs which line."""
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parent), "CI": "1"}
    coverage = [sys.executable, "-m", "coverage"]
    subprocess.run([*coverage, "erase"], check=True)
    subprocess.run([*coverage, "run", "-m", "pytest", "-p", "covering"], env=env, check=False)
    subprocess.run([*coverage, "combine"], check=True)


def run(seed: int, minutes: float, count: int, budget: float, only: str) -> None:
    """Try mutants in the seed's order, up to `count` of them or for so many minutes."""
    kept = RESULTS / f"{only.replace('/', '-') or 'all'}-{seed}.jsonl"
    tried = {_key(json.loads(line)) for line in kept.read_text().splitlines()} if kept.exists() else set()
    covering, until = Covering(Path(".coverage")), time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, kept.open("a") as out:
        # From the copy: the working tree may change while this runs.
        tree, killers = Tree(ROOT, Path(folder)), set[str]()
        order = pool(tree.place, only)
        random.Random(seed).shuffle(order)
        for number, mutant in enumerate(order[:count]):
            if time.monotonic() > until:
                break
            if _key(mutant.row()) in tried:
                continue
            began, tests = time.monotonic(), covering.tests(mutant.path, mutant.lines, budget)
            expected = sum(covering.seconds[name] for name in tests)
            text = mutant.applied((tree.place / mutant.path).read_bytes())
            outcome, by = tree.judge(mutant.path, text, tests, 20 + 3 * expected) if tests else ("survived", "no test")
            took = round(time.monotonic() - began, 2)
            row = mutant.row() | {"outcome": outcome, "by": by, "tests": len(tests), "seconds": took}
            print(json.dumps(row), file=out, flush=True)
            place = f"{mutant.path}:{mutant.line}"
            print(f"{number} {outcome} {took:.1f}s {place}: {mutant.before} -> {mutant.after} [{by}]", flush=True)
            killers |= {by} & covering.seconds.keys()
        _innocent(tree, sorted(killers))


def _innocent(tree: Tree, tests: list[str]) -> None:
    """The tests that noticed something pass where there is nothing. Raises RuntimeError."""
    outcome, by = tree.judge(SAME, (tree.place / SAME).read_bytes(), tests, 3600.0) if tests else ("survived", "")
    if outcome != "survived":
        raise RuntimeError(f"fails without a mutant, too: {by or outcome}")


def _key(row: dict[str, object]) -> tuple[object, ...]:
    return row["path"], row["line"], row["start"], row["end"], row["after"]


def main() -> None:
    """What the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python tests/mutation", description=__doc__)
    parser.add_argument("what", choices=("cover", "run", "table"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--count", type=int, default=None, help="mutants to try at most")
    parser.add_argument("--budget", type=float, default=12.0, help="seconds of tests per mutant")
    parser.add_argument("--only", default="", help="files whose path holds this")
    given = parser.parse_args()
    os.chdir(ROOT)
    if given.what == "cover":
        cover()
    elif given.what == "run":
        run(given.seed, given.minutes, given.count, given.budget, given.only)
    else:
        rows = [json.loads(line) for line in (RESULTS / f"all-{given.seed}.jsonl").read_text().splitlines()]
        print(written(rows, pool(), given.seed))


if __name__ == "__main__":
    main()
