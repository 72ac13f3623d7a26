"""A switch inside one node, and what fabrics of a single node share."""

from __future__ import annotations

from pydantic import field_validator

from simulator.component import expected
from simulator.fabrics.base import Fabric
from simulator.fabrics.intra_node import IntraNode
from simulator.models.exchange import Placement
from simulator.models.wiring import Links


class OneNode(Fabric):
    """Base of fabrics that are the inside of one node: `bandwidth` and `latency` are those between its GPUs.

    Nothing leaves the node, so its NICs stay idle. `intra_node` is an expected-error, and so is a second node.
    """

    @field_validator("intra_node")
    @classmethod
    def _is_the_inside(cls, value: IntraNode | None) -> None:
        if value is not None:
            hint = f"{cls.kind} is the inside of the node itself: `bandwidth` and `latency` are its own"
            raise expected("no `intra_node`", "one", hint)

    def across(self, placement: Placement, nic: float) -> Links:
        """The NICs of the one node, which carry nothing."""
        if placement.nodes > 1:
            hint = (
                "on a fabric between nodes give it as `intra_node`; dedicated parameter servers take nodes, "
                "co-located ones don't"
            )
            raise expected(f"one node on fabric {self.kind}", f"{placement.nodes} nodes", hint)
        return self.nics(placement, nic)


class NvSwitch(OneNode, kind="nvswitch"):
    """One node whose GPUs share a switch that never blocks: one port of `bandwidth` per GPU and direction.

    All links of a GPU lead to switches, so that any pair talks at the full rate of a GPU (NVIDIA, NVSwitch, 2018):
    n bytes take latency + n / bandwidth seconds, longer where ports are shared. Co-located parameter servers have ports
    of their own. More than one node is an expected-error.
    """
