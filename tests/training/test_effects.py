"""What the papers say of methods, in trainings of a small perceptron: measured, not assumed."""

import math
from importlib.util import find_spec

import numpy as np
import pytest

from simulator.trainings.options import read_options
from simulator.trainings.runs import CURVE_FILE

pytestmark = [
    pytest.mark.torch,
    pytest.mark.long,
    pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch"),
]
BASE = {"task": "mlp-digits", "workers": 8, "iterations": 400, "learning_rate": 0.3, "momentum": 0.0}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Trainings by their keys, each done once."""
    from simulator.training.loop import train

    done = {}

    def run(method, **keys):
        options = read_options({**BASE, "evaluate_every": 10, "method": method, **keys})
        name = options.model_dump_json()
        if name not in done:
            done[name] = train(options, tmp_path_factory.mktemp("training"))
        return done[name]

    return run


def accuracy(run, last=10):
    """Mean of the last measurements."""
    return float(np.mean([point.metric for point in run.curve if not math.isnan(point.metric)][-last:]))


def density(run, first=0):
    return float(np.mean([point.aggregated for point in run.curve[first:]]))


def iterations_to(run, wanted):
    return next((p.iteration + 1 for p in run.curve if p.metric >= wanted), math.inf)


def test_error_feedback_rescues_top_k(trained):
    """GRACE (Xu et al., ICDCS 2021): Top-k loses much of its accuracy without error feedback."""
    kept, lost = (accuracy(trained("topk 0.01", error_feedback=each)) for each in (True, False))
    print(f"with {kept:.3f}, without {lost:.3f}, dense {accuracy(trained('dense')):.3f}")
    assert kept > accuracy(trained("dense")) - 0.05 and lost < kept - 0.1


def test_a_lower_density_costs_iterations(trained):
    counts = [iterations_to(trained(f"topk {each}"), 0.8) for each in ("0.1", "0.01", "0.001")]
    print(counts)
    assert max(counts[:2]) < counts[2]


def test_skip_reduce_costs_little(trained):
    """Kasan et al. (MICRO 2025): half of the reduce-scatter steps may be left out."""
    assert accuracy(trained("skip_reduce skipped=0.25 smallest=0")) > accuracy(trained("dense")) - 0.05
    assert accuracy(trained("skip_reduce skipped=0.5 smallest=0")) > accuracy(trained("dense")) - 0.1


def test_gaussiank_learns_as_top_k_does_and_sends_more(trained):
    """Shi et al. (2019): the curves coincide. Heavy tails make GaussianK select more than its target."""
    one, two = trained("gaussiank 0.01"), trained("topk 0.01")
    difference = np.mean([a.loss - b.loss for a, b in zip(one.curve, two.curve, strict=True)])
    print(f"{accuracy(one):.3f} and {accuracy(two):.3f}, mean difference of the loss {difference:.3f}")
    assert abs(accuracy(one) - accuracy(two)) < 0.05 and np.mean([point.selected for point in one.curve]) > 0.015


def test_the_density_of_exdyna_settles_at_its_target(trained):
    """Its threshold changes by half a per cent per iteration, so that this takes longer than the loss does."""
    run = trained("exdyna 0.01", iterations=2500)
    print(f"first 400: {density(trained('exdyna 0.01')):.4f}, last 500: {density(run, 2000):.4f}")
    assert density(run, 2000) == pytest.approx(0.01, rel=0.15)


def test_all_of_it_is_repeated_to_the_bit(trained, tmp_path):
    from simulator.training.loop import train

    first = trained("topk 0.01")
    again = train(read_options({**BASE, "evaluate_every": 10, "method": "topk 0.01"}), tmp_path)
    assert again.spec.weights == first.spec.weights
    assert (again.folder / CURVE_FILE).read_bytes() == (first.folder / CURVE_FILE).read_bytes()
