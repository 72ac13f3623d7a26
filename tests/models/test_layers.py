"""Workloads worked out by hand: modules, batches, passes and the times of layers."""

import math

import pytest

from simulator.models.layers import Layer, Workload
from simulator.models.optimisers import UNKNOWN_OPTIMISER, Optimiser
from simulator.models.widths import tilt_profile


def workload(times, **more):
    """Layers of (forward, backward) seconds and so many elements."""
    made = [Layer(name=f"l{i}", numel=n, forward=f, backward=b) for i, (f, b, n) in enumerate(times)]
    return Workload.model_validate({"batch_size": 8, "layers": made, **more})


def test_a_module_begins_where_the_name_up_to_its_last_dot_changes():
    """A name without a dot is a module of its own; one that comes again after another begins again."""
    names = ("stem.weight", "stem.bias", "head.weight", "stem.weight", "scale", "shift", "a.b.weight", "a.c.weight")
    made = Workload(batch_size=1, layers=tuple(Layer(name=name, numel=1) for name in names))
    assert made.begins_module == (True, False, True, True, True, True, True, True)
    plain = Workload(batch_size=1, layers=tuple(Layer(name=name, numel=1) for name in ("w", "w", "b")))
    assert plain.begins_module == (True, False, True)


@pytest.mark.parametrize(
    ("batch", "count", "near"),
    [(7, 3, 1), (7, 2, 1), (10, 3, 2), (10, 4, 5), (6, 7, 6), (8192, 4095, 4096), (8191, 9, 1)],
)
def test_the_nearest_number_of_passes_divides_the_batch(batch, count, near):
    """Divisors of 7 are 1 and 7, of 10 1, 2, 5 and 10, of 6 1, 2, 3 and 6; 8,191 is a prime, and 4,096 the most."""
    with pytest.raises(ValueError, match=rf"got {count}: the nearest number that does is {near}\b"):
        workload([(1, 1, 1)], batch_size=batch, micro_batches=count)


def test_another_batch_takes_the_gpu_and_the_data_in_proportion():
    made = workload([(1, 2, 3)], input_time=0.5, micro_batches=2, update_time=7.0).rescaled(24)
    assert (made.batch_size, made.input_time, made.pass_size) == (24, 1.5, 12)
    assert (made.forward_time, made.backward_time, made.update_time) == (3, 6, 7)


def test_layers_have_times_if_any_has_one():
    assert not workload([(0, 0, 1), (0, 0, 1)]).has_times
    for times in ([(0, 0, 1), (0, 1, 1)], [(1, 0, 1), (0, 0, 1)], [(1, 1, 1), (1, 1, 1)]):
        assert workload(times).has_times


def test_short_times_are_proportions_as_much_as_long_ones():
    """Layers of 0.1 and 0.3 s in an iteration of 5 s with an update of 1 s: ten times as long, whatever their sizes."""
    made = workload([(0.1, 0.3, 1000), (0.0, 0.0, 1)], compute_time=5.0).stretched(1.0)
    assert [layer.forward for layer in made.layers] == pytest.approx([1.0, 0.0])
    assert [layer.backward for layer in made.layers] == pytest.approx([3.0, 0.0])


def test_each_pass_takes_its_share_and_one_pass_is_the_whole():
    for one in workload([(1, 2, 3), (4, 6, 1)], micro_batches=4).passes():
        assert ([layer.forward for layer in one.layers], one.backward_time) == ([0.25, 1.0], 2.0)
    whole = workload([(1, 2, 3)])
    assert whole.passes() == (whole, whole)
    two = workload([(1, 2, 3)], micro_batches=2).passes()
    assert [(one.forward_time, one.backward_time) for one in two] == [(0.5, 1.0)] * 2


def test_sizes_are_floats_and_the_whole_is_their_sum():
    made = workload([(0, 0, 3), (0, 0, 4)])
    assert (made.numels.tolist(), made.numels.dtype, made.numel) == ([3, 4], float, 7)


