"""Measure everything, and write the validation block: `python -m groundtruth.measure FOLDER` in the folder `tests`.

`collectives.csv` holds a row per collective, worker count and size; a scenario each for training, with what its compute
took in the same run. Predictions come later, by `sparsim validate FOLDER`: nothing here knows them.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import os
import platform
import statistics
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from groundtruth import gloo
from groundtruth.collectives import COLLECTIVES
from groundtruth.namespaces import MTU, Hosts
from groundtruth.shaping import Shaping, unavailable
from groundtruth.training import Job
from groundtruth.workers import Team
from simulator.studies.validate.collective_table import NAME, goodput, payload_share

BURST = {100e6: 10_000, 500e6: 20_000}
"""Bytes of the bucket at each link rate: about a packet or two, so that a late timer loses none of the rate."""
WORKERS = (2, 4, 8)
SIZES = {2**18: 7, 2**20: 7, 2**22: 5}
"""Bytes of each rank's vector, and how often each is measured."""
LARGEST_WORKERS = 4
"""Up to which worker count the largest size is measured, which takes long."""
TRAINING_WORKERS = 2
"""No more than cores: a rank that computes would keep the others from reading what has arrived."""
COLUMNS = (
    *("collective", "workers", "message_bytes", "link_rate_bit_per_s", "burst_bytes", "mtu_bytes"),
    *("half_round_trip_s", "median_s", "min_s", "max_s", "repeats", "load", "machine", "kernel", "date"),
)


def machine() -> dict[str, str]:
    """Where this is measured."""
    named = [
        line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "name" in line
    ]
    return {
        "machine": f"{os.cpu_count()} x {named[0] if named else platform.machine()}",
        "kernel": f"Linux {platform.release()}",
        "date": datetime.date.today().isoformat(),
    }


def collectives(rate: float, workers: int) -> Iterator[dict[str, Any]]:
    """Rows of all collectives at one worker count, in one set-up; one more host is the parameter server."""
    with Hosts(workers + 1, Shaping(rate, BURST[rate])) as hosts, Team(hosts, workers) as team:
        yield from _measured(team, COLLECTIVES, rate, SIZES)
    if gloo.available():
        with Hosts(workers, Shaping(rate, BURST[rate])) as hosts, Team(hosts, workers, gloo.__name__) as team:
            yield from _measured(team, gloo.COLLECTIVES, rate, {2**20: SIZES[2**20]})
            yield from _measured(team, [gloo.GATHER], rate, SIZES)


