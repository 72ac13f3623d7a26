"""Shaped links: a token bucket (`tc tbf`) at the ends of every link."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass

QUEUE_BYTES = 32 * 2**20
"""Bytes that a shaper may queue: more than all socket buffers together, so that nothing is ever dropped."""


@dataclass(frozen=True, slots=True)
class Shaping:
    """`rate` in bit/s and `burst`, the bucket's depth, in bytes. Ethernet frames count without their FCS.

    `queue`: seconds of data that are queued at most (`latency` of tbf), and only what leaves hosts is shaped, as people
    shape their machines; none: both ends of a link, with a queue that drops nothing.
    """

    rate: float
    burst: int
    queue: float | None = None

    def on(self, namespace: str, device: str) -> list[str]:
        """The command that shapes what leaves `device`."""
        bucket = ["rate", f"{self.rate:.0f}bit", "burst", f"{self.burst}b"]
        bucket += ["limit", f"{QUEUE_BYTES}b"] if self.queue is None else ["latency", f"{1e6 * self.queue:.0f}us"]
        return ["tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", "tbf", *bucket]


def unavailable() -> str:
    """Why links cannot be shaped here; empty where they can."""
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            return f"{tool} (iproute2) is not installed"
    name = f"sgt{os.getpid()}-try"
    attempts = [
        (["ip", "netns", "add", name], "network namespaces cannot be made here (root, CAP_SYS_ADMIN)"),
        (["ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", "eth1"], "no veth devices"),
        (["ip", "-n", name, "link", "add", "switch", "type", "bridge"], "no bridges"),
        (Shaping(1e8, 10_000).on(name, "eth0"), "tc tbf is missing (the kernel's sch_tbf)"),
    ]
    try:
        for command, reason in attempts:
            if subprocess.run(command, capture_output=True, check=False).returncode:
                return reason
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return ""