def test_a_copy_knows_what_it_was_made_from_and_an_optimiser_is_what_is_stated():
    plain, origin = workload([(0, 0, 3)]), object()
    made = plain.made_from(origin)
    assert (plain.origin, made.origin) == (None, origin)
    assert made.layers == plain.layers
    assert plain.optimisers == UNKNOWN_OPTIMISER
    assert workload([(0, 0, 3)], optimiser="adam").optimisers == (Optimiser(kind="adam"),)


def test_tensors_of_unlike_length_are_stretched_by_the_middles_of_their_times():
    """0.1 s, then 0.3 s, with middles at 1/8 and 5/8 of the whole: exp(s (1/4 - 1)) and exp(s (5/4 - 1)) times."""
    made = tilt_profile(workload([(0, 0.3, 1), (0, 0.1, 1)]), 0.6)
    first, second = 0.1 * math.exp(-0.45), 0.3 * math.exp(0.15)
    found = [layer.backward for layer in reversed(made.layers)]
    assert found == pytest.approx([0.4 * first / (first + second), 0.4 * second / (first + second)])


@pytest.mark.parametrize(
    ("optimiser", "passes"),
    [
        ({"kind": "sgd"}, "gw>w"),
        ({"kind": "sgd", "weight_decay": True}, "gw>t tw>w"),
        ({"kind": "momentum"}, "m>m gm>m mw>w"),
        ({"kind": "momentum", "weight_decay": True}, "gw>t m>m mt>m mw>w"),
        ({"kind": "momentum", "nesterov": True}, "m>m gm>m gm>t tw>w"),
        ({"kind": "momentum", "weight_decay": True, "nesterov": True}, "gw>t m>m mt>m mt>t tw>w"),
        ({"kind": "adam"}, "m>m gm>m v>v gv>v v>t t>t t>t mtw>w"),
        ({"kind": "adam", "weight_decay": True}, "gw>t m>m mt>m v>v tv>v v>t t>t t>t mtw>w"),
        ({"kind": "adamw", "weight_decay": True, "folds_bias": True}, "w>w m>m gm>m v>v gv>v v>t t>t mtw>w"),
        ({"kind": "adam", "implementation": "foreach"}, "gm>m v>v gv>v v>t t>t t>t mtw>w"),
        ({"kind": "lamb"}, "m>m gm>m v>v gv>v v>t t>t mt>t w> t> > > > > > tw>w"),
        ({"kind": "lamb", "weight_decay": True}, "m>m gm>m v>v gv>v v>t t>t mt>t tw>t w> t> > > > > > tw>w"),
        ({"kind": "lamb", "implementation": "fused"}, "g> gmvw>gmv w> g> gw>w"),
        ({"kind": "adamw", "implementation": "fused"}, "gmvw>mvw"),
    ],
)
def test_a_step_reads_and_writes_what_its_formulas_name(optimiser, passes):
    """Decay into a temporary (gw>t), averages (m>m, gm>m), the root (v>t), its bias and epsilon (t>t), the update."""
    made = Optimiser.model_validate(optimiser).passes
    found = [f"{''.join(sorted(item.reads))}>{''.join(sorted(item.writes))}" for item in made]
    assert found == passes.split(" ")
    assert [item.lists for item in made] == [max(1, len(set(text) - {">"})) for text in found]


def test_workloads_are_told_apart_by_their_values():
    made, again = (workload([(1.0, 2.0, 3), (4.0, 5.0, 6)]) for _ in range(2))
    assert made.fingerprint == again.fingerprint
    others = [made.scaled(2.0, 1.0), made.rescaled(16), workload([(1.0, 2.0, 3), (4.0, 5.0, 7)])]
    assert len({each.fingerprint for each in (made, *others)}) == 4


def test_layers_are_written_as_they_are_read():
    written = {"name": "words", "numel": 60, "forward": "0.5 s", "rows": {"count": 8.0, "width": 20}}
    made = Workload.model_validate({"batch_size": 2, "layers": [written]})
    assert made.layers == (Layer("words", 60, 0.5, rows=made.layers[0].rows),)
    dumped = made.model_dump(mode="json", exclude_defaults=True)["layers"]
    assert dumped == [written] and [*dumped[0]] == [*written]
