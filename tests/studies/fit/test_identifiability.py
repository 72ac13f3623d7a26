"""Which constants rows determine, by hand: rows that are sums of constants, and what each of these adds."""

import math

import numpy as np
import pytest

from simulator.scenario.reading import load
from simulator.studies.fit import identifiability
from simulator.studies.fit.identifiability import deviation_of, largest_value, refusals
from simulator.studies.fit.iteration_model import Constant, IterationModel
from simulator.studies.validate.measured_rows import TIMES, MeasuredRow

NAMES = ("kernels.topk", "runtime.negotiation")


class Sums(IterationModel):
    """Rows that take a fixed time and so many times each constant, but no less than a second; measured at `values`."""

    def __init__(self, fixed, times, values, off=0.0):
        rows = [MeasuredRow(load("ring_check"), "iteration_time", 1.0, True)] * len(fixed)
        super().__init__(rows, [Constant(name, "s", 1.0) for name in NAMES[: len(values)]])
        self.fixed, self.each = np.array(fixed, dtype=float), np.array(times, dtype=float)
        self.measured = self.times(np.array(values)) * np.exp(off)

    def times(self, values):
        return np.maximum(self.fixed + self.each @ np.asarray(values), 1.0)

    def without(self, place):
        bare = Sums(self.fixed, np.delete(self.each, place, axis=1), np.zeros(len(self.constants) - 1))
        bare.measured = self.measured
        return bare


@pytest.fixture(autouse=True)
def deviation(monkeypatch):
    monkeypatch.setattr(identifiability, "row_deviation", lambda: 0.05)


def test_the_models_own_error_counts_as_one_more_row_and_rows_without_effect_do_not():
    slopes = np.array([[1.0], [2.0], [0.5], [0.0]])
    assert deviation_of(np.array([0.03, -0.04, 0.1, 9.0]), slopes) == (
        pytest.approx(math.sqrt((0.05**2 + 0.03**2 + 0.04**2 + 0.1**2) / 3)),
        2,
    )
    assert deviation_of(np.array([0.03]), slopes[:1]) == (0.05, 0)  # as many rows as constants agree by chance


def test_the_limit_of_a_constant_is_where_rows_are_off_by_two_deviations():
    """A second and x: 1 + x = e^0.1, above which the first of 170 values is at most 10 % larger."""
    x = math.exp(0.1) - 1
    assert x < largest_value(Sums([1], [[1]], [0.0]), np.array([0.0]), 0, 0.05) < 1.1 * x
    assert largest_value(Sums([1], [[0]], [0.0]), np.array([0.0]), 0, 0.05) is None


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (([1, 2, 4], [[5, 0], [0, 5], [5, 5]], [1.0, 1.0], 0.0), {}),
        (([1, 2], [[5, 0], [5, 0]], [1.0, 1.0], 0.0), {1: "no fitted time changes with it"}),
        (([0.5, 2], [[0.01, 0], [0, 5]], [1.0, 1.0], 0.0), {0: "stay the same; they say that it is at most 63.8 s"}),
        (
            ([1, 1], [[5, 5], [5, 5]], [1.0, 1.0], 0.0),
            {0: f"with {' and '.join(NAMES)} in", 1: "so that they show only"},
        ),
        # 0.02 of 1.02: 10 % more of it is 0.2 %.
        (([1, 1, 1], [[0.02]] * 3, [1.0], 0.0), {0: "10 % more of it changes no fitted time by more than 0.19 %"}),
        # Measured are 4 % less than with it, and 5.5 % more than without.
        (([1, 1, 1], [[0.1]] * 3, [1.0], -0.04), {0: "without it the fitted times are met as well"}),
    ],
)
def test_a_constant_is_refused_for_what_the_rows_do_not_show(case, said, monkeypatch):
    monkeypatch.setattr(identifiability, "_further_rows", lambda rows: ())
    made = list(refusals(Sums(*case), np.array(case[2])))
    assert [NAMES.index(item.name) for item in made] == list(said)
    for item, part in zip(made, said.values(), strict=True):
        assert part in item.reason, item.reason
        assert item.weak == part.startswith(("10 %", "without"))
        assert bool(item.measure) == (item.name == "kernels.topk" and not part.startswith("no"))


def test_measurements_near_the_rows_are_other_phases_densities_numbers_of_nodes_and_sizes_of_tensors():
    plain = load("quickstart", ("sparsifier.density=0.02",))
    made = list(identifiability._further_rows([MeasuredRow(plain, "iteration_time", 1.0, True)]))
    assert [row.quantity for _, row in made] == [*TIMES[1:], *["iteration_time"] * 4]
    near = [text.removeprefix(f"“{plain.name}” ") for text, _ in made[len(TIMES) - 1 :]]
    whole = "with a model of as many elements in one tensor"
    assert near == ["at a density of 20 %", "at a density of 0.2 %", "on 16 nodes", whole]
    densities = [row.scenario.sparsifier.density for _, row in made[-4:]]
    assert densities == pytest.approx([0.2, 0.002, 0.02, 0.02])
    assert made[-2][1].scenario.cluster.nodes == 16 and len(made[-1][1].scenario.workload.layers) == 1
