"""Points of replays in figures."""

import pandas as pd
import pytest

from simulator.reporting.figures.data.replays import mean_points


def rows(count):
    return pd.DataFrame({"method": "topk", "iteration": range(count), "padding": [float(n % 2) for n in range(count)]})


def test_a_short_run_is_drawn_as_it_is():
    assert mean_points(rows(60)).equals(rows(60))


@pytest.mark.parametrize(("count", "together"), [(61, 2), (170, 3), (500, 9)])
def test_a_long_run_is_drawn_as_means(count, together):
    points = mean_points(rows(count))
    assert len(points) == -(-count // together) <= 60 and points["iteration"].iloc[0] == (together - 1) / 2
    assert points["padding"].iloc[0] == pytest.approx(sum(n % 2 for n in range(together)) / together)
