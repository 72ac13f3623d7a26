"""Local steps: every worker trains by itself for some steps, and then all exchange what they have found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from pydantic import Field, WithJsonSchema

from simulator.component import MemberOf, expected
from simulator.models.exchange import Bucket
from simulator.models.fusing import fuse
from simulator.models.graph import Fragment, Period
from simulator.models.layers import Layer, block_of
from simulator.models.optimisers import NamedOptimiser, Optimiser
from simulator.records import replace
from simulator.schedulers.base import FREE, Costs, Scheduler, buckets_of
from simulator.schedulers.step import Step
from simulator.units import BytesPerSecond, PartBytes

_KINDS = WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}]})
_Written = Annotated[Scheduler, MemberOf(Scheduler), _KINDS]
NESTEROV = Optimiser(kind="momentum", nesterov=True, implementation="foreach")
"""The outer optimiser of DiLoCo and of what was made from it: SGD with Nesterov's momentum, as torch.optim runs it."""


class LocalSteps(Scheduler):
    """Base of schedules with local steps: after `inner_steps` steps without communication comes one exchange.

    - `inner_steps`: steps between two exchanges of the same tensor, H.
    - `bucket_size`: tensors travel in buckets of at least so many bytes; none: each by itself, as the reference code of
      these methods sends them.
    - `host_bandwidth`: bytes per second between GPU and host, where what belongs to the outer step lies in the memory
      of the host and is copied at each exchange; none: it stays on the GPU.
    - `inside`: the schedule by which the GPUs of a site take a step together, dense (`fsdp`, `zero`, `bucketed`, ...);
      each then exchanges its share of the model with one GPU of each other site. None: every GPU is a worker.
    - `site`: nodes of a site, for `inside`; none: as the network's `sites` say, or one where it has none.
    """

    overlap: ClassVar[bool] = False
    sends_differences: ClassVar[bool] = True

    inner_steps: int = Field(ge=1, le=1_000_000)
    bucket_size: PartBytes | None = None
    host_bandwidth: BytesPerSecond | None = None
    inside: _Written | None = None
    site: int | None = Field(default=None, ge=1, le=2**20)

    @property
    def copies(self) -> int:
        """Copies of what is exchanged that a worker keeps beside its own parameters."""
        return 1

    @property
    def period(self) -> Period:
        """One exchange of the whole model, for which everybody waits."""
        return Period(self.inner_steps, (Fragment(self.inner_steps, self.inner_steps),))

    def lay_out(self, step: Step) -> None:
        """One period: local steps, between which exchanges of fragments start and are waited for."""
        if step.shape.alone:  # one worker has nobody to exchange with
            super().lay_out(step)
            return
        period, done = self.period, 0
        for event in period.events():
            step.local_steps(event.step - done)
            done = event.step
            if event.waits:
                step.receive(event.fragment, earlier=event.earlier, together=period.together)
            else:
                step.send(event.fragment, together=period.together)
        step.end_period(period)

    def parts(self, layers: Sequence[Layer]) -> list[list[int]]:
        """The tensors of each fragment, as indices in forward order."""
        return [list(range(len(layers)))]

    def plan(self, layers: Sequence[Layer], costs: Costs = FREE) -> list[Bucket]:
        """The buckets of one fragment after the other."""
        made: list[Bucket] = []
        for number, part in enumerate(self.parts(layers)):
            for group in self._groups(part, layers, costs.value_bytes):
                (bucket,) = buckets_of([group], layers)
                # All gradients of the last step are there before anything is exchanged. After several steps an
                # embedding has changed in many rows, and what is sent of it are all its elements.
                made.append(replace(bucket, index=len(made), ready_layer=0, fragment=number, rows=()))
        return made

    def _groups(self, part: Sequence[int], layers: Sequence[Layer], value_bytes: int) -> Iterable[list[int]]:
        """Buckets as indices of tensors, in backward order."""
        if self.bucket_size is None:
            return [[layer] for layer in reversed(part)]
        groups = fuse([layers[layer] for layer in part], [self.bucket_size], value_bytes)
        return [[part[place] for place in group] for group in groups]


class Fragmented(LocalSteps):
    """Base of schedules that exchange the model in fragments, one after another within the period.

    A block is all tensors whose names begin alike up to the first number, such as `layers.7`; a tensor without a number
    is a block of its own. A fragment is every P-th block (`strided`), or a run of blocks (`sequential`). One fragment
    is exchanged every max(1, round(H/P)) steps, so that a period has P times as many: 111 for H = 100 and P = 37.

    - `fragments`: how many parts, P.
    - `pattern`: which blocks are in a fragment.
    """

    fragments: int = Field(default=1, ge=1, le=100_000)
    pattern: Literal["strided", "sequential"] = "strided"

    @property
    def between(self) -> int:
        """Steps from the exchange of one fragment to that of the next."""
        return max(1, round(self.inner_steps / self.fragments))

    def after(self, delay: int) -> Period:
        """The period in which compute waits for each fragment `delay` steps after its exchange has started."""
        starts = [(number + 1) * self.between for number in range(self.fragments)]
        return Period(self.fragments * self.between, tuple(Fragment(start, start + delay) for start in starts))

    def parts(self, layers: Sequence[Layer]) -> list[list[int]]:
        """Blocks, dealt out by the pattern. Raises an expected-error for more fragments than blocks."""
        blocks: dict[str, list[int]] = {}
        for place, layer in enumerate(layers):
            blocks.setdefault(block_of(layer.name) or layer.name, []).append(place)
        every, count = list(blocks.values()), self.fragments
        if count > len(every):
            hint = "a block of tensors whose names begin alike up to the first number is not cut"
            raise expected(f"at most {len(every)} fragments", str(count), hint)
        if self.pattern == "strided":
            chosen = [every[number::count] for number in range(count)]
        else:
            ends = [number * len(every) // count for number in range(count + 1)]
            chosen = [every[low:high] for low, high in pairwise(ends)]
        return [[layer for block in part for layer in block] for part in chosen]


class OuterStep(LocalSteps):
    """Base of schedules whose exchanged differences an outer optimiser applies.

    - `outer_optimiser`: that optimiser.
    """

    outer_optimiser: NamedOptimiser = NESTEROV

    @property
    def outer(self) -> Optimiser:
        """The outer optimiser."""
        return self.outer_optimiser
