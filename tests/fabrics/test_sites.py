"""Sites and lines: what one message gets, when the latest of several arrives, and what differs between two sites."""

import math

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.integrate import quad
from scipy.stats import norm

from simulator.fabrics.sites import Between, Line, Pair, Site, Store, expected_latest, stream_rate, times_rates

MAX = {1: 0.0, 2: 1 / math.sqrt(math.pi), 3: 1.5 / math.sqrt(math.pi)}
"""Expected maxima of normal draws in closed form."""


@pytest.mark.parametrize("draws", [1, 2, 3, 8, 64])
def test_the_latest_of_several_normal_delays(draws):
    """The mean of the maximum, by the density n phi(x) Phi(x)^(n-1)."""
    expected = quad(lambda x: x * draws * norm.pdf(x) * norm.cdf(x) ** (draws - 1), -12, 12)[0]
    assert expected == pytest.approx(MAX.get(draws, expected), abs=1e-9)
    assert expected_latest(draws) == pytest.approx(expected, abs=1e-7)
    assert Line(latency=0.02, jitter=0.002).start_up(draws) == pytest.approx(0.02 + 0.002 * expected, abs=1e-9)


def test_the_latest_of_many_is_that_of_a_sample():
    drawn = np.random.default_rng(1).normal(size=(20_000, 50)).max(axis=1)
    assert expected_latest(50) == pytest.approx(drawn.mean(), abs=5 * drawn.std() / math.sqrt(len(drawn)))


@pytest.mark.parametrize("law", ["mathis", "cubic", "bbr"])
def test_a_stream_gets_what_its_law_says_and_a_message_all_streams(law):
    line = Line(latency=0.02, loss=1e-4, window=4e6, law=law, streams=8)
    assert line.of_stream == stream_rate(law, 0.04, 1e-4, 4e6)
    assert line.of_stream <= 4e6 / 0.04
    assert line.model_copy(update={"stream_bandwidth": 1e6}).of_stream == 1e6


def test_nothing_limits_a_line_without_loss_and_window():
    assert Line(latency=0.02).of_stream == math.inf
    assert Line(latency=0.0, loss=0.0, window=1e6).of_stream == math.inf


def test_a_pair_changes_what_it_states_and_nothing_else():
    default = Line(latency=0.01, loss=1e-3, streams=4, stream_bandwidth=5e5)
    assert Pair(sites=("a", "b")).line(default) == default
    assert Pair(sites=("a", "b"), streams=2).line(default) == default.model_copy(update={"streams": 2})
    assert Pair(sites=("a", "b"), rate=9e6).line(default) == default
    farther = Pair(sites=("a", "b"), latency=0.1, loss=0).line(default)
    assert (farther.latency, farther.loss, farther.stream_bandwidth) == (0.1, 0.0, None)


def test_rates_and_delays_are_scaled_apart():
    line = Between(rate=1e6, back=2e6, latency=0.01, jitter=0.001, window=1e5, streams=2)
    scaled = line.times(3.0, 3.0, 0.5)
    assert (scaled.rate, scaled.back, scaled.latency, scaled.jitter) == (3e6, 6e6, 0.005, 0.0005)
    assert scaled.of_stream == pytest.approx(3 * line.of_stream)
    assert line.times(1.0, 1.0, 0.5).of_stream == pytest.approx(2 * line.of_stream)  # half of the round trip
    faster = line.times(1.0, 3.0, 1.0)
    assert (faster.rate, faster.of_stream) == (line.rate, pytest.approx(3 * line.of_stream))
    assert Store(bandwidth=4e6).times(0.5, 1.0, 1.0).bandwidth == 2e6
    assert times_rates(Site(name="a", nodes=1, up=1e6), 2.0) == {"up": 2e6}


@pytest.mark.parametrize(
    ("make", "values", "said"),
    [
        (Site, {"name": "two words", "nodes": 1}, "expected a name of at most 64 letters, digits and `_.-`"),
        (Pair, {"sites": ("a", "a")}, "expected different sites, got a, a"),
        (Pair, {"sites": ("a", "b"), "through": "b"}, "expected different sites, got a, b, b"),
        (Pair, {"sites": ("a", "b"), "through": "c", "loss": 0.1}, "expected `through` alone, got `loss` with"),
        (Line, {"loss": 0.6}, "less than or equal to 0.5"),
        (Pair, {"sites": ("a", "b"), "loss": 0.6}, "less than or equal to 0.5"),
        (Line, {"latency": -1}, "at least 0"),
    ],
)
def test_what_cannot_be_is_said(make, values, said):
    with pytest.raises(ValidationError) as caught:
        make(**values)
    assert said in str(caught.value)
