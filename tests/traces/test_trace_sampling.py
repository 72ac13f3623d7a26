"""Samples of coordinates: their chances, weights, and what they resolve."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replayed import replay_trace

from simulator.component import build
from simulator.engine.replay import check_resolution
from simulator.errors import InputError
from simulator.models.exchange import Bucket
from simulator.models.gradients import Block
from simulator.models.layers import Layer
from simulator.sparsifiers.base import Sparsifier
from simulator.sparsifiers.topk import TopK
from simulator.traces.format.trace import Trace, TraceSpec
from simulator.traces.format.writer import TraceWriter
from simulator.traces.sampling import (
    PER_TENSOR,
    Sampling,
    chances,
    draw_systematically,
    most_pieces,
    smallest_density,
    weights_of,
)

NUMELS = (30_000, 100, 50, 20_000, 9850)
D = sum(NUMELS)


def scales(seed=0):
    return np.exp(1.5 * np.random.default_rng(seed).standard_normal(D))


@given(seed=st.integers(0, 999), pieces=st.sampled_from([1, 16, 128]))
@settings(max_examples=25, deadline=None)
def test_pieces_tensors_and_weights_of_every_sample_hold(seed, pieces):
    kept, weight = Sampling(coordinates=600, pieces=pieces, seed=seed).draw(scales(seed), NUMELS)
    assert 500 < len(kept) < 700 and (np.diff(kept) > 0).all()
    piece = np.searchsorted(np.cumsum(NUMELS), kept, side="right")
    np.testing.assert_allclose(np.bincount(piece, weights=weight, minlength=len(NUMELS)), NUMELS, rtol=1e-9)
    assert weight.min() >= 1
    assert (np.bincount(piece, minlength=len(NUMELS)) >= [min(n, PER_TENSOR - 1) for n in NUMELS]).all()
    length = D // pieces
    for start in range(0, D - length + 1, length):
        assert ((kept >= start) & (kept < start + length)).any()


def test_counts_of_large_elements_are_right_on_average_and_sharper_than_those_of_an_even_sample():
    """The 0.1 % largest of gradients whose scales the pilot knew, over 300 samples."""
    size = scales()
    values = np.abs(size * np.random.default_rng(1).standard_normal(D))
    wanted = values >= np.sort(values)[-60]
    counts = {}
    for name, known in (("size", size), ("even", np.ones(D))):
        chance = chances(known, NUMELS, 600, 128)
        draws = [draw_systematically(chance, np.random.default_rng(seed)) for seed in range(300)]
        counts[name] = [weights_of(chance, kept, NUMELS)[wanted[kept]].sum() for kept in draws]
        assert np.mean(counts[name]) == pytest.approx(60, abs=4 * np.std(counts[name]) / 300**0.5)
    assert np.std(counts["size"]) < 0.4 * np.std(counts["even"])


def test_what_is_certain_stands_for_itself():
    size = np.ones(1000)
    size[::100] = 1e6
    kept, weight = Sampling(coordinates=60, pieces=10).draw(size, (1000,))
    assert set(range(0, 1000, 100)) <= set(kept.tolist())
    assert (weight[np.isin(kept, range(0, 1000, 100))] == 1).all()


def test_numbers_that_do_not_fit_are_input_errors():
    with pytest.raises(InputError, match="at least 1536 coordinates, got 1500"):
        Sampling(coordinates=1500)
    with pytest.raises(InputError, match="at least one piece"):
        Sampling(coordinates=2000, pilot=0)


def test_the_smallest_density_falls_with_the_weights_of_the_largest():
    units = [(slice(0, 1000), 100_000)]
    size = np.linspace(1, 0, 1000)
    even = smallest_density(size, np.full(1000, 100.0), units)
    # sqrt(k / w) w / k = 0.6 at k = 2.8 w, up to the 1 in w (w - 1)
    assert even == pytest.approx(0.0028, rel=0.15)
    assert smallest_density(size, np.where(np.arange(1000) < 500, 1.0, 199.0), units) < even
    assert smallest_density(size, np.ones(1000), [(slice(0, 1000), 1000)]) == 0
    assert most_pieces(np.arange(0, 1024, 8), 1024) == 128 and most_pieces(np.arange(0, 512, 8), 1024) == 1


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    """Twelve iterations of four workers: whole, in a sample that knew their scales, and in an even one."""
    size, made = scales() ** 0.5, []
    kept, weight = Sampling(coordinates=1200, pieces=128).draw(size, NUMELS)
    piece = np.repeat(np.arange(len(NUMELS)), NUMELS)
    even = np.arange(0, D, 50)
    samples = {
        "whole": (np.arange(D), np.ones(D)),
        "by_size": (kept, weight),
        "even": (even, weights_of(np.full(D, 0.02), even, NUMELS)),
    }
    for name, (places, stands) in samples.items():
        folder = tmp_path_factory.mktemp(name)
        spec = TraceSpec(format=1, workers=4, iterations=(0,))
        layers = [Layer(name=str(i), numel=n) for i, n in enumerate(NUMELS)]
        rng = np.random.default_rng(3)
        with TraceWriter(folder, spec, layers) as out:
            for iteration in range(12):
                values = (size * (0.2 + rng.standard_normal((4, D)))).astype(np.float32)
                out.append(Block(values[:, places], piece[places], places, stands, NUMELS, iteration))
        made.append(Trace.open(folder))
    return made


@pytest.mark.parametrize(
    "method",
    [
        {"kind": "topk", "density": 0.004, "granularity": "model"},
        {"kind": "topk", "density": 0.01},
        {"kind": "cltk", "density": 0.01},
        {"kind": "gtopk", "density": 0.01},
        {"kind": "randomk", "density": 0.2, "granularity": "model"},
        {"kind": "gaussiank", "density": 0.01, "granularity": "model"},
        {"kind": "sidco", "density": 0.01, "granularity": "model"},
        {"kind": "dgc", "density": 0.01, "granularity": "model"},
        {"kind": "oktopk", "density": 0.01, "granularity": "model"},
        {"kind": "zen", "density": 0.01},
        {"kind": "deft", "density": 0.02, "granularity": "model"},
        {"kind": "micro", "density": 0.01, "granularity": "model"},
        {"kind": "exdyna", "density": 0.01, "granularity": "model", "blocks": 64},
    ],
    ids=lambda method: method["kind"] + "-" + str(method["density"]),
)
def test_every_method_selects_on_a_sample_as_on_all_coordinates(sampled, method):
    """Mean over iterations and workers, and the union, within 12 %; a coordinate stands for 50 elements on average."""
    member, seen = build(Sparsifier, method), []
    for trace in sampled[:2]:
        bucket = Bucket(0, NUMELS, 0, tuple(range(len(NUMELS))))
        steps = [steps[0].selection for steps in replay_trace(member, [bucket], trace, 4)]
        seen.append([np.mean([step.selected.mean() for step in steps]), np.mean([step.aggregated for step in steps])])
    np.testing.assert_allclose(seen[1], seen[0], rtol=0.12)


def test_what_a_sample_does_not_resolve_is_refused_with_what_it_does(sampled):
    whole, by_size, even = sampled
    bucket = Bucket(0, NUMELS, 0, tuple(range(len(NUMELS))))

    def refusal(method):
        with pytest.raises(InputError) as caught:
            next(replay_trace(build(Sparsifier, method), [bucket], even, 4))
        return str(caught.value)

    floors = even.floor(), even.floor("layer")
    assert 0.0012 < floors[0] <= floors[1] < 0.01
    said = f"expected a density of at least {floors[1]:g} by layer, got 0.001"
    assert said in refusal({"kind": "topk", "density": 0.001})
    assert f"at least {floors[0]:g} by model" in refusal({"kind": "topk", "density": 0.001, "granularity": "model"})
    assert "at least" in refusal({"kind": "topk", "density": 0.1, "warmup": [0.001]})
    whole_only = [{"kind": "powersgd"}, {"kind": "qsgd"}]
    whole_only += [{"kind": kind, "density": 0.1} for kind in ("redsync", "omnireduce")]
    for method in whole_only:
        said = f"{method['kind']}: expected a trace of all coordinates, got a sample of them"
        assert said in refusal(method)
    with pytest.raises(InputError, match=r"expected at most 1024 parts of the model, got 1600"):
        check_resolution(build(Sparsifier, {"kind": "exdyna", "density": 0.1}), even, 400)
    assert by_size.floor() < 0.1 * floors[0] and by_size.floor("model") <= 0.001 and 128 <= by_size.pieces() < 10**5
    assert even.floor() > 0.001
    assert whole.floor() == 0 and whole.floor("layer") <= 1e-5 and whole.pieces() >= D


class Careless(TopK):
    """A method that a plug-in would bring: its `choose` is not the package's."""

    def choose(self, u, block, state):
        return super().choose(u, block, state)


class Careful(Careless):
    """The same, of which somebody has checked that it counts the elements that a coordinate stands for."""

    reads_samples = True


def test_a_sample_is_refused_to_methods_of_others_that_do_not_say_that_they_read_it(sampled):
    whole, _, even = sampled
    bucket = Bucket(0, NUMELS, 0, tuple(range(len(NUMELS))))
    with pytest.raises(InputError, match=r"a sample of them: Careless does not say .*`reads_samples = True`"):
        next(replay_trace(Careless(density=0.1), [bucket], even, 2))
    for member, trace in ((Careful, even), (Careless, whole)):
        (step,) = next(replay_trace(member(density=0.1), [bucket], trace, 2))
        assert step.selection.selected.mean() == pytest.approx(0.1 * D, rel=0.01)
