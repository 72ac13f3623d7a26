"""What a sample of mutants says, as Markdown: shares noticed with intervals, rooms, survivors with reasons."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from covering import room
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
    left = [(row, known.get(row["key"], "")) for row in rows if row["outcome"] == "survived"]
    own, killed = [sum(map(noticed, rows)) for noticed in (_noticed_in_its_room, _noticed)]
    real = len(rows) - sum(1 for _, reason in left if reason)
    lines = [
        "# Mutants",
        "",
        "Written by `python tests/mutation` (`--help` says how). Small faults (mutants) are put into the whole "
        "program but for `record/` and `training/`, which need PyTorch, one at a time; then the tests that run the "
        "changed line are run, those of the same room (the first folder) first, up to a limit of seconds. A mutant "
        "that these tests do not notice counts as survived, even if others would notice it. Tests that compare whole "
        "results, pages and tables with earlier ones are left out.",
        "",
        f"Of {len(pool):,} possible mutants {len(rows)} were tried, in random order (seed {seed}): "
        f"{_share(own, len(rows))} noticed by the tests of their own room, {_share(killed, len(rows))} by any; "
        f"without the mutants that no test can notice, for the reasons below, {_share(own, real)} and "
        f"{_share(killed, real)}.",
        "",
        *_rooms(rows, pool),
        "",
        *_operators(rows),
        "",
        "## Survivors that a test could notice",
        "",
        *_listed((row, "") for row, reason in left if not reason),
        "",
        "## Noticed by tests of other rooms only",
        "",
        *_listed((row, "") for row in rows if _noticed(row) and not _noticed_in_its_room(row)),
        "",
        "## Survivors that no test can notice",
        "",
        *_listed((row, reason) for row, reason in left if reason),
    ]
    return "\n".join(lines)


def _noticed(row: Row) -> bool:
    return row["outcome"] != "survived"


def _noticed_in_its_room(row: Row) -> bool:
    """Whether tests of the room came to an end by it: those of other rooms begin after them."""
    by = row["by"].removeprefix("import of ")
    return _noticed(row) and (not by.startswith("tests/") or room(by) == room(row["path"]))


def _share(hits: int, trials: int) -> str:
    low, high = interval(hits, trials)
    return f"{hits} of {trials} = {hits / trials:.1%} (95 % interval {low:.1%} to {high:.1%})"


def _rooms(rows: Sequence[Row], pool: Sequence[Mutant]) -> list[str]:
    lines = ["| room | possible | tried | noticed in it | noticed | survived |", "|---|---|---|---|---|---|"]
    for name, count in sorted(Counter(room(mutant.path) for mutant in pool).items()):
        here = [row for row in rows if room(row["path"]) == name]
        own, killed = sum(map(_noticed_in_its_room, here)), sum(map(_noticed, here))
        shown = name or "files above the rooms"
        lines.append(f"| {shown} | {count:,} | {len(here)} | {own} | {killed} | {len(here) - killed} |")
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
