"""The processes of a job: the number of this one, where it writes, and merging of all that was written."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from simulator.errors import InputError, Problem
from simulator.record.bucket_tables import JOB, merge_tables
from simulator.records import replace
from simulator.traces.format.trace import Trace
from simulator.traces.format.writer import TraceWriter


def rank_folder(out: Path, rank: int) -> Path:
    """The folder of the trace of one rank."""
    return out / f"rank-{rank:05d}"


def rank_folders(out: Path) -> list[Path]:
    """The existing folders of ranks, in order."""
    return sorted(path for path in out.glob("rank-*") if re.fullmatch(r"rank-\d{5}", path.name))


def merge(folder: Path, out: Path | None = None) -> tuple[int, int]:
    """Write the trace of all ranks' workers from `folder`/rank-00000, ... to `out` (default: `folder` itself).

    Iterations that a rank lacks are left out. Tables of buckets and iterations are joined too. The traces of the ranks
    are kept. Memory: one iteration of all ranks.
    Returns the numbers of workers and iterations.

    Raises InputError where a rank is missing or damaged, or has other tensors or coordinates than the first.
    """
    folders = rank_folders(folder)
    expected = [rank_folder(folder, rank) for rank in range(len(folders))]
    if not folders or folders != expected:
        got = ", ".join(path.name for path in folders[:8]) or "none of them"
        raise InputError(Problem(str(folder), "folders rank-00000, rank-00001, ... without a gap", got))
    traces = [Trace.open(path) for path in folders]
    first = traces[0]
    for trace in traces[1:]:
        _check_same(first, trace)
    common = set(first.spec.iterations).intersection(*(trace.spec.iterations for trace in traces))
    if not common:
        raise InputError(Problem(str(folder), "an iteration that every rank recorded", "none"))
    losses = [trace.spec.loss for trace in traces]
    spec = first.spec.model_copy(
        update={
            "workers": sum(trace.spec.workers for trace in traces),
            "loss": {
                n: float(f"{np.mean([loss[n] for loss in losses]):.6g}") for n in sorted(common.intersection(*losses))
            },
            "gradient_scale": min(trace.spec.gradient_scale for trace in traces),
        }
    )
    with TraceWriter(out or folder, spec, first.layers) as writer:
        streams = [(block for block in trace.blocks() if block.iteration in common) for trace in traces]
        for blocks in zip(*streams, strict=True):
            writer.append(replace(blocks[0], values=np.concatenate([block.values for block in blocks])))
    if all((path / JOB).is_file() for path in folders):
        merge_tables(folders, out or folder)
    return spec.workers, len(common)


def _check_same(first: Trace, other: Trace) -> None:
    if [(layer.name, layer.numel) for layer in first.layers] != [(layer.name, layer.numel) for layer in other.layers]:
        raise InputError(Problem(str(other.folder), f"the tensors of {first.folder.name}", "other tensors"))
    if not (
        np.array_equal(first.keys.layer, other.keys.layer)
        and np.array_equal(first.keys.coordinate, other.keys.coordinate)
    ):
        hint = "give every rank the same `sample` and `seed`"
        raise InputError(
            Problem(str(other.folder), f"the coordinates of {first.folder.name}", "other coordinates", hint)
        )


def find_rank(rank: int | None = None, world: int | None = None) -> tuple[int, int]:
    """The number of this process and of all: as given, from torch.distributed, or from torchrun.

    Raises InputError for a rank that is not below the number of ranks.
    """
    if rank is None and world is None and is_distributed():
        from torch import distributed

        return int(distributed.get_rank()), int(distributed.get_world_size())
    rank = int(os.environ.get("RANK", "0")) if rank is None else rank
    world = int(os.environ.get("WORLD_SIZE", "1")) if world is None else world
    if not 0 <= rank < world:
        raise InputError(Problem("the recorder", f"a rank below {world}, the number of ranks", str(rank)))
    return rank, world


def find_nodes(world: int) -> int:
    """How many nodes the ranks are on, as torchrun says; one where it does not."""
    local = os.environ.get("LOCAL_WORLD_SIZE", "")
    each = int(local) if local.isdecimal() and int(local) else world
    return max(1, world // each)


def prepare_folder(out: Path, rank: int, world: int) -> Path:
    """Where this rank writes: `out` itself where it is alone. Raises InputError where `out` has more ranks already."""
    if world == 1:
        return out
    extra = [path for path in rank_folders(out) if path >= rank_folder(out, world)]
    if extra:
        got, hint = f"{extra[0].name}, too", "it is of another recording: remove it, or record elsewhere"
        raise InputError(Problem(str(out), f"room for {world} ranks", got, hint))
    return rank_folder(out, rank)


def merge_ranks(out: Path, rank: int, world: int, worked: bool = True) -> None:
    """Wait for the other ranks; rank 0 merges what they wrote if it `worked` and it can see all folders."""
    if world == 1 or not is_distributed():
        return
    from torch import distributed

    distributed.barrier()
    if worked and rank == 0 and len(rank_folders(out)) == world:
        merge(out)


def is_distributed() -> bool:
    """Whether this process has joined others by torch.distributed."""
    from torch import distributed

    return bool(distributed.is_available() and distributed.is_initialized())
