"""Units of one and two elements, searches that are used up, closed forms to the last digit, and refusals."""

import math

import numpy as np
import pytest
from common import block, once
from number_fields import all_specs, unbounded
from replayed import select

from examples import example
from simulator import sparsifiers
from simulator.errors import InputError
from simulator.models.exchange import Bucket, PushPull
from simulator.models.gradients import Block
from simulator.models.overlap import INDEPENDENT
from simulator.sparsifiers.base import Sparsifier
from simulator.sparsifiers.dgc import Dgc
from simulator.sparsifiers.gaussiank import GaussianK
from simulator.sparsifiers.inceptionn import Inceptionn
from simulator.sparsifiers.quantised_all_reduce import FORMATS
from simulator.sparsifiers.redsync import RedSync
from simulator.sparsifiers.sage import Sage
from simulator.sparsifiers.sparseloco import _decode_steps
from simulator.sparsifiers.terngrad import TernGrad
from simulator.sparsifiers.threshold import Threshold

TABLE = 256 * 4
BITS = {"uint8": (8, TABLE), "int8": (8, 4), "int4": (4, 4), "fp8": (8, 4), "e3m0": (1 + 3, 4), "sign": (1, 4)}
"""Of a code, and bytes that go with a row: 256 means in fp32, or one scale."""


def test_formats_have_the_bits_of_their_names_and_no_more_numbers():
    assert {name: (low.bits, low.header) for name, low in FORMATS.items()} == BITS
    values = np.linspace(-1, 1, 100_001)
    for name, low in FORMATS.items():
        assert 2 ** (low.bits - 1) - 2 <= len(np.unique(low.rounded(values, len(values)))) <= 2**low.bits, name


def test_two_elements_have_a_deviation_and_one_has_none():
    """2.5 and 1.5: their deviation is 0.71 and the threshold 2.9; half of it is below both, 1.5 times as much is 2.2.

    A single element is not above itself, but above half of itself.
    """
    _, selection, _, choice = once(GaussianK(density=0.2), np.array([[2.5, 1.5]]))
    assert (choice.chosen.tolist(), selection.passes, choice.detail["converged"]) == ([[True, False]], 3, 1)
    _, selection, _, choice = once(GaussianK(density=0.2), np.array([[0.5]]))
    assert (choice.chosen.tolist(), selection.passes, choice.detail["converged"]) == ([[True]], 2, 1)


@pytest.mark.parametrize(("large", "passes"), [(3, 3), (4, 1), (8, 1), (9, 3)])
def test_gaussiank_stops_from_two_thirds_to_four_thirds_of_k(large, passes):
    """k = 6 of 600: 4 to 8 elements are inside, of which 3 and 9 are just outside."""
    values = np.resize([1.0, -1.0], (1, 600))
    values[0, :large] = 50.0
    _, selection, _, choice = once(GaussianK(density=0.01), values)
    assert choice.detail["converged"] == (large in (4, 8))
    assert selection.passes == passes


def test_redsync_expects_the_geometric_mean_of_k_and_2k():
    """k = 50 and 2; of a unit of one element, all of it."""
    member, expected = RedSync(density=0.01), [50 * math.sqrt(2), 2 * math.sqrt(2), 1.0]
    assert member.counts(Bucket(0, (5000, 200, 1), 0)).tolist() == pytest.approx(expected, rel=1e-12)
    for tolerance, passes in ((0.5, 1), (0.49, 2), (0.25, 2), (0.2, 3), (1 / 1024, 10)):
        assert RedSync(density=0.01, tolerance=tolerance).passes() == passes


@pytest.mark.parametrize("retries", [0, 1, 2, 3, 4])
def test_dgc_lowers_its_threshold_no_more_often_than_it_may(retries):
    """The sample is 8; halves of it find nothing before the third, which 900 elements of 1 and 1.5 reach.

    Unless that was the last retry, there are too many and the largest are kept; otherwise the first by position.
    """
    n, k = 4000, 200
    member = Dgc(density=k / n, momentum=0, lower=0.5, retries=retries, seed=5)
    stride = member.stride(n, member.sampled(n))
    sampled = np.arange(int(np.random.default_rng([5, 0, 0, 0]).integers(stride)), n, stride)
    others, values = np.setdiff1d(np.arange(n), sampled)[:900], np.zeros((1, n))
    values[0, sampled], values[0, others] = 8.0, np.resize([1.0, 1.5], 900)
    _, selection, _, choice = once(member, values)
    assert selection.passes == 1 + min(retries, 3)
    found = np.flatnonzero(values[0]) if retries >= 3 else sampled
    if retries == 4:
        found = np.sort(np.concatenate([sampled, others[1::2][: k - len(sampled)]]))
    assert np.flatnonzero(choice.chosen[0]).tolist() == found[:k].tolist()


