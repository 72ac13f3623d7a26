"""One iteration of one job: a compute stream and a communication stream that wait for each other."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import simpy

from simulator.engine.clock.compute_times import computed_times, is_linear, push_ready_times, stretch_factors
from simulator.engine.clock.draws import Draws, foremost_workers
from simulator.engine.clock.serial_stream import goes_in_turn, run_serial, slow_down_compute
from simulator.engine.plan.plan import Plan
from simulator.models.curves import Floats
from simulator.models.timeline import Iteration, covered_time, covered_times
from simulator.records import Record

if TYPE_CHECKING:
    from simulator.engine.rounds.network import Network

Process = Generator[simpy.Event, Any, Any]


class Layer(Record):
    """A layer of a gated forward pass: when each worker reaches it (w,), has its parameters, and has finished it (w,).

    From the later of `reached` and `needed` on come combine, update and forward pass.
    """

    reached: Floats
    needed: float
    combine: float
    update: float
    end: Floats


EVERYONE = slice(None)


class Job:
    """One iteration of one job. Times are seconds since its start; the clock follows the slowest worker.

    `links` (1, L): when each link is free, as earlier iterations left it, for exchanges that are folded.
    """

    def __init__(self, plan: Plan, env: simpy.Environment, network: Network | None, links: Floats) -> None:
        self.plan, self.work, self.env, self.network, self.links = plan, plan.work, env, network, links
        self.gaps: list[tuple[float, float]] = []
        self.drawn: Draws | None = None

    def iterate(self, draws: Draws) -> Process:
        """Compute, exchange, combine, update; the process's value is the Iteration."""
        base = self.env.now
        mean: Floats | None = None
        if not (self.plan.scheduler.gated or self.plan.slowdown or self.plan.own_pace) and is_linear(self.plan, draws):
            every, few = draws, foremost_workers(draws.compute, draws.selection)
            mean = computed_times(
                self.plan, Draws(every.compute.mean(keepdims=True), every.selection.mean(keepdims=True))
            )[0]
            draws, self.drawn = Draws(every.compute[few], every.selection[few]), every
        self.segments = computed_times(self.plan, draws)
        self.factor = draws.compute * self.plan.pace[:, 0]
        self.slowdown = slowdown = self.plan.slowdown if self.plan.overlap else 0.0
        # A collective starts when the slowest worker is ready, a push when its own is.
        ready = self.segments[:, 2::2].max(axis=0).tolist()
        own = push_ready_times(self.plan, self.segments) if self.plan.own_pace else None
        if slowdown and goes_in_turn(self.plan):
            slowest = self.segments.max(axis=0)
            slowed = slow_down_compute(self.plan, slowest, slowdown)
            self.segments = self.segments * stretch_factors(slowed, slowest)
            self.done_at, self.busy = run_serial(self.plan, slowed[2::2].tolist())
        elif slowdown or self.plan.live:
            from simulator.engine.clock.live_stream import LiveStream, SlowedCompute

            live = LiveStream(self.plan, self.env, self.network, self.links)
            compute = SlowedCompute(self.env, self.segments.max(axis=0), slowdown) if slowdown else None
            yield from live.run(ready, compute, own)
            self.done_at, self.busy = live.done_at, live.busy
            if compute is not None:
                self.segments = self.segments * stretch_factors(compute.stretched, compute.slowest)
        else:
            self.done_at, self.busy = run_serial(self.plan, ready)
        self.mean = self.segments.mean(axis=0) if mean is None else mean
        iteration = self._end_layer_by_layer() if self.plan.scheduler.gated else self._end_together()
        iteration.start = base
        yield self.env.timeout(max(0.0, base + iteration.time - self.env.now))
        return iteration

    @cached_property
    def everyone(self) -> Floats:
        """`segments` of every worker, also where only the foremost were followed."""
        return self.segments if self.drawn is None else computed_times(self.plan, self.drawn)

    def _end_together(self) -> Iteration:
        """The end of an iteration in which all workers wait for each other.

        Buckets are combined in order as they arrive, then comes the update. The terms are means over workers, and they
        sum to the seconds of the iteration.
        """
        work, at = self.work, self.segments
        mean = self.mean
        parts = np.diff(mean)
        computed = now = float(at[:, -1].max())
        for done, combine in zip(self.done_at, work.combine.tolist(), strict=True):
            if done > now:
                self.gaps.append((now, done))
                now = done
            now += combine
        inside = math.fsum(covered_times(self._kernels(), self.gaps))
        before = max(0.0, float(mean[0]) - work.input_time)
        earlier = before * work.earlier_share
        breakdown = {
            "forward": before - earlier,
            "backward": float(parts[::2].sum()) + earlier,
            "selection": float(parts[1::2].sum()),
            "communication_exposed": math.fsum(stop - start for start, stop in self.gaps) - inside,
            "combine": float(work.combine.sum()) + inside,
            "update": work.update,
            "idle": work.input_time + max(0.0, computed - float(mean[-1])),  # a mean may be above by a rounding
        }
        return self._iteration(now + work.update, breakdown)

    def _end_layer_by_layer(self) -> Iteration:
        """The end of an iteration in which each layer waits only for its own parameters: the next forward pass.

        Before a layer runs, the buckets that it is the first to need are combined and updated. All workers start the
        iteration together, so with random differences the slowest of each iteration counts.
        """
        work, at = self.work, self.segments
        clock = at[:, -1] + work.input_time
        # Until the slowest worker has computed, all wait for it and not for communication.
        computed = float(clock.max())
        gaps, inside, waited = np.zeros(len(clock)), 0.0, np.zeros(len(clock))
        kernels = self._kernels()
        for step in self.forward_pass():
            late = np.maximum(step.needed - step.reached, 0.0)
            if late.any():
                gaps += late
                waited += np.clip(min(step.needed, computed) - step.reached, 0.0, None)
                slowest = float(step.reached.max())
                self.gaps.append((slowest, max(slowest, step.needed)))
                inside += covered_time(kernels, *self.gaps[-1]) if kernels else 0.0
            clock = step.end
        if work.passes.count > 1:
            clock = clock + self.later_passes()
        spent = np.diff(at, axis=1, prepend=0.0).mean(axis=0)
        backward, selection = float(spent[1::2].sum()), float(spent[2::2].sum())
        if work.passes.count > 1:
            backward += work.passes.earlier_backward * float(self.factor.mean())
        time, own = float(clock.max()), float(clock.mean())
        exposed, alone = float(gaps.mean()), float(waited.mean())
        inside = min(inside, exposed - alone)
        combine = float(work.per_layer(work.combine).sum())
        terms = {"backward": backward, "selection": selection, "combine": combine, "update": work.update}
        forward = max(0.0, own - exposed - work.input_time - math.fsum(terms.values()))  # not below by a rounding
        breakdown = {
            **terms,
            "forward": forward,
            "communication_exposed": exposed - alone - inside,
            "combine": combine + inside,
            "idle": work.input_time + alone + max(0.0, time - own),
        }
        return self._iteration(time, breakdown)

    def later_passes(self, rows: slice = EVERYONE) -> Floats:
        """Seconds (w,) of what follows a gated forward pass, up to the next iteration's: the passes after the first."""
        factor = self.factor[rows] if len(self.factor) > 1 else self.factor
        return factor * math.fsum(seconds for _, seconds in self.work.passes.between())

    def forward_pass(self, rows: slice = EVERYONE) -> Iterator[Layer]:
        """The gated forward pass at the iteration's end, layer by layer, of some of the segments' rows."""
        work, at, factor = self.work, self.segments[rows], self.factor
        if len(factor) > 1:
            factor = factor[rows]
        combine, update = work.per_layer(work.combine), work.update_shares()
        needed = self.needed_at()
        clock = at[:, -1] + work.input_time
        for layer, forward in enumerate(work.layer_forward.tolist()):
            reached = clock
            updated = np.maximum(clock, needed[layer]) + combine[layer] + update[layer]
            own = forward * factor
            clock = updated + (self._slow_down(updated, own, self.slowdown) if self.slowdown else own)
            yield Layer(reached, float(needed[layer]), float(combine[layer]), float(update[layer]), clock)

    def needed_at(self) -> Floats:
        """When each layer may run, (L,): it has its parameters, and its module's hook on the host has returned.

        h_m = max(h_{m-1}, parameters of module m) + hook. The host calls the hooks one after the other, and runs ahead
        of the GPU (ByteScheduler: locks taken in a hook of every module, while other threads of Python poll).
        """
        needed, hook, host = self.work.needed_at(self.done_at), self.plan.runtime.forward_hook, 0.0
        if not hook:
            return needed
        made, last = np.empty_like(needed), len(needed)
        first = [layer for layer, begins in enumerate(self.work.begins_module) if begins]
        for low, high in pairwise([*first, last]):
            host = max(host, float(needed[low:high].max())) + hook
            made[low:high] = host
        return made

    def _slow_down(self, start: Floats, seconds: Floats, slowdown: float) -> Floats:
        """Seconds of compute that runs slower while a collective is under way."""
        made = np.empty(len(start))
        for index, (begin, nominal) in enumerate(
            zip(start.tolist(), np.broadcast_to(seconds, start.shape), strict=True)
        ):
            clock, left = begin, float(nominal)
            for low, high, _, _, collective in self.busy:
                if not collective or high <= clock:
                    continue
                if low > clock:
                    free = min(left, low - clock)
                    clock, left = clock + free, left - free
                if left <= 0:
                    break
                progress = min(left, (high - clock) / (1 + slowdown))
                clock, left = clock + progress * (1 + slowdown), left - progress
            made[index] = clock + left - begin
        return made

    def _kernels(self) -> list[tuple[float, float]]:
        """When a kernel of an exchange ran, from and to."""
        return [(start, end) for start, end, _, _, collective in self.busy if not collective]

    def _iteration(self, time: float, breakdown: dict[str, float]) -> Iteration:
        at, self.time = self.segments, time
        busy = [(start, end) for start, end, _, _, collective in self.busy if collective]
        # Exchanges overlap only where several run at a time.
        added_up = math.fsum(end - start for start, end in busy)
        total = covered_time(busy, 0.0, time) if self.plan.streams > 1 else added_up
        ready = at[:, 2::2]
        waiting = 0.0 if self.plan.own_pace else float(np.maximum(ready.max(axis=0) - self.mean[2::2], 0.0).sum())
        return Iteration(time, breakdown, total, added_up, waiting, computed=lambda: self.everyone[:, -1])
