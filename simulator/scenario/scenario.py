"""A scenario: one question, as a person writes it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    WithJsonSchema,
    field_serializer,
    model_validator,
)

from simulator.architectures.describing import price, written
from simulator.bounds import ConcentrationOrNone, Index, Seed, within
from simulator.component import MemberOf, Spec, expected
from simulator.errors import format_value, suggest_nearest
from simulator.hardware.runtime import Runtime
from simulator.models.overlap import UNRECORDED, Overlap, ScaleMixture
from simulator.models.pipeline import Parallelism
from simulator.scenario.cluster import Cluster
from simulator.scenario.named_parts import Named, StatedWorkload
from simulator.scenario.versions import versions
from simulator.schedulers.base import Scheduler
from simulator.sparsifiers.base import Sparsifier
from simulator.topologies.base import Topology
from simulator.units import Density, Fraction, PositiveSeconds, SamplesPerSecond, Seconds

NOTES = ("name", "question", "versus", "measured")
"""Keys of a scenario that its prediction does not depend on; but for a measurement that narrows it."""
NO_QUANTITIES = ("communication_exposed", "source", "used_in_fit", "at", "noise")
"""Keys of `measured` that are not measured themselves."""
WHOLE_JOB = "scenario"
"""Key of `measured.at` under which a result has the whole scenario that was measured."""
PERIODS = ("synchronisation", "first_synchronisation")
"""Quantities of a period of local steps."""
DENSITIES = {"density_selected": "selected", "density_aggregated": "aggregated"}
"""Quantities that are shares of the elements, and their keys in the density of a result."""
NO_SECONDS = (*PERIODS, *DENSITIES)
"""Quantities that are not seconds of an iteration or of a phase of it."""


class Measured(Spec):
    """What was measured on this set-up: `validate` reads it, and predictions of this job and of changed ones are
    narrowed by it. `used_in_fit`: a constant was fitted to it, so that it says nothing new.

    A mark `true` is for the whole iteration and all else that is stated; a list names the quantities.

    - `iteration_time`: seconds of a whole iteration.
    - `throughput`: samples per second of all workers together; batch size times workers, over the iteration time.
      Where both are stated, they may differ by 1 %, and the iteration time counts.
    - `forward`: seconds of the forward pass.
    - `backward`: seconds of the backward pass.
    - `selection`: seconds of everything on the GPU before a gradient is sent.
    - `communication`: seconds of all exchanges, hidden or not, with waiting for the slowest worker.
    - `exposed_communication`: seconds of exchanges that no computation hides, with waiting for the slowest worker.
    - `combine`: seconds of adding up what arrived.
    - `update`: seconds of the optimiser.
    - `synchronisation`: seconds of one exchange after local steps, from the pseudo-gradient to the outer step.
    - `first_synchronisation`: the same of the first one of a process.
    - `density_selected`: the share of the elements that one worker chooses.
    - `density_aggregated`: the share of the elements that the sum over all workers touches.
    - `communication_exposed`: `exposed_communication` as a share of `iteration_time`, instead of it; 0: all is
      hidden.
    - `source`: where the figure was published, or who measured it.
    - `at`: where the scenario is not the one that was measured: the dotted keys that differed, with their values then.
    - `noise`: half the width of the 90 % interval of a measured time, over the whole iteration; 3 %, a prior, if none
      is stated.
    """

    iteration_time: PositiveSeconds | None = None
    throughput: SamplesPerSecond | None = None
    forward: Seconds | None = None
    backward: Seconds | None = None
    selection: Seconds | None = None
    communication: Seconds | None = None
    exposed_communication: Seconds | None = None
    combine: Seconds | None = None
    update: Seconds | None = None
    synchronisation: Seconds | None = None
    first_synchronisation: Seconds | None = None
    density_selected: Density | None = None
    density_aggregated: Density | None = None
    communication_exposed: Fraction | None = None
    source: str
    used_in_fit: bool | tuple[str, ...] = False
    at: Any = Field(default_factory=dict, json_schema_extra={"type": "object"})
    noise: Density = 0.03

    @field_serializer("at")
    def _describe_at(self, at: Any) -> Any:
        return {WHOLE_JOB: at.model_dump(mode="json", exclude_unset=True)} if isinstance(at, Scenario) else at

    @model_validator(mode="after")
    def _share_is_of_an_iteration(self) -> Self:
        share, whole = self.communication_exposed, self.iteration_time
        if share is None:
            return self
        if whole is None:
            raise expected("`iteration_time` beside the share `communication_exposed`", "none")
        stated = self.exposed_communication
        if stated is not None and abs(stated / whole - share) > 0.01:
            raise expected("`communication_exposed` or `exposed_communication`", "both", "they do not say the same")
        self.__dict__["exposed_communication"] = share * whole
        return self

    @model_validator(mode="after")
    def _marks_are_stated(self) -> Self:
        marked = () if isinstance(self.used_in_fit, bool) else self.used_in_fit
        stated = self.stated
        absent = [name for name in marked if name not in stated]
        if absent:
            raise expected("`used_in_fit` to name quantities that are stated", absent[0], suggest_nearest("", stated))
        return self

    @property
    def stated(self) -> dict[str, float]:
        """The quantities that were measured, in SI, in the order of the fields."""
        values = {name: getattr(self, name) for name in type(self).model_fields if name not in NO_QUANTITIES}
        return {name: value for name, value in values.items() if value is not None}


class OtherJob(Spec):
    """Another job on the same network: on GPUs of its own on some of the cluster's nodes.

    It iterates without end from `start` on; its GPUs are of the cluster's kind.

    - `nodes`: the nodes that it uses, counted from 0.
    - `gpus_per_node`: how many GPUs it has on each of them.
    - `workload`: what it trains.
    - `topology`: how its workers pass gradients on.
    - `sparsifier`: what it sends of a gradient.
    - `scheduler`: when its gradients travel.
    - `runtime`: its software.
    """

    nodes: tuple[Index, ...] = Field(min_length=1)
    gpus_per_node: int = Field(default=1, ge=1, le=1024)
    workload: StatedWorkload
    topology: Annotated[Topology, MemberOf(Topology)]
    sparsifier: Annotated[Sparsifier, MemberOf(Sparsifier)]
    scheduler: Annotated[Scheduler, MemberOf(Scheduler)]
    runtime: Annotated[Runtime, Named("runtimes")] = Runtime()
    start: Seconds = 0.0


class CollectiveOrder(Spec):
    """The order in which one worker issues its buckets' collectives, by number in backward order from 0.

    - `worker`: counted from 0.
    - `buckets`: every bucket once.
    """

    worker: Index
    buckets: tuple[Index, ...] = Field(min_length=1)


class Mixture(Spec):
    """The overlap law as a mixture of scales with a core that all select; `sparsim trace fit` prints both.

    - `spread`: standard deviation of the logarithm of the coordinates' scales; small is near independence.
    - `core`: share of one worker's selection that every worker selects.
    - `silent`: exponent g of the share 1 - density^g of the coordinates that nobody selects; 0: there are none.
    """

    spread: Annotated[float, within("scales")]
    core: float = Field(ge=0, le=1)
    silent: float = Field(default=0.0, ge=0, lt=1)


VERSUS = ("best_dense", "none")
"""Words that `versus` may be, instead of a mapping."""


def _check_versus(value: Any) -> Any:
    if value is None or isinstance(value, dict) or value in VERSUS:
        return value
    hint = suggest_nearest(str(value), VERSUS)
    raise expected("a mapping of keys and values, `best_dense` or `none`", format_value(value), hint)


class Scenario(Spec):
    """One question: this model, on this cluster, with this method. The same constructor in YAML and in Python.

    `versus` says what `run` compares with. A mapping describes the baseline: dotted keys, and the values that they take
    there. `best_dense`: the fastest dense run that the same framework offers on the same cluster, which is the default
    where the method is not `dense`. `none`: nothing.

    - `name`: its title; it does not change the digest.
    - `workload`: what is trained: the name of a config, the folder of a recorded trace, a mapping with `trace`, or a
      workload written in place.
    - `cluster`: the nodes, the network that connects them, and their software.
    - `topology`: how workers pass on what they send.
    - `sparsifier`: what is sent of a gradient; `dense` sends all of it.
    - `scheduler`: when gradients travel, and which travel together.
    - `parallelism`: how several GPUs compute one copy of the model together; left out, each computes a copy.
    - `overlap_concentration`: concentration c of the beta-binomial overlap law; left out, it follows the
      density, as in five recorded networks.
    - `overlap_mixture`: the overlap law as a mixture of scales, instead of `overlap_concentration`.
    - `iterations`: how many iterations are averaged, where workers differ at random.
    - `warmup`: how many iterations before those are left out.
    - `seed`: of every random draw; the same seed gives the same result.
    - `fidelity`: `fold` (closed form, exact where no two messages meet on a link), `flows` (messages share links
      fairly), or `auto`: fold where it is exact, and flows elsewhere.
    - `other_jobs`: other jobs on the same network.
    - `collective_order`: workers that issue their collectives in an order of their own.
    - `ignore_memory`: whether a training that does not fit into the memory of its GPUs is predicted all the same;
      otherwise it is refused.
    - `measured`: what was measured on this set-up, for `sparsim validate`.
    - `question`: the question that `sparsim run` prints above its answer; left out, it is made from what differs.
    """

    name: str = "unnamed"
    workload: StatedWorkload
    cluster: Cluster
    topology: Annotated[Topology, MemberOf(Topology)]
    sparsifier: Annotated[Sparsifier, MemberOf(Sparsifier)]
    scheduler: Annotated[Scheduler, MemberOf(Scheduler)]
    parallelism: Parallelism = Parallelism()
    overlap_concentration: ConcentrationOrNone | None = None
    overlap_mixture: Mixture | None = None
    iterations: int = Field(default=20, ge=1, le=100_000)
    warmup: int = Field(default=2, ge=0, le=100_000)
    seed: Seed = 0
    fidelity: Literal["auto", "fold", "flows"] = "auto"
    other_jobs: tuple[OtherJob, ...] = ()
    collective_order: tuple[CollectiveOrder, ...] = ()
    ignore_memory: bool = False
    measured: Measured | None = None
    question: str = ""
    versus: Annotated[
        dict[str, Any] | str | None,
        BeforeValidator(_check_versus),
        WithJsonSchema({"anyOf": [{"type": "object"}, {"enum": [*VERSUS]}, {"type": "null"}], "default": None}),
    ] = None

    @model_validator(mode="after")
    def _described_models_have_times(self) -> Self:
        """Described models take the times that their operators have on the cluster's GPU."""
        gpu, element_wise = self.cluster.gpu, self.cluster.runtime.element_wise
        made = [job.model_copy(update={"workload": price(job.workload, gpu, element_wise)}) for job in self.other_jobs]
        self.__dict__.update(workload=price(self.workload, gpu, element_wise), other_jobs=tuple(made))
        return self

    def refuse_unfit(self) -> None:
        """Raise an expected-error where other jobs or orders of collectives do not fit the cluster or the fidelity."""
        absent = sorted({node for job in self.other_jobs for node in job.nodes if node >= self.cluster.nodes})
        if absent:
            raise expected(f"nodes of other jobs below {self.cluster.nodes}", str(absent), "nodes count from 0")
        workers = [item.worker for item in self.collective_order if item.worker >= self.cluster.workers]
        if workers:
            raise expected(f"workers below {self.cluster.workers}", str(workers), "workers count from 0")
        if self.fidelity == "fold" and (self.other_jobs or self.cluster.background):
            raise expected("fidelity auto or flows", "fold", "only flows can share links with other traffic")
        changing = [item.link for item in self.cluster.links if item.start or item.until is not None or not item.factor]
        changing += [item.link for item in self.cluster.link_trace.links] if self.cluster.link_trace else []
        if self.fidelity == "fold" and changing:
            raise expected("fidelity auto or flows", "fold", f"{changing[0]} changes while messages are under way")
        period = self.scheduler.period
        if self.cluster.link_trace and period is not None and period.crosses:
            hint = "periods that overlap have no common beginning in a trace"
            raise expected("a scheduler whose exchanges end with its period", self.scheduler.kind, hint)
        twice = [item.worker for item in self.collective_order]
        if len(set(twice)) < len(twice):
            raise expected("every worker once in collective_order", str(sorted(twice)))

    @property
    def concentration(self) -> Overlap:
        """The overlap law; that of recorded networks (`UNRECORDED`) unless one is stated."""
        if self.overlap_mixture is not None:
            return ScaleMixture(**self.overlap_mixture.model_dump())
        return UNRECORDED if self.overlap_concentration is None else self.overlap_concentration

    @property
    def samples(self) -> int:
        """Samples of an iteration, of all copies of the model."""
        return self.workload.batch_size * self.cluster.workers // self.parallelism.copy_size

    def resolved(self) -> Mapping[str, Any]:
        """Every key with its value, names replaced by what they name: enough to build the scenario again.

        A described model stays described, so that its times follow the GPU.
        """
        made = self.model_dump(mode="json")
        jobs: tuple[Scenario | OtherJob, ...] = (self, *self.other_jobs)
        for place, job in zip((made, *made["other_jobs"]), jobs, strict=True):
            place["workload"] = written(job.workload, self.cluster.gpu) or place["workload"]
        return made

    @property
    def narrowing(self) -> Measured | None:
        """The measurement that narrows its prediction: it says something that is not in its constants already."""
        measured = self.measured
        if measured is None or measured.used_in_fit is True or all(name in NO_SECONDS for name in measured.stated):
            return None
        return measured

    @cached_property
    def digest(self) -> str:
        """SHA-256 over all that a prediction depends on, with the engine's version: the identity of a point."""
        known = {name: getattr(self.cluster, name).fingerprint for name in _CLUSTER_PARTS}
        known |= {"workload": self.workload.fingerprint, "engine": versions()["sparsim"]}
        if self.narrowing is not None:
            known["engine"] += f" {self.narrowing.fingerprint}"
        exclude = {key: True for key in (*NOTES, "workload")} | {"cluster": set(_CLUSTER_PARTS)}
        content = self.model_dump(mode="json", exclude=exclude) | known
        return hashlib.sha256(_encode(content).encode()).hexdigest()


_CLUSTER_PARTS = ("gpu", "network", "runtime")
_encode = json.JSONEncoder(sort_keys=True).encode
