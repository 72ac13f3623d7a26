"""The cluster: nodes, network and software, how workers and links differ from what is normal, and machines that come
and go."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from simulator.bounds import BOUNDS, Factor, Index, SamplesRate
from simulator.component import MemberOf, Spec, expected
from simulator.engine.plan.network_setup import MAX_STEPS, BackgroundTraffic, LinkCondition, LinkTrace, RecordedLink
from simulator.errors import InputError, Problem, format_value
from simulator.fabrics.base import Fabric
from simulator.hardware.gpu import Gpu
from simulator.hardware.runtime import Runtime
from simulator.hardware.widths import fill_costs
from simulator.loading.csv_tables import read_rows
from simulator.loading.finding import find_in_folder
from simulator.scenario.named_parts import Named
from simulator.units import Bytes, Density, LongSeconds, PositiveLongSeconds, PositiveSeconds, Ratio, Seconds, parse


def read_link_trace(path: Path) -> tuple[Mapping[str, Any], ...]:
    """The rows of a trace, link by link. Raises InputError with file, line and column of everything that is wrong."""
    problems: list[Problem] = []
    made: dict[str, dict[str, Any]] = {}
    for count, row in enumerate(read_rows(path, ("seconds", "link"), problems)):
        given = [name for name in ("share", "rate") if name in row.cells]
        if count == MAX_STEPS or len(given) != 1:
            much = count == MAX_STEPS
            what = f"at most {MAX_STEPS:,} rows" if much else "a column share or a column rate"
            problems.append(Problem(row.where, what, "more" if much else " and ".join(given) or "neither"))
            break
        time = row.convert("seconds", float, "seconds, 0 or more", _allows("time"))
        if given[0] == "share":
            value = row.convert("share", float, "a share from 0 to 1", _allows("share of a link"))
        else:
            what = "a rate with its unit, such as 187.5 Mbit/s, or 0"
            value = row.convert("rate", lambda text: parse(text, "bandwidth"), what, _allows("bandwidth"))
        name = row.convert("link", str.strip, "the name of a link", bool) or ""
        link = made.setdefault(name, {"seconds": [], given[0]: []})
        if None not in (time, value):
            if link["seconds"] and time <= link["seconds"][-1]:
                row.note("seconds", f"more than {link['seconds'][-1]:g}, the time before", format_value(time))
            link["seconds"].append(time)
            link[given[0]].append(value)
    if problems or not made:
        raise InputError(problems or Problem(str(path), "at least one row", "none"))
    return tuple({"link": name, **columns} for name, columns in made.items())


def _allows(kind: str) -> Callable[[float], bool]:
    """Whether a number is 0 or within the bounds of its kind."""
    return lambda value: math.isfinite(value) and not BOUNDS[kind].problem(value, zero=True)


def _read(value: Any, info: ValidationInfo) -> Any:
    """The trace with the rows of its file in the place of its name."""
    value = {"file": value} if isinstance(value, str) else value
    if not isinstance(value, Mapping) or "file" not in value:
        return value
    name, near = value["file"], (info.context or {}).get("near")
    path = (find_in_folder(name, near) or find_in_folder(name, None)) if isinstance(name, str) else None
    if path is None:
        where = "in the folder of the scenario or the current one"
        raise expected(f"the name of a CSV file with recorded bandwidths, {where}", format_value(name))
    try:
        links = [RecordedLink.model_validate(item) for item in read_link_trace(path)]
    except InputError as error:
        raise PydanticCustomError("input_error", "{text}", {"text": str(error), "problems": error.problems}) from None
    return {**{key: item for key, item in value.items() if key != "file"}, "links": links}


FileOrTrace = Annotated[
    LinkTrace, BeforeValidator(_read, json_schema_input_type=str | dict[str, str | float] | LinkTrace)
]
"""A trace of links, or the name of its file, or a mapping with `file` and `start`."""


LEFT_OUT = (
    "What is lost where machines come and go (`cluster.membership`) is in none of these times: `sparsim run` says it."
)
"""A note of answers that compare undisturbed iterations."""


class Change(Spec):
    """A node that leaves, or is back and begins to heal.

    - `time`: seconds since the start.
    - `node`: counted from 0.
    - `what`: which of the two.
    """

    time: LongSeconds
    node: Index
    what: Literal["leaves", "joins"]


class Heartbeat(Spec):
    """How nodes are seen to be alive: by control messages that share the links with the data.

    A message waits behind the bytes that the link holds in its queue, while an exchange lasts (of local steps, that of
    a fragment; or all the time, where one follows the other without a pause). Where it waits longer than the timeout,
    in an exchange that is longer still, the node counts as failed although it works.

    - `timeout`: after which a node that was not heard of counts as failed.
    - `queue`: bytes of data in front of a control message.
    """

    timeout: PositiveSeconds
    queue: Bytes = 0.0


class Membership(Spec):
    """How the nodes of a cluster come and go, and what the others do then.

    Nodes fail independently at a constant rate, or at recorded times. With `policy: continue` the others notice after
    `detection_time`, lose the step (or the period of local steps) that was under way, and go on with fewer; the node
    takes part again after `healing_time`. Under a schedule without a barrier (`decoupled_diloco`) the others go on all
    the time, and only the node that failed loses its period. Nodes that hold one copy of a sharded model together are
    lost together; of a model with a single copy, or divided over nodes, nobody can go on. With `policy: checkpoint` all
    go back to the last checkpoint and start again after `detection_time` and `healing_time`.

    - `mean_time_between_failures`: of one node; none: no failures but those in `events`.
    - `events`: recorded changes, instead of random failures.
    - `duration`: seconds that recorded changes are followed for; none: up to the first period after the last of them.
    - `checkpoint_interval`: seconds of work between two checkpoints.
    - `checkpoint_time`: seconds that one takes, in which nothing else is done.
    - `quorum`: the share of the nodes (or copies of a sharded model) below which all wait until it is back.
    - `deadline`: seconds after the fastest worker at which an exchange starts without those that are not ready; none:
      all wait for the slowest. Without a barrier it changes nothing.
    - `heartbeat`: control traffic; none: it always passes.
    """

    policy: Literal["continue", "checkpoint"] = "continue"
    mean_time_between_failures: PositiveLongSeconds | None = None
    events: tuple[Change, ...] = ()
    duration: PositiveLongSeconds | None = None
    healing_time: Seconds = 0.0
    detection_time: Seconds = 0.0
    checkpoint_interval: PositiveSeconds | None = None
    checkpoint_time: Seconds = 0.0
    quorum: Density = Field(default=1e-12)
    deadline: Seconds | None = None
    heartbeat: Heartbeat | None = None

    @property
    def loses_nodes(self) -> bool:
        """Whether nodes fail or leave, and the others go on without them."""
        return self.policy == "continue" and bool(self.events or self.mean_time_between_failures)

    def refuse_unfit(self) -> None:
        if self.events and self.mean_time_between_failures is not None:
            raise expected("`events` or `mean_time_between_failures`", "both", "recorded failures are all that happen")
        if self.policy == "checkpoint" and self.checkpoint_interval is None:
            raise expected("a `checkpoint_interval` with policy checkpoint", "none")
        if self.events and self.policy == "checkpoint":
            raise expected("policy continue with `events`", "policy checkpoint", "those are followed one by one")
        if [item.time for item in self.events] != sorted(item.time for item in self.events):
            raise expected("`events` in the order of their times", "an earlier one after a later one")
        goes_on, mean = self.policy == "continue", self.mean_time_between_failures
        used = {"quorum": goes_on, "duration": goes_on and mean is None}
        used |= dict.fromkeys(("checkpoint_interval", "checkpoint_time"), not goes_on)
        for name, counts in used.items():
            value = getattr(self, name)
            if not counts and value != Membership.model_fields[name].default:
                failures = f"policy {self.policy}" + (" and random failures" if mean is not None else "")
                raise expected(f"no `{name}` with {failures}", f"{value:g}", "it changes nothing there")


MAX_WORKERS = 2**17


class Stragglers(Spec):
    """How workers differ: random jitter of the compute of each worker, and workers that are always slow.

    `jitter` is the standard deviation of a worker's forward and backward time from iteration to iteration, relative to
    its mean. `distribution` is its shape: `normal` (not below a tenth of the mean), `lognormal`, `uniform`, or
    `exponential` (a fixed time with an exponential tail, as interrupts cause it).

    - `slow`: workers that are always slower.
    """

    class Slow(Spec):
        """One worker whose compute takes `factor` times as long.

        - `worker`: counted from 0, node by node.
        """

        worker: Index
        factor: Factor

    jitter: Ratio = 0.0
    distribution: Literal["normal", "lognormal", "uniform", "exponential"] = "normal"
    slow: tuple[Slow, ...] = ()


class OtherGpus(Spec):
    """Nodes with another kind of GPU: its kernels select and combine; forward and backward take `factor` times as long.

    - `nodes`: counted from 0.
    - `gpu`: the GPU of these nodes; the name of a config, or written in place.
    - `width`: factor by which `factor` may be off either way, in nine of ten cases; none: it was measured.
    """

    nodes: tuple[Index, ...] = Field(min_length=1)
    gpu: Annotated[Gpu, Named("gpus")]
    factor: Factor
    width: float | None = Field(default=None, ge=1, le=100)


class Loading(Spec):
    """The data loading of a node, which its GPUs share: an iteration waits for batch x GPUs / rate.

    - `rate`: samples per second that a node prepares for all of its GPUs.
    - `prefetched`: whether batches are prepared while the GPUs compute, so that an iteration waits only for what is
      still missing then; otherwise it waits for the whole.
    """

    rate: SamplesRate
    prefetched: bool = True


class Cluster(Spec):
    """The cluster: nodes with GPUs, the network that connects them, and the software that runs on them.

    - `nodes`: how many nodes there are.
    - `gpus_per_node`: GPUs of each node; every GPU is a worker.
    - `gpu`: what kernels cost; the name of a config, or written in place.
    - `network`: the fabric between and inside the nodes; the name of a config, or written in place.
    - `runtime`: what the training software costs; the name of a config, or written in place. Of costs that arise in its
      framework and that it does not state, the median of what other set-ups show (`hardware.widths`).
    - `stragglers`: how workers differ.
    - `links`: links that are slow or fail.
    - `link_trace`: recorded bandwidths of links over time; the name of a CSV file.
    - `background`: traffic that is not this training's.
    - `other_gpus`: nodes with another kind of GPU.
    - `membership`: how nodes fail, leave and join; none: all are always there.
    - `loading`: data loading that the GPUs of a node share; none: nothing but the workload's `input_time`.
    """

    nodes: int = Field(ge=1, le=MAX_WORKERS)
    gpus_per_node: int = Field(default=1, ge=1, le=1024)
    gpu: Annotated[Gpu, Named("gpus")]
    network: Annotated[Fabric, MemberOf(Fabric), Named("networks")]
    runtime: Annotated[Runtime, Named("runtimes")] = Runtime()
    stragglers: Stragglers = Stragglers()
    links: tuple[LinkCondition, ...] = ()
    link_trace: FileOrTrace | None = None
    background: tuple[BackgroundTraffic, ...] = ()
    other_gpus: tuple[OtherGpus, ...] = ()
    loading: Loading | None = None
    membership: Membership | None = None

    @property
    def workers(self) -> int:
        """The number of GPUs, p."""
        return self.nodes * self.gpus_per_node

    @model_validator(mode="after")
    def _filled(self) -> Self:
        self.__dict__["runtime"] = fill_costs(self.runtime, self.gpu.framework)
        return self

    def refuse_unfit(self) -> None:
        """Raise an expected-error where workers or nodes are named that do not exist."""
        if self.workers > MAX_WORKERS:
            raise expected(f"at most {MAX_WORKERS} workers", str(self.workers))
        outside = [item.worker for item in self.stragglers.slow if item.worker >= self.workers]
        if outside:
            raise expected(f"slow workers below {self.workers}", str(outside), "workers count from 0")
        named = [node for item in self.other_gpus for node in item.nodes]
        if len(set(named)) < len(named):
            raise expected("every node once in other_gpus", str(sorted(named)))
        named += [item.node for item in (self.membership.events if self.membership else ())]
        named += [node for item in self.background for node in (item.source, item.destination)]
        absent = sorted({node for node in named if node >= self.nodes})
        if absent:
            raise expected(f"nodes below {self.nodes}", str(absent), "nodes count from 0")
