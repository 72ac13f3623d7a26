"""The processes of a job: the number of this one, where it writes, and how all that was written becomes one trace."""

from __future__ import annotations

import os
from pathlib import Path

from torch import distributed

from simulator.errors import InputError, Problem
from simulator.record.merging import merge, rank_folder, rank_folders


def find_rank(rank: int | None = None, world: int | None = None) -> tuple[int, int]:
    """The number of this process and of all: as given, from torch.distributed, or from torchrun.

    Raises InputError for a rank that is not below the number of ranks.
    """
    if rank is None and world is None and is_distributed():
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
    distributed.barrier()
    if worked and rank == 0 and len(rank_folders(out)) == world:
        merge(out)


def is_distributed() -> bool:
    """Whether this process has joined others by torch.distributed."""
    return bool(distributed.is_available() and distributed.is_initialized())
