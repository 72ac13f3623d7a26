"""What a command takes: seconds on the wall and of all processors, and bytes in memory over time."""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from places import ROOT

PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 2**20


@dataclass(frozen=True)
class Watched:
    """Wall and CPU seconds, the most bytes in memory, and these over time, of all its processes together."""

    wall: float
    cpu: float
    peak: int
    resident: list[int]
    code: int
    output: str

    def growth(self) -> int:
        """Bytes by which the fourth quarter of the time holds more than the second did, at most."""
        quarter = len(self.resident) // 4
        return max(self.resident[3 * quarter :]) - max(self.resident[quarter : 2 * quarter], default=0)

    def row(self) -> str:
        """One line of figures; the memory at every eighth of the time."""
        steps = [self.resident[len(self.resident) * i // 8] // MIB for i in range(8)] if self.resident else []
        return f"{self.wall:7.1f} {self.cpu:7.1f} {self.peak / MIB:7.0f}  {' '.join(map(str, steps))}"


def is_within(limit, measure):
    """Whether what is measured is below a limit, on a machine that may be busy with other things meanwhile: the best of
    up to ten times, later ones after a pause, against the limit times the load."""
    for attempt in range(10):
        time.sleep(attempt)
        value, load = measure(), os.getloadavg()[0] / (os.cpu_count() or 1)
        print(f"{value:.4g} of {limit:.4g} at a load of {load:.1f}")
        if value < limit * max(1.0, load):
            return True
    return False


def watched(*arguments, every=0.1, timeout=600):
    """Run `python *arguments` and watch it; `output` is what it printed, both streams."""
    command = [sys.executable, *map(str, arguments)]
    before, began, resident = os.times(), time.perf_counter(), list[int]()
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.STDOUT, stdout=said) as process:
            while process.poll() is None:
                resident.append(resident_bytes(process.pid))
                time.sleep(every)
                if time.perf_counter() - began > timeout:
                    process.kill()
        said.seek(0)
        output = said.read().decode(errors="replace")
    wall, after = time.perf_counter() - began, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Watched(wall, cpu, max(resident, default=0), resident, process.returncode, output)


def family(pid):
    """A process, those it started, and theirs."""
    found = [pid]
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):
            found += [other for child in path.read_text().split() for other in family(int(child))]
    return found


def resident_bytes(pid):
    """Bytes in memory of a process and all below it; what they share is counted for each."""
    total = 0
    for member in family(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            total += PAGE * int(Path(f"/proc/{member}/statm").read_text().split()[1])
    return total
