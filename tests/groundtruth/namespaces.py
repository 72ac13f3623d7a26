"""Hosts as network namespaces, joined by a bridge in a namespace of its own: no packet leaves them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from types import TracebackType

from groundtruth.shaping import Shaping

MTU = 9000
_OURS = re.compile(r"sgt(\d+)-\w+")
_SETTINGS = (
    # CUBIC and BBR probe: exchanges both ways become slow and noisy.
    "net.ipv4.tcp_congestion_control=reno",
    "net.ipv4.tcp_slow_start_after_idle=0",
    "net.ipv4.tcp_no_metrics_save=1",
    "net.ipv6.conf.all.disable_ipv6=1",
    "net.ipv6.conf.default.disable_ipv6=1",
)


class Hosts:
    """`count` hosts on one switch, each with one shaped link of `MTU`; a context that takes them away again.

    `settings` of the kernel in each of them come in addition to ours.

    The names carry this process's id. What earlier processes left behind, because they were killed, is removed first.
    Deleting a namespace deletes the devices in it, and with them their peers and shapers.
    """

    def __init__(self, count: int, shaping: Shaping | None, settings: Sequence[str] = ()) -> None:
        self.shaping, self.settings = shaping, settings
        self.switch = f"sgt{os.getpid()}-switch"
        self.names = [f"sgt{os.getpid()}-h{number}" for number in range(count)]
        self.addresses = [f"10.77.0.{number + 1}" for number in range(count)]

    def __enter__(self) -> Hosts:
        sweep()
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def enter(self, number: int) -> list[str]:
        """The prefix of a command that runs on a host."""
        return ["ip", "netns", "exec", self.names[number]]

    def _make(self) -> None:
        for name in (self.switch, *self.names):
            run("ip", "netns", "add", name)
            run("ip", "netns", "exec", name, "sysctl", "-qw", *_SETTINGS, *self.settings)
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", self.switch, "link", "add", "br0", "mtu", str(MTU), "type", "bridge")
        run("ip", "-n", self.switch, "link", "set", "br0", "up")
        for number, (name, address) in enumerate(zip(self.names, self.addresses, strict=True)):
            port = f"port{number}"
            pair = ("type", "veth", "peer", "name", "eth0", "mtu", str(MTU), "netns", name)
            run("ip", "-n", self.switch, "link", "add", port, "mtu", str(MTU), *pair)
            run("ip", "-n", self.switch, "link", "set", port, "master", "br0", "up")
            run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            if self.shaping is not None:
                run(*self.shaping.on(name, "eth0"))
                if self.shaping.queue is None:
                    run(*self.shaping.on(self.switch, port))

    def _remove(self) -> None:
        for name in (*self.names, self.switch):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def sweep() -> None:
    """Remove the namespaces of processes that are no more."""
    for line in run("ip", "netns", "list").splitlines():
        match = _OURS.match(line)
        if match and not os.path.exists(f"/proc/{match[1]}"):
            subprocess.run(["ip", "netns", "del", match[0]], capture_output=True, check=False)


def run(*command: str) -> str:
    """Run a command; what it prints. Raises RuntimeError with what it complained about."""
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        raise RuntimeError(f"{' '.join(command)}: {made.stderr.strip()}")
    return made.stdout
