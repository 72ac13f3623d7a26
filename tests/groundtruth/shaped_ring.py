"""What a shaper's queue costs a ring over many sockets: `python -m groundtruth.shaped_ring` in the folder `tests`.

Four hosts exchange the tensors of a model of 31 M parameters, one all-reduce after the other, as DiLoCo's code does.
Only what leaves a host is shaped, by `tc tbf` with a burst of 32,768 B. The kernel's CUBIC is used, as on machines that
nobody has tuned, where the other measurements use Reno.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundtruth import socket_ring
from groundtruth.measure import machine
from groundtruth.namespaces import MTU, Hosts, run
from groundtruth.shaping import Shaping, unavailable
from groundtruth.workers import Team
from simulator.studies.validate.collective_table import goodput

WORKERS = 4
BURST = 32_768
MODEL = Path(__file__).parents[2] / "scenarios/validation/4xl40s-diloco/transformer-31m.layers.csv"
SETTINGS = ("net.ipv4.tcp_congestion_control=cubic", "net.ipv4.tcp_slow_start_after_idle=1")


@dataclass(frozen=True, slots=True)
class Setting:
    """`rate` in bit/s, `queue` in seconds, and the number of sockets to one neighbour.

    `offload`: TCP hands packets of up to 64 KiB to the queue (GSO, the default of Linux), or single segments.
    """

    rate: float
    queue: float
    sockets: int
    offload: bool = True


STUDY = (
    *(Setting(200e6, queue, 16) for queue in (0.02, 0.05, 0.075, 0.09, 0.1, 0.4)),
    *(Setting(200e6, queue, 4) for queue in (0.018, 0.024)),
    *(Setting(200e6, 0.05, sockets) for sockets in (1, 4, 32, 64)),
    *(Setting(200e6, 0.05, sockets, offload=False) for sockets in (32, 64)),
    *(Setting(rate, 0.05, 32) for rate in (500e6, 100e6, 50e6)),
)
"""Each of queue, sockets, offload and rate moved by itself."""


def model_tensors() -> list[int]:
    """Bytes of the fp32 tensors of the model."""
    with MODEL.open(newline="") as file:
        return [4 * int(row["numel"]) for row in csv.DictReader(file)]


def ring_law(tensors: Iterable[int], rate: float) -> float:
    """Seconds of 2(p - 1)/p S/B, at the payload that a link carries while both directions are busy."""
    return 2 * (WORKERS - 1) / WORKERS * sum(tensors) / goodput(rate, MTU, both_ways=True)


def measure(setting: Setting, tensors: Sequence[int], repeats: int) -> dict[str, Any]:
    """Seconds of each repeat, of the slowest rank, and what was dropped and sent again in all of them on all hosts.

    One exchange before them is left out. Packets that a host's own queue refuses whole are not lost: TCP hands them
    over again, so that more is dropped than is sent again.
    """
    shaping = Shaping(setting.rate, BURST, setting.queue)
    with Hosts(WORKERS, shaping, SETTINGS) as hosts, Team(hosts, WORKERS, socket_ring.__name__) as team:
        for name in [] if setting.offload else hosts.names:
            run("ip", "-n", name, "link", "set", "eth0", "gso_max_segs", "1")
        team.ask(do="connect", sockets=setting.sockets)
        team.ask(do="exchange", tensors=tensors)
        dropped, before = count_drops(hosts), team.ask(do="count")
        seconds = [max(team.ask(do="exchange", tensors=tensors)) for _ in range(repeats)]
        counts = {
            name: sum(rank[name] for rank in team.ask(do="count")) - sum(rank[name] for rank in before)
            for name in socket_ring.COUNTERS
        }
        return {"seconds": seconds, "dropped": count_drops(hosts) - dropped, **counts}


def count_drops(hosts: Hosts) -> int:
    """Packets that the shapers of all hosts have dropped so far."""
    commands = [("tc", "-n", name, "-s", "-j", "qdisc", "show", "dev", "eth0") for name in hosts.names]
    return sum(int(json.loads(run(*command))[0]["drops"]) for command in commands)


def rows(study: Iterable[Setting], repeats: int = 3) -> Iterator[dict[str, Any]]:
    """A row for each setting: the excess over the ring law, and the kernel's counts for one exchange of one host."""
    tensors = model_tensors()
    for setting in study:
        found, law = measure(setting, tensors, repeats), ring_law(tensors, setting.rate)
        taken = [seconds / law - 1 for seconds in found["seconds"]]
        counts = {name: round(found[name] / (repeats * WORKERS)) for name in ("dropped", *socket_ring.COUNTERS)}
        yield {
            "link_rate_bit_per_s": f"{setting.rate:.0f}",
            "queue_s": setting.queue,
            "sockets": setting.sockets,
            "offload": setting.offload,
            "ring_law_s": f"{law:.4f}",
            "median_s": f"{statistics.median(found['seconds']):.4f}",
            "excess": f"{statistics.median(taken):.4f}",
            "min_excess": f"{min(taken):.4f}",
            "max_excess": f"{max(taken):.4f}",
            **counts,
            "repeats": repeats,
            "load": f"{os.getloadavg()[0]:.1f}",
            **machine(),
        }


def main() -> None:
    """Measure the study, and print its table."""
    parser = argparse.ArgumentParser(prog="python -m groundtruth.shaped_ring", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    chosen, reason = parser.parse_args(), unavailable()
    if reason:
        parser.error(reason)
    for number, row in enumerate(rows(STUDY, chosen.repeats)):
        writer = csv.DictWriter(sys.stdout, row, lineterminator="\n")
        if not number:
            writer.writeheader()
        writer.writerow(row)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
