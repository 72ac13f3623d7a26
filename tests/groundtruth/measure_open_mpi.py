"""Measure Open MPI, and write its validation block: `python -m groundtruth.measure_open_mpi FOLDER` in `tests`."""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from groundtruth import open_mpi
from groundtruth.measure import BURST, COLUMNS, machine
from groundtruth.namespaces import MTU, Hosts
from groundtruth.shaping import Shaping, unavailable
from simulator.studies.validate.collective_table import NAME

RATE = 100e6
WORKERS = (2, 4, 8)
SIZES = {2**16: 7, 2**18: 7, 2**20: 5, 2**21: 3, 2**23: 3}
"""Bytes of each rank's vector, and how often each is measured."""
SETTINGS: tuple[open_mpi.Settings, ...] = (
    {"all_reduce": "recursive_doubling", "broadcast": "binomial", "reduce": "binomial"},
    {"all_reduce": "ring", "broadcast": "chain", "reduce": "chain"},
    {"all_reduce": "rabenseifner", "broadcast": "scatter_ring_all_gather", "reduce": "linear"},
    {},
)
"""Algorithms that are forced at the same time; in the last run Open MPI chooses."""
OPEN_MPI_COLUMNS = (*COLUMNS, "library", "algorithm", "version")


def rows(
    place: Path, workers: int, sizes: Mapping[int, int], settings: Sequence[open_mpi.Settings] = SETTINGS
) -> Iterator[dict[str, Any]]:
    """Rows of all collectives at one worker count; `sizes` as in SIZES."""
    with tempfile.TemporaryDirectory() as folder:
        for setting in settings:
            names = [*open_mpi.NUMBERS, *([] if setting else ["send", "exchange"])]
            jobs = [(name, nbytes, repeats) for name in names for nbytes, repeats in sizes.items()]
            with Hosts(workers, Shaping(RATE, BURST[RATE])) as hosts:
                for found in open_mpi.measure(hosts, place, jobs, setting, Path(folder)):
                    yield _row(workers, setting, found)


def _row(workers: int, setting: open_mpi.Settings, found: dict[str, Any]) -> dict[str, Any]:
    name, seconds = found["collective"], found["seconds"]
    link = (f"{RATE:.0f}", BURST[RATE], MTU, f"{found['ping']:.7f}")
    taken = (f"{value:.6f}" for value in (statistics.median(seconds), min(seconds), max(seconds)))
    cells = (name, workers, found["nbytes"], *link, *taken, len(seconds), f"{os.getloadavg()[0]:.1f}")
    library = ("open_mpi", setting.get(name, ""), open_mpi.VERSION)
    return dict(zip(OPEN_MPI_COLUMNS, (*cells, *machine().values(), *library), strict=True))


def main() -> None:
    """Measure, and write into the folder given."""
    parser = argparse.ArgumentParser(prog="python -m groundtruth.measure_open_mpi", description=__doc__)
    parser.add_argument("folder", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = open_mpi.environment(Path(temporary))
        reason = unavailable() or ("" if place else "Open MPI could not be installed")
        if reason or place is None:
            parser.error(reason)
        found = []
        for workers in WORKERS:
            for row in rows(place, workers, SIZES):
                found.append(row)
                print(",".join(str(cell) for cell in row.values()), flush=True)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    with (chosen.folder / NAME).open("w", newline="") as file:
        writer = csv.DictWriter(file, OPEN_MPI_COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)


if __name__ == "__main__":
    main()
