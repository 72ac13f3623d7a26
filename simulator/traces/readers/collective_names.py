"""Names of collectives in NCCL, PyTorch and Chakra, and what they are called here."""

from __future__ import annotations

OF_CHAKRA = (
    "all_reduce",
    "reduce",
    "all_gather",
    "gather",
    "scatter",
    "broadcast",
    "all_to_all",
    "reduce_scatter",
    "reduce_scatter",
    "barrier",
)
"""By number of CollectiveCommType (mlcommons/chakra, et_def.proto)."""
_NAMES = (*OF_CHAKRA, "send_receive", "hypercube")
_KNOWN = {name.replace("_", ""): name for name in _NAMES} | {"sendrecv": "send_receive"}
"""By small letters alone, the longest first where one is part of another."""
UNKNOWN = "unknown"


def collective_named(text: str) -> str:
    """The collective of a name such as AllReduce, alltoall or all_gather; `unknown` for others."""
    return _KNOWN.get(text.replace("_", "").lower(), UNKNOWN)


def collective_within(text: str) -> str:
    """The collective that a longer name is about: allreduce_coalesced is all_reduce, _allgather_base is all_gather."""
    plain = text.replace("_", "").lower()
    return next((_KNOWN[name] for name in sorted(_KNOWN, key=len, reverse=True) if name in plain), UNKNOWN)
