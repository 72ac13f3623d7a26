"""Where a recording is made: the device, its driver and clocks, PyTorch, and how large cache and memory are."""

from __future__ import annotations

import datetime
import importlib.util
import os
import platform
import re
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from simulator.errors import InputError, Problem
from simulator.units import count_of

FALLBACK_CACHE = 32 * 2**20
"""Bytes taken for the last-level cache where the system does not say."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What a measurement rests on, as text; these are columns of every recorded table."""

    device: str
    driver: str
    cuda: str
    pytorch: str
    clock_policy: str
    date: str


def need_torch(command: str) -> None:
    """Raises InputError, saying how to install it, where PyTorch is missing."""
    if importlib.util.find_spec("torch") is None:
        hint = 'it comes with the extra: pip install "sparsim[torch]"'
        raise InputError(Problem(f"sparsim record {command}", "PyTorch", "no module named torch", hint))


def check_names(option: str, names: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """The names that an option lists. Raises InputError for any that is not known."""
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise InputError(Problem(option, f"some of {', '.join(known)}", ", ".join(unknown)))
    return tuple(names)


def device_of(name: str) -> str:
    """The device that `auto`, `cpu`, `cuda` or `cuda:1` means; it becomes PyTorch's current one.

    Raises InputError for a device that is not there.
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
    """The machine as it is. `clock_policy`: how clocks are set, in words; found out as far as possible by default."""
    import torch

    today, version = datetime.date.today().isoformat(), str(torch.__version__)
    if device == "cpu":
        threads = torch.get_num_threads()
        name = f"{processor()}, {count_of(threads, 'thread')}"
        return Environment(name, "", "", version, clock_policy or _governor(), today)
    if not device.startswith("cuda"):
        return Environment(device, "", "", version, clock_policy or "unknown", today)
    cuda = str(torch.version.cuda or getattr(torch.version, "hip", None) or "")
    return Environment(torch.cuda.get_device_name(device), _driver(), cuda, version, clock_policy or "default", today)


def processor() -> str:
    """The name of this machine's processor, as Linux gives it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.machine()


def cache_bytes(device: str) -> int:
    """Bytes of the last-level cache: the GPU's L2, or the processor's largest cache."""
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
    """Bytes of memory that are free for a recording."""
    if device != "cpu":
        import torch

        return int(torch.cuda.mem_get_info(device)[0])
    info = Path("/proc/meminfo")
    text = info.read_text(encoding="ascii") if info.exists() else ""
    match = re.search(r"^MemAvailable:\s*(\d+) kB", text, flags=re.M)
    return int(match[1]) * 1024 if match else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _governor() -> str:
    """The processor's frequency governor, where the system shows one."""
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return path.read_text(encoding="ascii").strip() if path.exists() else "unknown"


def _driver() -> str:
    """Version of the NVIDIA driver; empty where it can't be told."""
    try:
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        out = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return next(iter(out.split()), "")
