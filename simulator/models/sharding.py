"""Parameters that are sharded over a group of GPUs: what is gathered, reduced and copied for each unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import BeforeValidator, Field

from simulator.component import Spec, expected
from simulator.models.curves import Floats
from simulator.models.exchange import Layout, Round, all_to_all, all_to_all_between_nodes, all_to_all_in_nodes
from simulator.records import Record

GATHER, GATHER_IN_NODE = "AllGather of shards", "AllGather of shards in nodes"
REDUCE, REDUCE_WHOLE = "ReduceScatter to shards", "AllReduce to shards"
OF_EXPERTS = GATHER_EXPERTS, REDUCE_EXPERTS, REDUCE_WHOLE_EXPERTS = tuple(
    f"{label} of experts" for label in (GATHER, REDUCE, REDUCE_WHOLE)
)
_TO_ALL = ALL_TO_ALL, IN_NODE, BETWEEN = tuple(
    f"AllToAll to shards{where}" for where in ("", " in nodes", " between nodes")
)
ENCODE, SUM = "quantise for shards", "dequantise and sum to shards"
SHARED_LABELS = frozenset((GATHER, GATHER_IN_NODE, REDUCE, REDUCE_WHOLE, *OF_EXPERTS, *_TO_ALL, ENCODE, SUM))
"""Parts of collectives among the GPUs that share parameters, as people read of them: collectives and two kernels."""

WireFormat = Literal["int4", "int8", "fp8", "bf16", "fp16"]
_BYTES: dict[WireFormat, float] = {"int4": 0.5, "int8": 1.0, "fp8": 1.0, "bf16": 2.0, "fp16": 2.0}
_SCALE_BYTES, GROUP = 4, 2048
HALVES = ("bf16", "fp16")
"""Formats that a copy to a buffer makes, without scales."""


def wire_bytes(wire: WireFormat, group: int = GROUP) -> float:
    """Bytes of an element as it travels: its code, and its part of the fp32 scale that `group` elements share.

    >>> wire_bytes("int4", 128), wire_bytes("bf16")
    (0.53125, 2.0)
    """
    return _BYTES[wire] + (0.0 if wire in HALVES else _SCALE_BYTES / group)


class Mesh(NamedTuple):
    """GPUs in groups that share a model: `size` of a group, of which `each` lie in one node, groups, micro-batches.

    `compressed`: whether groups exchange by a method that is not dense. `staged`: whether layers are in stages.
    """

    size: int
    each: int
    replicas: int
    passes: int = 1
    compressed: bool = False
    staged: bool = False


class Level(NamedTuple):
    """An all-to-all of a reduction: what it is called, bytes of an element, its messages, and GPUs that take part."""

    label: str
    width: float
    pattern: Callable[[Floats, Layout], list[Round]]
    peers: int


class ReduceWire(Spec):
    """How gradients travel to the shards: an all-to-all of rounded values, which each GPU sums in its own format.

    A format alone is one all-to-all among all GPUs that share the model. With `between`, GPUs of a node exchange
    first and sum, round the sums, and then those of equal rank in all nodes exchange: P bytes of codes in the node and
    P / g between nodes for g GPUs a node. `qgz` is int4 in both (ZeRO++, Wang et al. 2023, 2306.10209;
    deepspeed/runtime/comm/coalesced_collectives.py), `loco` the same with error feedback (Xie et al. 2024, 2407.04480),
    `sdp4bit` int8 in the node and int4 between (Jia et al. 2024, 2410.15526). Rounding, and summing with rounding
    again, are one kernel each, as in their code.

    - `format`: of all values, or of those that stay in the node.
    - `between`: format between nodes; none: one all-to-all.
    - `error_feedback`: errors of rounding are added to the next gradients; kept in 8 bits, a byte a parameter on each
      GPU, and a part of that for the sums of a node.
    - `group`: elements that share a scale of 4 bytes.
    - `chunks`: in which gradients are sent, so that exchanges in nodes, between nodes, and kernels overlap: all but the
      longest of these are seen for one chunk only (`--gradient-alltoall-pipeline` of SDP4Bit).
    """

    format: WireFormat
    between: WireFormat | None = None
    error_feedback: bool = False
    group: int = Field(default=GROUP, ge=8, le=2**24)
    chunks: int = Field(default=1, ge=1, le=1024)

    def refuse_unfit(self) -> None:
        if self.error_feedback and self.format in HALVES:
            hint = (
                "what it loses needs 32 bits: 4 bytes a parameter on each GPU undo sharding; what comes closest: `loco`"
            )
            raise expected("error feedback of 8 bits or fewer, which is kept in 8 bits", self.format, hint)

    @property
    def name(self) -> str:
        """The formats by their name, or in a few words where they have none."""
        written = self.written
        return written if isinstance(written, str) else self.described

    @property
    def written(self) -> str | Mapping[str, Any]:
        """What a person writes for it: a name, or a mapping where there is none."""
        names = (*get_args(WireFormat), *_NAMED)
        made = self.model_dump(exclude_defaults=True)
        return next((name for name in names if _spelled_out(name) == made), made)

    @property
    def described(self) -> str:
        """The formats in a few words."""
        between = f" and {self.between} between nodes" if self.between else ""
        return f"{self.format}{between}{' with error feedback' if self.error_feedback else ''}"

    def levels(self, layout: Layout) -> list[Level]:
        """The all-to-alls among these GPUs, one after the other."""
        first = wire_bytes(self.format, self.group)
        if self.between is None:
            return [Level(ALL_TO_ALL, first, all_to_all, layout.workers)]
        second = wire_bytes(self.between, self.group)
        inside = Level(IN_NODE, first, all_to_all_in_nodes, layout.gpus_per_node)
        across = Level(BETWEEN, second, all_to_all_between_nodes, layout.nodes)
        return [level for level in (inside, across) if level.peers > 1]

    def error_bytes(self, layout: Layout) -> float:
        """Bytes of errors that a GPU keeps for each parameter."""
        held = [1.0, 1 / layout.gpus_per_node][: len(self.levels(layout))]
        return sum(held) if self.error_feedback else 0.0


_NAMED: dict[str, dict[str, Any]] = {
    "qgz": {"format": "int4", "between": "int4"},
    "loco": {"format": "int4", "between": "int4", "error_feedback": True},
    "sdp4bit": {"format": "int8", "between": "int4", "group": 128, "chunks": 8},
}
_ONE_BIT = (
    "its errors are whole on every GPU, and DeepSpeed refuses it under ZeRO (runtime/engine.py); what comes closest: "
    "`loco`, or `shard` for replicas, between which any sparsifier sends"
)
SPARSE = (
    "a unit arrives in the order of its shards and leaves as a dense shard, so that nothing can be selected by tensor; "
    "what comes closest: `shard` for replicas, between which any sparsifier sends, or `qgz`"
)


def _spelled_out(value: Any) -> Any:
    if not isinstance(value, str) or value in _NAMED:
        return _NAMED.get(value, value) if isinstance(value, str) else value
    if value in get_args(WireFormat):
        return {"format": value}
    word = value.lower().replace("-", "").replace("_", "").replace(" ", "")
    one_bit = word.startswith(("onebit", "1bit", "01", "zeroone"))
    what = f"a format in which gradients travel: {', '.join((*get_args(WireFormat), *_NAMED))}, or a mapping"
    raise expected(what, value, _ONE_BIT if one_bit else SPARSE)


NamedWire = Annotated[ReduceWire, BeforeValidator(_spelled_out, json_schema_input_type=str | ReduceWire)]
"""Formats of reductions as a person writes them: by a name, by one format, or as a mapping."""

JOINT_LABELS = {
    "joint_forward": "collectives in the forward pass of layers",
    "joint_backward": "collectives in the backward pass of layers",
    "joint_forwards": "collectives in the forward pass",
    "joint_backwards": "collectives in the backward pass",
}
"""What GPUs do together inside of the layers that they divide: of a unit in both passes, and of a whole pass."""

REPLICA, SHARD, LAYERS, SITE = AXES = "replica", "shard", "layers", "site"
"""Whom GPUs exchange with, each by a communicator of its own: those with the same part of the model, those that share a
copy of it, those that divide its layers, and, after local steps, those of other sites."""

AXIS_OF = dict.fromkeys(SHARED_LABELS, SHARD) | dict.fromkeys(JOINT_LABELS.values(), LAYERS)
"""The axes of collectives that are not those of the workers, by what people read."""


class Copies(Record):
    """What a framework copies around the collectives of a unit, in passes over its parameters.

    `out`: after a gather, from the gathered buffer to the parameters, in the format of the gather, read and written.
    `into`: before a reduction, from the gradients, in the format in which they were computed, to a buffer in that of
    the reduction. `joined`: gradients are joined to one tensor before that, in their own format, read and written.
    `in_nodes`: the GPUs of each node share a second copy, from which they gather in the backward pass.
    """

    out: bool = False
    into: bool = False
    joined: bool = False
    in_nodes: bool = False
