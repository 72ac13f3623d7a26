"""What a sample of mutants says, as Markdown: kill rate with its interval, files, survivors with reasons."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from operators import Mutant

REASONS = Path(__file__).with_name("equivalent.yaml")
Row = dict[str, Any]


def interval(hits: int, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's score interval (1927) of a share, 95 %.

    >>> [round(end, 3) for end in interval(90, 100)]
    [0.826, 0.945]
    """
    share = hits / trials
    middle = share + z * z / (2 * trials)
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return (middle - half) / (1 + z * z / trials), (middle + half) / (1 + z * z / trials)


def reasons() -> dict[str, str]:
    """Why no test can notice a mutant, by its key, where that is written down."""
    return {item["key"]: item["reason"] for item in yaml.safe_load(REASONS.read_text())}


def written(rows: Sequence[Row], pool: Sequence[Mutant], seed: int) -> str:
    """The page."""
    known = reasons()
    killed = [row for row in rows if row["outcome"] != "survived"]
    left = [(row, known.get(row["key"], "")) for row in rows if row["outcome"] == "survived"]
    real = len(rows) - sum(1 for _, reason in left if reason)
    lines = [
        "# Mutants",
        "",
        "Written by `python tests/mutation` (`--help` says how). Small faults (mutants) are put into `models/`, "
        "`engine/`, `sparsifiers/`, `topologies/` and `schedulers/`, one at a time; then the tests that run the "
        "changed line are run, those of the same folder first, up to a limit of seconds. A mutant that these tests do "
        "not notice counts as survived, even if other tests would notice it. Tests that compare whole results, pages "
        "and tables with earlier ones are left out.",
        "",
        f"Of {len(pool):,} possible mutants {len(rows)} were tried, in random order (seed {seed}): "
        f"{_share(len(killed), len(rows))} noticed; without the mutants that no test can notice, for the reasons "
        f"below, {_share(len(killed), real)}.",
        "",
        *_files(rows, pool),
        "",
        *_operators(rows),
        "",
        "## Survivors that a test could notice",
        "",
        *_listed((row, "") for row, reason in left if not reason),
        "",
        "## Survivors that no test can notice",
        "",
        *_listed((row, reason) for row, reason in left if reason),
    ]
    return "\n".join(lines)


def _share(hits: int, trials: int) -> str:
    low, high = interval(hits, trials)
    return f"{hits} of {trials} = {hits / trials:.1%} (95 % interval {low:.1%} to {high:.1%})"


def _files(rows: Sequence[Row], pool: Sequence[Mutant]) -> list[str]:
    possible, outcomes = Counter(mutant.path for mutant in pool), Counter((row["path"], row["outcome"]) for row in rows)
    lines = ["| file | possible | tried | killed | timed out | survived |", "|---|---|---|---|---|---|"]
    for path, count in sorted(possible.items()):
        parts = [outcomes[path, outcome] for outcome in ("killed", "timed out", "survived")]
        lines.append(f"| {path.removeprefix('simulator/')} | {count} | {sum(parts)} | {' | '.join(map(str, parts))} |")
    return lines


def _operators(rows: Sequence[Row]) -> list[str]:
    tried = Counter(row["operator"] for row in rows)
    passed = Counter(row["operator"] for row in rows if row["outcome"] == "survived")
    lines = ["| change | tried | survived |", "|---|---|---|"]
    return lines + [f"| {name} | {count} | {passed[name]} |" for name, count in tried.most_common()]


def _listed(rows: Iterable[tuple[Row, str]]) -> list[str]:
    made = []
    for row, reason in sorted(rows, key=lambda item: (item[0]["path"], item[0]["line"])):
        place = f"{row['path'].removeprefix('simulator/')}:{row['line']}"
        made.append(f"- `{place}` {_code(row['before'])} → {_code(row['after'])}{': ' + reason if reason else ''}")
    return made or ["None."]


def _code(text: str) -> str:
    shown = text if len(text) <= 90 else f"{text[:87]}..."
    return f"`{shown}`"
