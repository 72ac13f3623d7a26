"""The machine of a recording: device, driver, clocks, PyTorch, and the sizes of cache and memory."""

from __future__ import annotations

import datetime
import importlib.util
import os
import platform
import re
import subprocess
from collections.abc import Collection, Sequence
from pathlib import Path

from simulator.errors import InputError, Problem
from simulator.records import Record
from simulator.units import count_of

FALLBACK_CACHE = 32 * 2**20
"""Bytes of the last-level cache where the system does not state them."""


class Environment(Record):
    """The conditions of a measurement, as text: columns of every recorded table."""

    device: str
    driver: str
    cuda: str
    pytorch: str
    clock_policy: str
    date: str


def need_torch(command: str) -> None:
    """Raises InputError that says how to install PyTorch, where it is missing."""
    if importlib.util.find_spec("torch") is None:
        hint = 'it comes with the extra: pip install "sparsim[torch]"'
        raise InputError(Problem(f"sparsim {command}", "PyTorch", "no module named torch", hint))


def check_names(option: str, names: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """The names that an option lists. Raises InputError for any that is not known."""
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise InputError(Problem(option, f"some of {', '.join(known)}", ", ".join(unknown)))
    return tuple(names)


def device_of(name: str) -> str:
    """PyTorch's name for the device `auto`, `cpu`, `cuda` or `cuda:1`; a GPU becomes the current device.

    Raises InputError for a device that does not exist.
    """
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cpu":
        return name
    if not re.fullmatch(r"cuda(:\d+)?", name):
        raise InputError(Problem("--device", "auto, cpu, cuda or cuda:N", repr(name)))
    number = int(name.partition(":")[2] or 0)
    if number >= torch.cuda.device_count():
        hint = "is this a PyTorch built for CUDA, and is the driver loaded?"
        raise InputError(Problem("--device", "a GPU that PyTorch sees", f"{torch.cuda.device_count()} of them", hint))
    torch.cuda.set_device(number)
    return f"cuda:{number}"


def environment(device: str, clock_policy: str = "") -> Environment:
    """The conditions on this machine. `clock_policy`: how clocks are set, in words; by default what the system says."""
    import torch

    today, version = datetime.date.today().isoformat(), str(torch.__version__)
    name, driver, cuda, clocks = device, "", "", "unknown"
    if device == "cpu":
        name = f"{processor()}, {count_of(torch.get_num_threads(), 'thread')}"
        clocks = _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or clocks
    elif device.startswith("cuda"):
        name, driver, clocks = torch.cuda.get_device_name(device), _driver(), "default"
        cuda = str(torch.version.cuda or getattr(torch.version, "hip", None) or "")
    return Environment(name, driver, cuda, version, clock_policy or clocks, today)


def processor() -> str:
    """The name of the processor, as Linux gives it."""
    match = re.search(r"^model name\s*:[^\S\n]*(\S.*)", _read("/proc/cpuinfo"), flags=re.M)
    return match[1].strip() if match else platform.machine()


def cache_bytes(device: str) -> int:
    """Bytes of the last-level cache: the L2 of a GPU, or the largest cache of the processor."""
    if device != "cpu":
        import torch

        return int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0)) or FALLBACK_CACHE
    sizes = [FALLBACK_CACHE]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        match = re.fullmatch(r"(\d+)([KM]?)\s*", path.read_text(encoding="ascii"))
        if match:
            sizes.append(int(match[1]) * {"": 1, "K": 2**10, "M": 2**20}[match[2]])
    return max(sizes)


def free_bytes(device: str) -> int:
    """Bytes of free memory."""
    if device != "cpu":
        import torch

        return int(torch.cuda.mem_get_info(device)[0])
    match = re.search(r"^MemAvailable:\s*(\d+) kB", _read("/proc/meminfo"), flags=re.M)
    return int(match[1]) * 1024 if match else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _read(path: str) -> str:
    """The text of a file of the system; "" where there is none."""
    return Path(path).read_text(encoding="utf-8") if Path(path).exists() else ""


def _driver() -> str:
    try:
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        out = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return next(iter(out.split()), "")
