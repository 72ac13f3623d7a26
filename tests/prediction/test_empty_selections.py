"""A method may send nothing, and gradients may be all zero: figures stay finite. What is too large is refused."""

import json

import numpy as np
import pytest

from examples import example
from simulator.component import discover
from simulator.errors import InputError
from simulator.models.gradients import Block
from simulator.models.layers import Layer
from simulator.prediction.run import run
from simulator.scenario.reading import load
from simulator.sparsifiers.base import Sparsifier
from simulator.traces.format.trace import TraceSpec
from simulator.traces.format.writer import TraceWriter

NUMELS = (300, 1, 700)


def written(folder, scales):
    """Gradients of four workers, one scale for each iteration."""
    layers = [Layer(name=f"{i}.weight", numel=n, forward=1e-3, backward=1e-3) for i, n in enumerate(NUMELS)]
    draws, d = np.random.default_rng(0), sum(NUMELS)
    spec = TraceSpec(format=1, workers=4, iterations=(0,), model="small", batch_size=4)
    with TraceWriter(folder, spec, layers) as out:
        for t, scale in enumerate(scales):
            values = (scale * draws.standard_normal((4, d))).astype(np.float32)
            out.append(Block(values, np.repeat([0, 1, 2], NUMELS), np.arange(d), np.ones(d), NUMELS, t))
    return folder


def replayed(folder, sparsifier):
    scenario = load("replay_topk", (f"workload.trace={folder}", "cluster.nodes=4", f"sparsifier={sparsifier}"))
    document = run(scenario).document
    json.dumps(document, allow_nan=False)
    return document


def test_a_threshold_above_every_gradient_sends_nothing(tmp_path):
    document = replayed(written(tmp_path / "t", [1e-3] * 3), "{kind: threshold, density: 0.1, threshold: 1}")
    density = document["density"]
    assert (density["selected"], density["aggregated"], density["build_up"], density["padding"]) == (0, 0, 1, 1)
    assert all(row["energy_kept"] == 0 for row in document["density_over_iterations"])


@pytest.mark.parametrize("scales", [(0,) * 4, (0, 1, 0, 0)], ids=["all zero", "mostly zero"])
def test_every_method_takes_gradients_of_zero(scales, tmp_path):
    folder = written(tmp_path / "t", scales)
    for kind in discover(Sparsifier):
        spec = {**example(Sparsifier, kind).model_dump(mode="json"), "kind": kind}
        assert replayed(folder, json.dumps(spec))["iteration_time_s"] > 0, kind


@pytest.mark.parametrize("kind", ["topk", "deft", "inceptionn", "dgc"])
def test_gradients_of_a_training_that_diverged_are_refused(kind, tmp_path):
    method = example(Sparsifier, kind).model_dump(mode="json")
    expected = f"sparsifier {kind}, iteration 1: expected values within .* got larger ones: did the training diverge"
    with pytest.raises(InputError, match=expected):
        replayed(written(tmp_path / "t", [1, 1e37]), json.dumps({**method, "kind": kind}))
