"""What is told of a trace, the laws that are fitted to it, and traces that are made like it."""

import json
import math
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from click.testing import CliRunner
from places import ROOT
from replayed import mean, rows

from simulator.cli import main
from simulator.studies.traces.synthesis import _sample, fit_generator, synthesize
from simulator.studies.traces.trace_study import _distribution, _histogram, fit_overlap, info
from simulator.traces.format.trace import Trace

SHIPPED = ROOT / "configs" / "traces"
LONG = [pytest.param(name, marks=pytest.mark.long) for name in ("resnet-digits", "transformer-generated")]


@pytest.fixture(scope="module", params=["short", *LONG])
def trace(request, short_trace):
    return short_trace if request.param == "short" else Trace.open(SHIPPED / request.param)


@pytest.mark.parametrize(
    ("granularity", "density", "bar"),
    [("layer", 0.001, 0.03), ("layer", 0.01, 0.03), ("layer", 0.1, 0.06), ("model", 0.01, 0.10), ("model", 0.1, 0.10)],
)
def test_a_law_fitted_on_four_workers_predicts_the_union_of_sixteen(trace, granularity, density, bar):
    document = fit_overlap(trace.folder, density, granularity)
    tested = [row for row in document["rows"] if not row["used_in_fit"]]
    assert document["source"] == "union.csv"
    assert [row["workers"] for row in tested] == [8, 16]
    assert all(abs(row["mixture_error"]) <= bar for row in tested)


def test_a_tensor_that_stands_still_has_no_shape(small_trace):
    still, moving, _ = info(small_trace, 0.1)["layers"]
    assert (still["std"], still["histogram"]) == (0.0, [])
    assert still["excess_kurtosis"] is still["gaussian_distance"] is None
    assert moving["std"] == pytest.approx(1.2, abs=0.1)  # with what was held back
    assert len(moving["histogram"]) == 41


def test_unions_that_were_not_measured_are_those_of_the_replay(small_trace):
    document = fit_overlap(small_trace, 0.05, "layer")
    found = {row["workers"]: row for row in document["rows"]}
    method = {"kind": "topk", "density": 0.05, "granularity": "layer"}
    trace = Trace.open(small_trace)
    assert document["source"] == "replay"
    assert found[1]["union"] < found[2]["union"] < found[4]["union"]
    for count in (1, 4):
        assert found[count]["union"] == pytest.approx(mean(rows(trace, method, count), "aggregated"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "traces/resnet-digts"], "or in the package: did you mean 'traces/resnet-digits'?"),
        (["info", "nothing-of-that-kind"], "no trace named 'nothing-of-that-kind' in the current folder"),
        (["synthesize", "s.yaml", "--like", "traces/resnet-digits"], "expected either a spec or --like, got both"),
        (["synthesize", "--sample", "nan"], "'nan' is not a finite number"),
        (["synthesize"], "expected either a spec or --like, got neither"),
        (["synthesize", "nowhere.yaml"], "nowhere.yaml: expected a readable file, got No such file or directory"),
    ],
)
def test_traces_that_are_not_there_are_said_so(arguments, message, tmp_path):
    out = ["--out", str(tmp_path / "out")] if arguments[0] == "synthesize" else []
    result = CliRunner().invoke(main, ["trace", *arguments, *out], catch_exceptions=False)
    assert result.exit_code == 2
    assert message in result.stderr