def _measured(team: Team, names: Iterable[str], rate: float, sizes: Mapping[int, int]) -> Iterator[dict[str, Any]]:
    """Rows of some collectives; the largest size only with few workers."""
    ping, workers = team.half_round_trip(), team.workers
    for nbytes, repeats in sizes.items():
        if nbytes == max(SIZES) and workers > LARGEST_WORKERS:
            continue
        for name in names:
            seconds = team.collective(name, nbytes // 4, repeats)
            found = (statistics.median(seconds), min(seconds), max(seconds))
            figures = (name, workers, nbytes, f"{rate:.0f}", BURST[rate], MTU, f"{ping:.7f}")
            cells = (*figures, *(f"{value:.6f}" for value in found), repeats, f"{os.getloadavg()[0]:.1f}")
            yield dict(zip(COLUMNS, (*cells, *machine().values()), strict=True))


def phases(found: list[dict[str, Any]]) -> tuple[list[float], float]:
    """Median seconds of each phase, from the slowest rank's end of one to that of the next, and of the iteration."""
    ends = np.array([rank["marks"] for rank in found]).max(axis=0)
    return np.median(np.diff(ends, axis=1), axis=0).tolist(), float(np.median(np.diff(ends[:, -1])))


def training(rate: float, iterations: int) -> Iterator[tuple[str, str]]:
    """Scenario files of dense and Top-k training on links of `rate` (0: not shaped): name and text."""
    shaping = Shaping(rate, BURST[rate]) if rate else None
    with Hosts(TRAINING_WORKERS, shaping) as hosts, Team(hosts, TRAINING_WORKERS) as team:
        ping = team.half_round_trip()
        bandwidth = goodput(rate, MTU, both_ways=True) if rate else team.stream(2**24)
        for method, density in (("dense", 0.0), ("topk", 0.01)):
            text = scenario(method, rate, (bandwidth, ping), team.train(Job(density=density, iterations=iterations)))
            yield f"{method}-{TRAINING_WORKERS}-{label(rate).replace(' ', '').replace('/s', '').lower()}", text


def label(rate: float) -> str:
    """The links as a person names them."""
    return f"{rate / 1e6:g} Mbit/s" if rate else "unshaped"


def scenario(method: str, rate: float, wire: tuple[float, float], found: list[dict[str, Any]]) -> str:
    """A validation scenario: compute as it took in the run, the wire by its rate and ping-pong."""
    (forward, backward, selection, _, combine, update), iteration = phases(found)
    burst = BURST[rate] * payload_share(MTU) if rate else 0
    kernels, sparsifier = {"update": update}, "dense"
    if method == "topk":
        kernels |= {"topk": selection, "scatter_add": combine / TRAINING_WORKERS}
        sparsifier = "{kind: topk, density: 0.01, granularity: model}"
    else:
        backward += selection + combine  # the clock's own time
    origin = "the shaper's rate less headers and acknowledgements" if rate else "one stream between two ranks"
    where = ", ".join(machine().values())
    lines = [
        f"name: Small CNN in numpy, {'Top-k 1 %' if method == 'topk' else 'dense'}, {len(found)} ranks, {label(rate)}",
        "# Written by `python -m groundtruth.measure`; compute is what the slowest rank took in the same run.",
        "workload:",
        "  name: small CNN",
        f"  batch_size: {Job(0, 0).batch}",
        "  layers:",
        f"    - {{name: all, numel: {found[0]['numel']}, forward: {forward:.6f} s, backward: {backward:.6f} s}}",
        "cluster:",
        f"  nodes: {len(found)}",
        "  gpu:",
        "    name: a share of the CPU",
        "    kernels:",
        *(f"      {name}: {{curve: affine, intercept: {seconds:.7f} s}}" for name, seconds in kernels.items()),
        "  network:",
        "    kind: single_switch",
        f"    bandwidth: {bandwidth_text(wire[0])}  # {origin}",
        f"    latency: {1e6 * wire[1]:.1f} us  # half a ping-pong of 4 bytes",
        *([f"    burst: {burst:.0f} B"] if burst else []),
        "topology: ring",
        f"sparsifier: {sparsifier}",
        "scheduler: sequential",
        "measured:",
        f"  iteration_time: {iteration:.6f} s",
        f"  source: own measurement, TCP between network namespaces ({where})",
    ]
    return "\n".join(lines) + "\n"


def bandwidth_text(bandwidth: float) -> str:
    """Bytes/s with a unit."""
    return f"{bandwidth / 1e6:.4f} MB/s"


def main() -> None:
    """Measure, and write into the folder given."""
    parser = argparse.ArgumentParser(prog="python -m groundtruth.measure", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=("collectives", "training"))
    chosen, reason = parser.parse_args(), unavailable()
    if reason:
        parser.error(reason)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    if chosen.only != "training":
        rows = []
        for workers in WORKERS:
            for row in collectives(100e6, workers):
                rows.append(row)
                print(",".join(str(cell) for cell in row.values()), flush=True)
        with (chosen.folder / NAME).open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    if chosen.only != "collectives":
        for rate, iterations in ((100e6, 12), (500e6, 25), (0.0, 40)):
            for name, text in training(rate, iterations):
                (chosen.folder / f"{name}.yaml").write_text(text)
                print(text, flush=True)


if __name__ == "__main__":
    main()
