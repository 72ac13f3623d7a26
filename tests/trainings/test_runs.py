"""The folder of a training."""

import math

import pytest
from made_trainings import TOPK, write_study

from simulator.errors import InputError
from simulator.trainings.runs import (
    CurvePoint,
    TrainingSpec,
    describe_method,
    method_curves,
    read_run,
    read_runs,
    write_run,
)

SPEC = TrainingSpec(
    task="mlp-digits",
    method={"kind": "topk", "density": 0.01},
    workers=4,
    batch_size=8,
    iterations=2,
    learning_rate=0.1,
    metric="accuracy",
    better="higher",
    elements=100,
)
CURVE = (CurvePoint(0, 2.3, math.nan, 0.01, 0.03, 0.4, 1.5), CurvePoint(1, 2.1, 0.5, 0.01, 0.03, 0.4, 1.25))


@pytest.fixture
def folder(tmp_path):
    write_run(tmp_path / "one", SPEC, CURVE)
    return tmp_path / "one"


def test_what_was_written_is_read(folder):
    (run,) = read_runs(folder.parent)
    assert run.spec == SPEC
    assert math.isnan(run.curve[0].metric)
    assert run.curve[1] == CURVE[1]


def test_every_damaged_cell_is_named(folder):
    text = (folder / "curve.csv").read_text().replace("2.3", "much").replace("1.25", "more")
    (folder / "curve.csv").write_text(text)
    with pytest.raises(InputError) as error:
        read_run(folder)
    assert "curve.csv:2: loss" in str(error.value)
    assert "curve.csv:3: residual_norm" in str(error.value)


def test_a_folder_without_a_training_is_named(tmp_path):
    with pytest.raises(InputError, match=r"training\.yaml"):
        read_runs(tmp_path)


def test_a_method_is_described_by_its_density():
    assert describe_method({"kind": "topk", "density": 0.01, "granularity": "model"}) == "topk 0.01 granularity=model"
    assert describe_method({"kind": "topk", "density": "5 %"}) == "topk 5 %"


def test_a_curve_of_three_seeds_has_their_median_and_both_ends(tmp_path):
    """A metric that only rises is not changed by smoothing."""
    runs = read_runs(write_study(tmp_path, [TOPK]))
    (made,) = method_curves(runs, "accuracy")
    # Of 80 points of each the median of the last one that four more follow.
    assert (made.method, made.seeds, made.iteration[-1]) == ("topk 0.01", 3, 5 * 76)
    at = [run.curve[made.iteration[0] - 1].metric for run in runs]
    assert [made.low[0], made.middle[0], made.high[0]] == pytest.approx(sorted(at))
