"""What is shipped, and what the current folder adds: the parts and files that can be named, one record each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from simulator.aliases import all_aliases
from simulator.errors import InputError
from simulator.hardware.runtime import FRAMEWORKS
from simulator.loading.csv_tables import read_rows
from simulator.loading.documents import read_document
from simulator.loading.finding import find_file, find_shipped, known_names
from simulator.scenario.named_parts import read_part, read_workload

Record = dict[str, Any]


def list_shipped(what: str) -> list[Record]:
    """Everything of one kind of `LISTED`, in alphabetical order: its `name`, `what` it is, and its figures in SI.

    A file of the current folder that cannot be read has the `error` instead.
    """
    records = []
    for name in _names(what):
        try:
            records.append({"name": name} | _READERS[what](name))
        except InputError as error:
            records.append({"name": name, "what": "", "error": str(error.problems[0])})
    return records


def _names(what: str) -> list[str]:
    if what == "aliases":
        return sorted({item.name for item in all_aliases()})
    if what == "trainings":
        folder = find_shipped("configs/trainings")
        return sorted(path.stem for path in folder.glob("*.csv")) if folder else []
    return known_names(f"scenarios/{what}" if what in ("sweeps", "papers") else what)


def _gpu(name: str) -> Record:
    gpu = read_part(name, "gpus")
    return {
        "what": gpu.name,
        "memory_bytes": gpu.memory_size,
        "memory_bandwidth_bytes_per_s": gpu.memory_bandwidth,
        "fp32_flop_per_s": gpu.fp32_rate,
        "bf16_flop_per_s": gpu.tensor_rates.get("bf16"),
        "kernels_timed": len(gpu.kernels),
    }


def _network(name: str) -> Record:
    network = read_part(name, "networks")
    return {
        "what": network.name,
        "bandwidth_bytes_per_s": network.bandwidth,
        "latency_s": network.latency,
        "nics_per_node": network.nics_per_node,
        "curves_measured": len(network.measured),
    }


def _runtime(name: str) -> Record:
    runtime = read_part(name, "runtimes")
    return {"what": runtime.name, "framework": FRAMEWORKS[runtime.framework].label}


def _workload(name: str) -> Record:
    workload = read_workload(name)
    return {
        "what": workload.name,
        "parameters": workload.numel,
        "batch_size": workload.batch_size,
        "device": workload.device or "described",
    }


def _question(folder: str) -> Callable[[str], Record]:
    def read(name: str) -> Record:
        data = _mapping(find_file(name, None, folder))
        return {"what": data.get("question") or data.get("title") or data.get("name") or ""}

    return read


def _trace(name: str) -> Record:
    about = _mapping(find_file(name, None))
    return {"what": about.get("model", ""), "workers": about.get("workers"), "batch_size": about.get("batch_size")}


def _training(name: str) -> Record:
    path = find_shipped(f"configs/trainings/{name}.csv")
    rows = [row.cells for row in read_rows(path, ("method", "elements"), [])] if path else []
    return {
        "what": f"iterations of {name} to a target, by method",
        "parameters": max((int(row["elements"]) for row in rows), default=0),
        "methods": len({row["method"] for row in rows}),
        "trainings": len(rows),
    }


def _mapping(path: Path | None) -> Record:
    data = read_document(path).data if path else None
    return data if isinstance(data, dict) else {}


def _alias(name: str) -> Record:
    return {"what": "; or ".join(item.means for item in all_aliases() if item.name == name)}


_READERS: dict[str, Callable[[str], Record]] = {
    "gpus": _gpu,
    "networks": _network,
    "runtimes": _runtime,
    "workloads": _workload,
    "scenarios": _question("scenarios"),
    "sweeps": _question("scenarios/sweeps"),
    "papers": _question("scenarios/papers"),
    "traces": _trace,
    "trainings": _training,
    "aliases": _alias,
}
LISTED = tuple(_READERS)
"""What can be listed, besides the kinds of methods, topologies, schedulers and fabrics."""
