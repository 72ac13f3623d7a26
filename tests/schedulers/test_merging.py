"""Merging against all ways to divide a model, with selection: times in whole seconds, so that ties are exact."""

from itertools import pairwise

import numpy as np
import pytest
from test_schedulers import affine, model

from simulator.errors import InputError
from simulator.models.exchange import Rows
from simulator.models.fusing import fuse
from simulator.models.layers import Layer
from simulator.schedulers.asc_wfbp import SimultaneousMerged
from simulator.schedulers.base import MAX_SLICES, buckets_of, partition
from simulator.schedulers.bucketed import Bucketed
from simulator.schedulers.lags import LayerwiseAdaptive
from simulator.schedulers.mg_wfbp import MergedGradient
from simulator.schedulers.omgs import OptimalMergedSparse


def cases(seed, count, longest):
    """Few tensors of few elements, as (elements, backward seconds), and costs of exchange and selection."""
    draw = np.random.default_rng(seed)
    for _ in range(count):
        number = int(draw.integers(1, longest + 1))
        items = zip(draw.integers(1, 6, number).tolist(), draw.integers(0, 9, number).tolist(), strict=True)
        startup, slope, *select = draw.integers(0, [9, 3, 3, 2]).tolist()
        yield list(items), (startup, slope, select)


def groupings(count):
    """All ways to cut tensors 0 ... count-1 into runs."""
    for mask in range(2 ** (count - 1)):
        yield [*pairwise([0, *(i for i in range(1, count) if mask >> (i - 1) & 1), count])]


def ready_times(items, select):
    """When each tensor is ready: it is selected from right after its backward pass."""
    return np.cumsum([backward + select[0] + select[1] * n for n, backward in items]).tolist()


def ends_in_turn(cuts, items, costs):
    """When the exchanges of runs end, one after the other."""
    (startup, slope, select), end, ends = costs, 0, []
    ready = ready_times(items, select)
    for first, last in cuts:
        end = max(end, ready[last - 1]) + startup + slope * sum(n for n, _ in items[first:last])
        ends.append(end)
    return ends


def ends_at_once(cuts, items, costs, streams):
    """The ends of the last exchanges on several streams, the latest first: start-ups at once, bytes in turn."""
    (startup, slope, select), ends = costs, [0] * streams
    ready, alone = ready_times(items, select), startup + slope  # of one element: the start-up of the law
    for first, last in cuts:
        started = max(ready[last - 1], ends[-streams]) + alone
        ends.append(max(ends[-1], started) + max(0, startup + slope * sum(n for n, _ in items[first:last]) - alone))
    return ends[: -streams - 1 : -1]


def cuts_of(scheduler, items, costs):
    """The runs of tensors in backward order that a scheduler merges."""
    sizes = [len(bucket.layers) for bucket in scheduler.plan(model(*items), affine(*costs))]
    return [*pairwise(np.cumsum([0, *sizes]).tolist())]


def test_optimal_merging_is_the_best_of_all_cuts_with_selection_too():
    for items, costs in cases(1, 150, 6):
        best = min(ends_in_turn(cuts, items, costs)[-1] for cuts in groupings(len(items)))
        assert ends_in_turn(cuts_of(MergedGradient(), items, costs), items, costs)[-1] == best


@pytest.mark.parametrize("streams", [1, 2, 3, 4])
def test_simultaneous_merging_ends_all_exchanges_as_early_as_any_cut_can(streams):
    """Of cuts with the same last end the one whose other exchanges end earlier is taken."""
    for items, costs in cases(2, 80, 7):
        best = min(ends_at_once(cuts, items, costs, streams) for cuts in groupings(len(items)))
        assert ends_at_once(cuts_of(SimultaneousMerged(streams=streams), items, costs), items, costs, streams) == best


def test_of_equal_ends_simultaneous_merging_takes_the_fewest_exchanges():
    """Exchanges that take no time end with the last tensor, however it is cut, and on one stream no other counts."""
    items = [(2, 1), (3, 0), (1, 2), (4, 1), (1, 0)]
    assert cuts_of(SimultaneousMerged(streams=1), items, (0, 0, (0, 0))) == [(0, 5)]


def omgs_by_its_rule(items, costs, by_tensor):
    """The groups of OMGS, with every time worked out from the start at each step."""
    startup, slope, (fixed, each) = costs

    def select(group):
        return sum(fixed + each * n for n in group) if by_tensor else fixed + each * sum(group)

    def exchange(group):
        return startup + slope * sum(group)

    cuts = [0]
    for new in range(1, len(items)):
        groups = [*pairwise([*cuts, new])]
        clock = busy = 0
        for first, last in groups:
            idle_until = busy
            clock += sum(backward for _, backward in items[first:last]) + select([n for n, _ in items[first:last]])
            busy = max(busy, clock) + exchange([n for n, _ in items[first:last]])
        group, more = [n for n, _ in items[cuts[-1] : new]], [items[new][0]]
        waits = items[new][1] + select(group + more) - select(group) - select(more) - max(0, idle_until - clock)
        if waits >= exchange(group) + exchange(more) - exchange(group + more):
            cuts.append(new)
    return [*pairwise([*cuts, len(items)])]


