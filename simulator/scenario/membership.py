"""Machines that come and go: failures, healing, quorum, deadlines, and the control traffic that tells who is there."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from simulator.bounds import Index
from simulator.component import Spec, expected
from simulator.units import Bytes, Density, PositiveSeconds, Seconds

LEFT_OUT = (
    "What is lost where machines come and go (`cluster.membership`) is in none of these times: `sparsim run` says it."
)
"""A note of answers that compare times of iterations."""


class Change(Spec):
    """A node that leaves, or is back and begins to heal.

    - `time`: seconds since the start.
    - `node`: counted from 0.
    - `what`: which of the two.
    """

    time: Seconds
    node: Index
    what: Literal["leaves", "joins"]


class Heartbeat(Spec):
    """How nodes are seen to be alive: by control messages that share the links with the data.

    A message waits behind the bytes that the link holds in its queue, while an exchange lasts. Where it waits longer
    than the timeout, in an exchange that is longer still, the node counts as failed although it works.

    - `timeout`: after which a node that was not heard of counts as failed.
    - `queue`: bytes of data in front of a control message.
    """

    timeout: PositiveSeconds
    queue: Bytes = 0.0


class Membership(Spec):
    """How the nodes of a cluster come and go, and what the others do then.

    Nodes fail independently at a constant rate, or at recorded times. With `policy: continue` the others notice after
    `detection_time`, lose the step (or the period of local steps) that was under way, and go on with fewer; the node
    takes part again after `healing_time`. With `policy: checkpoint` all go back to the last checkpoint and start again
    after `detection_time` and `healing_time`.

    - `mean_time_between_failures`: of one node; none: no failures but those in `events`.
    - `events`: recorded changes, instead of random failures.
    - `duration`: seconds that recorded changes are followed for; none: up to the first period after the last of them.
    - `checkpoint_interval`: seconds of work between two checkpoints.
    - `checkpoint_time`: seconds that one takes, in which nothing else is done.
    - `quorum`: the share of the nodes below which all wait; they wait for the whole quorum to be back.
    - `deadline`: seconds after the fastest worker at which an exchange starts without those that are not ready; none:
      all wait for the slowest.
    - `heartbeat`: control traffic; none: it always passes.
    """

    policy: Literal["continue", "checkpoint"] = "continue"
    mean_time_between_failures: PositiveSeconds | None = None
    events: tuple[Change, ...] = ()
    duration: PositiveSeconds | None = None
    healing_time: Seconds = 0.0
    detection_time: Seconds = 0.0
    checkpoint_interval: PositiveSeconds | None = None
    checkpoint_time: Seconds = 0.0
    quorum: Density = Field(default=1e-12)
    deadline: Seconds | None = None
    heartbeat: Heartbeat | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.events and self.mean_time_between_failures is not None:
            raise expected("`events` or `mean_time_between_failures`", "both", "recorded failures are all that happen")
        if self.policy == "checkpoint" and self.checkpoint_interval is None:
            raise expected("a `checkpoint_interval` with policy checkpoint", "none")
        if self.events and self.policy == "checkpoint":
            raise expected("policy continue with `events`", "policy checkpoint", "those are followed one by one")
        if [item.time for item in self.events] != sorted(item.time for item in self.events):
            raise expected("`events` in the order of their times", "an earlier one after a later one")
        return self