def test_classes_of_inceptionn_by_the_laplace_law():
    """At a deviation of 1/2, of which all classes hold something: exp(-2 sqrt(2) t) is above t."""
    bucket, member = Bucket(0, (4000, 7), 0), Inceptionn(deviation=0.5)
    above = [4007 * math.exp(-math.sqrt(2) * 2 * border) for border in (2**-10, 2**-5, 1)]
    detail = member.expect(bucket, 3, INDEPENDENT).detail
    expected = {"bits_8": above[0] - above[1], "bits_16": above[1] - above[2], "bits_32": above[2]}
    assert detail == pytest.approx(expected, rel=1e-12)
    push, copy = member.exchange(member.expect(bucket, 3, INDEPENDENT), bucket, 3, "push_pull")
    values = expected["bits_8"] + 2 * expected["bits_16"] + 4 * expected["bits_32"]
    assert isinstance(push, PushPull)
    assert (push.push_nbytes, push.pull_nbytes) == (pytest.approx(values + 1001 + 2), 4 * 4007)
    assert (copy.elements, copy.calls) == ((4000.0, 7.0), 2)


def encoding(kind, **changes):
    member, bucket = example(Sparsifier, kind, **changes), Bucket(0, (100, 20), 0)
    return member.compute(member.expect(bucket, 4, INDEPENDENT), bucket, 4)


@pytest.mark.parametrize("kind", ["dense", "topk", "cltk", "onebit"])
def test_magnitudes_from_1e18_on_are_refused(kind):
    """Their squares and sums over workers would not fit into float32; three quarters of it may be."""
    member = example(Sparsifier, kind)
    for size, fits in ((7.5e17, True), (1.1e18, False), (-1.1e18, False)):
        item = block(np.full((2, 8), size), (8,))
        if fits:
            select(member, member.start(item), item)
        else:
            with pytest.raises(InputError, match=r"values within 1e\+18"):
                member.select(member.start(item), item)


def test_a_threshold_is_reached_by_what_equals_it():
    values = np.array([[0.5, -0.5, np.nextafter(np.float32(0.5), np.float32(0)), 0.0]])
    for kind in (Threshold, Sage):
        assert once(kind(density=0.1, threshold=0.5), values)[3].chosen.tolist() == [[True, True, False, False]]


def test_clipping_at_a_deviation_of_0_leaves_zeros():
    assert not TernGrad().quantised(np.full((1, 4), 3.0, np.float32), block(np.full((1, 4), 3.0), (4,))).any()


@pytest.mark.parametrize("weight", [1.0, 2.0])
def test_of_more_than_k_above_the_threshold_dgc_takes_the_first_by_position(weight):
    """All 4 are alike and none is far above k; of a sample, each stands for two elements."""
    whole = Block(np.ones((1, 4)), np.zeros(4, int), np.arange(4), np.full(4, weight), (int(4 * weight),))
    member = Dgc(density=0.5, upper=3.0)
    assert member.select(member.start(whole), whole).choice.chosen[0].tolist() == [0, 1]


def test_two_values_of_sparseloco_share_a_step():
    """Four steps of 6/4 deviations, which have n - 1: 1 and 3 are 0.47 steps from their mean; 1, 1 and 4 are not."""
    assert _decode_steps(np.array([1.0, 3.0]), 4).tolist() == [2.0, 2.0]
    assert _decode_steps(np.array([1.0, 1.0, 4.0]), 4).tolist() == [1.0, 1.0, 4.0]
    assert _decode_steps(np.array([5.0]), 4).tolist() == [5.0]


def test_what_others_send_in_sparseloco_is_unpacked_and_decoded_as_its_own():
    """Four workers: every payload takes the calls that the residual takes for what this worker has sent."""
    member, bucket = example(Sparsifier, "sparseloco"), Bucket(0, (100, 20), 0)
    selection = member.expect(bucket, 4, INDEPENDENT)
    own, others = member.compute(selection, bucket, 4), member.exchange(selection, bucket, 4, "collective")[1:]
    for kernel in ("unpack_indices", "dequantise"):
        (mine,), (each,) = ([item for item in made if item.kernel == kernel] for made in (own, others))
        assert (each.calls, each.times, each.elements) == (4 * mine.calls, 4, mine.elements)


@pytest.mark.parametrize("bad", [1.1e18, -np.inf, np.nan])
def test_every_coordinate_is_looked_at_whatever_the_parts(bad, monkeypatch):
    monkeypatch.setattr("simulator.sparsifiers.base._CHUNK", 3)
    member = example(Sparsifier, "topk")
    for place in np.ndindex(2, 8):
        values = np.ones((2, 8))
        values[place] = bad
        with pytest.raises(InputError, match=r"values within 1e\+18"):
            member.select(member.start(block(values, (8,))), block(values, (8,)))


def test_no_number_of_a_method_is_without_bounds():
    assert not unbounded(all_specs(sparsifiers))