@pytest.mark.parametrize("by_tensor", [False, True])
def test_omgs_weighs_every_merge_at_the_time_it_comes_to(by_tensor):
    """Among them merges that save exactly what they wait for: these are not made."""
    ties = 0
    for items, costs in cases(3, 300, 8):
        plan = OptimalMergedSparse().plan(model(*items), affine(*costs, by_tensor=by_tensor))
        cuts = [*pairwise(np.cumsum([0, *(len(bucket.layers) for bucket in plan)]).tolist())]
        assert cuts == omgs_by_its_rule(items, costs, by_tensor)
        ties += len(cuts) > 1
    assert ties > 50


@pytest.mark.parametrize(("room", "density"), [(4, 1 / 16), (16, 1 / 4), (17, 1 / 4), (1, 1 / 64), (0.5, 1 / 64)])
def test_a_density_that_fills_the_room_exactly_is_taken(room, density):
    """Elements at 1/64 take a second each: at 1/16, the middle of the logarithms of 1/64 and 1/4, four, at 1/4 16."""
    plan = LayerwiseAdaptive(highest_density=0.25).plan(model((1, 1), (1, room)), affine(0, 1, density=1 / 64))
    assert plan[0].density == density


# Fusion and slices

MIB = 2**18  # elements of four bytes


def sizes_of(scheduler, *items):
    return [len(bucket.layers) for bucket in scheduler.plan(model(*items))]


def test_default_sizes_of_buckets_are_those_of_ddp_and_horovod():
    """DDP: 1 MiB, then 25 MiB each (Li et al. 2020); Horovod: 64 MiB within 5 ms (Sergeev and Del Balso 2018)."""
    first, more = [(MIB - 1, 0), (1, 0)], [(25 * MIB - 1, 0), (1, 0)]
    assert sizes_of(Bucketed(), *first, *more, *more) == [2, 2, 2]
    assert sizes_of(Bucketed(), (MIB, 0), (25 * MIB, 0), (25 * MIB, 0)) == [1, 1, 1]
    horovod = Bucketed(rule="horovod")
    assert sizes_of(horovod, (64 * MIB - 1, 0), (1, 0), (1, 0)) == [2, 1]
    assert sizes_of(horovod, (1, 0.005), (1, 0.0049), (1, 0.0002)) == [1, 1, 1]
    assert sizes_of(horovod, (1, 0.0049), (1, 0.0001), (1, 0.0001)) == [2, 1]


def test_a_bucket_that_lacks_one_byte_is_open():
    """Of one byte each: 7 elements do not fill 8 bytes, 8 do, in the first bucket and in the others."""
    assert fuse(model((7, 0), (1, 0), (19, 0), (1, 0), (20, 0), (1, 0)), [8.0, 20.0], 1) == [[5, 4], [3, 2], [1], [0]]


def test_buckets_keep_the_rows_of_whole_embeddings():
    """Also beside a dense tensor and in one slice; an embedding that is cut travels as a dense tensor."""
    rows = Rows(count=10, width=4)
    layers = [Layer(name="a", numel=40, rows=rows), Layer(name="b", numel=5), Layer(name="c", numel=5)]
    mixed, dense = buckets_of([[1, 0], [2]], layers)
    assert (mixed.rows, dense.rows) == ((None, rows), ())
    assert [item.rows for item in partition(layers, 160.0)] == [(), (), (rows,)]
    assert [item.rows for item in partition(layers, 159.0)] == [(), (), (), ()]
    assert [item.rows for item in partition(layers, 160.0, merged=True)] == [(), ()]


@pytest.mark.parametrize("merged", [False, True])
def test_as_many_slices_as_are_allowed_and_no_more(merged):
    """One element a slice: the limit itself is allowed, in bytes as they travel."""

    def slices(numel, limit, value_bytes):
        made = partition(model((numel, 0)), limit, value_bytes, merged=merged)
        assert sum(item.numel for item in made) == numel
        return len(made)

    assert slices(MAX_SLICES, 2.0, 2) == MAX_SLICES
    assert slices(2 * MAX_SLICES, 7.9, 3) == MAX_SLICES
    for numel, limit, value_bytes in ((MAX_SLICES + 1, 2.0, 2), (2 * MAX_SLICES + 1, 7.9, 3), (MAX_SLICES + 1, 0.0, 4)):
        with pytest.raises((InputError, ValueError), match=r"at most 100,000 slices, got 100,001 of"):
            slices(numel, limit, value_bytes)


def test_slices_of_one_buffer_span_tensors():
    """Of 5, 1 and 3 elements in backward order, four a slice: 4; 1, 1 and 2; the last one that is left."""
    made = partition(model((5, 0), (1, 0), (3, 0)), 16.0, merged=True)
    assert [(item.pieces, item.layers, item.offset, item.ready_layer) for item in made] == [
        ((4,), (2,), 0, 2),
        ((1, 1, 2), (2, 1, 0), 4, 0),
        ((1,), (0,), 2, 0),
    ]
