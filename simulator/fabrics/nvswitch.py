"""A switch inside one node; and the base of fabrics that are a single node."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import field_validator

from simulator.component import expected
from simulator.fabrics.base import Fabric
from simulator.fabrics.intra_node import IntraNode
from simulator.models.exchange import Placement
from simulator.models.wiring import Links


class OneNode(Fabric):
    """Base of fabrics that are the inside of one node: `bandwidth` and `latency` are those between its GPUs.

    Nothing leaves the node, so that its NICs are idle. A second node and `intra_node` are expected-errors.
    """

    @field_validator("intra_node")
    @classmethod
    def _refuse_intra_node(cls, value: IntraNode | None) -> None:
        if value is not None:
            hint = f"{cls.kind} is the inside of a node: its `bandwidth` and `latency` are those between the GPUs"
            raise expected("no `intra_node`", "one", hint)

    def across(self, placement: Placement, nic: float) -> Links:
        """The NICs of the only node, which carry nothing."""
        if placement.nodes > 1:
            hint = (
                "for several nodes, choose a fabric between nodes and describe this one as its `intra_node`; "
                "dedicated parameter servers are nodes too, co-located ones are not"
            )
            raise expected(f"one node on fabric {self.kind}", f"{placement.nodes} nodes", hint)
        return self.nics(placement, nic)


class NvSwitch(OneNode, kind="nvswitch"):
    """One node whose GPUs share a switch that never blocks: one port of `bandwidth` per GPU and direction.

    All links of a GPU lead to switches, so that any pair communicates at the full rate of a GPU (NVIDIA, NVSwitch,
    2018): n bytes take latency + n / bandwidth seconds, and longer if messages share a port. Co-located parameter
    servers have ports of their own. More than one node is an expected-error.
    """

    def node_links(self, ranks: Sequence[int]) -> IntraNode:
        """NVLink at a GPU's full rate between any pair."""
        return self.own_links(link="nvlink")