def test_trace_commands(small_trace, tmp_path):
    def invoke(*arguments):
        result = CliRunner().invoke(main, list(arguments), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    assert "no problems" in invoke("trace", "check", "traces/resnet-digits")
    assert "kurtosis" in invoke("trace", "info", "traces/resnet-digits")
    made = str(tmp_path / "made")
    invoke("trace", "synthesize", "--like", str(small_trace), "--sample", "0.5", "--out", made)
    assert "4 workers, 2 iterations" in invoke("trace", "check", made)
    invoke("trace", "synthesize", "--like", made, "--sample", "1", "--mantissa-bits", "2", "--out", f"{made}-whole")
    assert "all 320: the trace is whole" in " ".join(invoke("trace", "info", f"{made}-whole").split())
    stored = Path(f"{made}-whole", "gradients.parquet").read_bytes()
    written = Path(f"{made}-whole", "gradients.parquet").stat().st_mtime_ns
    invoke("trace", "synthesize", "--like", made, "--sample", "1", "--mantissa-bits", "2", "--out", f"{made}-whole")
    assert Path(f"{made}-whole", "gradients.parquet").stat().st_mtime_ns == written  # it was there already
    invoke("trace", "synthesize", "--like", made, "--sample", "1", "--out", f"{made}-whole")
    assert Path(f"{made}-whole", "gradients.parquet").read_bytes() != stored
    recorded = {file.name: file.read_bytes() for file in small_trace.iterdir()}
    overwriting = ["trace", "synthesize", "--like", made, "--out", str(small_trace)]
    assert "recorded gradients are not overwritten" in CliRunner().invoke(main, overwriting).stderr
    assert {file.name: file.read_bytes() for file in small_trace.iterdir()} == recorded
    out = tmp_path / "build-up"
    invoke("trace", "build-up", made, "--method", "{kind: cltk, density: 0.1}", "--out", str(out))
    assert {row["workers"] for row in json.loads((out / "build_up.json").read_text())} == {1, 2, 4}
    assert (out / "build_up.png").stat().st_size > 5000
    shapes = {"a": (4, 5), "b": (6,)}
    arrays = {name: np.random.default_rng(0).standard_normal((3, 2, *shape)) for name, shape in shapes.items()}
    np.savez(tmp_path / "g.npz", **arrays)
    invoke("trace", "import", "npz", str(tmp_path / "g.npz"), "--out", str(tmp_path / "imported"))
    (first, *_) = Trace.open(tmp_path / "imported").blocks()
    assert np.allclose(first.values[:, :20], arrays["a"][0].reshape(2, -1), atol=1e-6)


def test_a_generator_fitted_to_a_generated_trace_has_its_parameters(tmp_path):
    (tmp_path / "spec.yaml").write_text(
        "layers: [{numel: 1000, scale: 0.1}, {numel: 1000, tail: laplace}]\n"
        "workers: 2\niterations: 501\ncorrelation: 0.3\ndrift: 0.5\n"
    )
    synthesize(str(tmp_path / "spec.yaml"), None, 1.0, tmp_path / "made")
    found = fit_generator(Trace.open(tmp_path / "made"))
    first, second = found.layers
    assert (first.tail, second.tail) == ("gaussian", "laplace")
    assert first.scale / second.scale == pytest.approx(100, rel=0.05)
    assert (found.correlation, found.drift) == (pytest.approx(0.3, abs=0.02), pytest.approx(0.5, rel=0.2))


def test_a_sample_is_a_share_of_every_tensor_and_at_least_64_of_it():
    drawn = _sample((1000, 100, 50), 0.2, 1)
    assert drawn.tolist() == sorted(set(drawn.tolist()))
    assert np.histogram(drawn, [0, 1000, 1100, 1150])[0].tolist() == [200, 64, 50]


@pytest.mark.parametrize(("values", "weight"), [([-3.0, 1, 1, 1], None), ([1.0, -3, 1], [1.0, 1, 2])])
def test_a_distribution_by_hand(values, weight):
    """One of four at -3 and the others at 1: a variance of 3, a fourth moment of 21, -1.732 and 0.577 deviations."""
    made = _distribution(np.array(values), None if weight is None else np.array(weight))
    assert (made["std"], made["excess_kurtosis"]) == pytest.approx((math.sqrt(3), 21 / 9 - 3))
    assert made["gaussian_distance"] == pytest.approx(NormalDist().cdf(1 / math.sqrt(3)) - 1 / 4)  # before the step
    shares = {place: share for place, share in enumerate(made["histogram"]) if share}
    assert shares == {13: 0.25, 22: 0.75} and len(made["histogram"]) == 41  # of bins of 10/41 from -5 on
    rows = _histogram(np.array([values, values]), np.array(weight or [1.0] * 4))
    assert {place: row["share"] for place, row in enumerate(rows) if row["share"]} == shares
    assert rows[22]["standard_deviation"] == pytest.approx(math.sqrt(3))
    assert rows[22]["excess_kurtosis"] == pytest.approx(21 / 9 - 3)
    assert rows[22]["middle"] == pytest.approx(22.5 * 10 / 41 - 5)
    assert math.fsum(row["normal"] for row in rows) == pytest.approx(1, abs=1e-6)
