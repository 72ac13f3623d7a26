"""The folder of a training."""

import math

import pytest
from made_trainings import DENSE, TOPK, write_study, write_training

from simulator.errors import InputError
from simulator.trainings.options import TrainingOptions
from simulator.trainings.runs import (
    CurvePoint,
    TrainingSpec,
    describe_method,
    finished_run,
    measured_points,
    method_curves,
    read_run,
    read_runs,
    setting_of,
    smooth,
    tuning_of,
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
    assert measured_points(run, "loss") == [(1, 2.3), (2, 2.1)]
    assert measured_points(run, "accuracy") == [(2, 0.5)]  # after the second iteration, the only one that was measured


def test_every_damaged_cell_is_named(folder):
    text = (folder / "curve.csv").read_text().replace("2.3", "much").replace("1.25", "more")
    (folder / "curve.csv").write_text(text)
    with pytest.raises(InputError) as error:
        read_run(folder)
    assert "curve.csv:2: loss" in str(error.value)
    assert "curve.csv:3: residual_norm" in str(error.value)
    write_run(folder, SPEC, [CURVE[0], CurvePoint(-1, *[0.0] * 6)])
    with pytest.raises(InputError, match=r"curve\.csv:3: iteration: expected a whole number from 0 up, got '-1'"):
        read_run(folder)
    write_run(folder, SPEC, [])
    with pytest.raises(InputError, match="at least one iteration"):
        read_run(folder)


def test_a_training_is_finished_once_it_has_weights_and_another_one_in_its_folder_is_refused(folder):
    options = TrainingOptions(task="mlp-digits", method=dict(SPEC.method), iterations=2)
    assert not finished_run(folder.parent, options) and not finished_run(folder, options)
    write_run(folder, SPEC.model_copy(update={"weights": "ab"}), CURVE)
    assert finished_run(folder, options)  # what it leaves to the task was no other choice
    with pytest.raises(InputError) as error:
        finished_run(folder, options.model_copy(update={"iterations": 3, "batch_size": 16, "seed": 7}))
    assert [(item.where.rpartition(": ")[2], item.expected, item.got) for item in error.value.problems] == [
        ("batch_size", "16", "8"), ("iterations", "3", "2"), ("seed", "7", "0"),
    ]  # fmt: skip


def test_a_folder_without_a_training_is_named(tmp_path):
    for read in (read_run, read_runs):
        with pytest.raises(InputError, match=r"training\.yaml"):
            read(tmp_path)


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


def test_what_is_trained_and_how_makes_the_setting():
    """Whose code carries a method out, and error feedback where everything is sent, change nothing that is learnt."""
    changes = {"parameters": {"width": 8, "depth": 2}, "error_feedback": False, "local_steps": 4, "precision": "bf16"}
    given = {"kind": "topk", "density": 0.01, "granularity": "model", "implementation": "good"}
    made = setting_of(SPEC.model_copy(update=changes | {"method": given, "momentum": 0.5, "outer_momentum": 0.25}))
    said = "topk 0.01 granularity=model without error feedback with 4 local steps in bf16"
    assert (made.method, made.words) == (said, f"{said} with 4 workers and batch 8")
    assert (made.recipe.task, made.recipe.elements) == ("mlp-digits depth=2 width=8", 100)
    assert made.parameters == {"granularity": "model", "density": 0.01}
    dense = setting_of(SPEC.model_copy(update={"method": DENSE, "error_feedback": False, "workers": 1}))
    assert dense.words == "dense with 1 worker and batch 8"
    assert (dense.density, dense.has_density, dense.parameters) == (1.0, False, {})
    tuned = {"momentum": 0.5, "outer_learning_rate": 0.7, "outer_momentum": 0.25}
    assert tuning_of(SPEC.model_copy(update=tuned)) == (0.1, 0.5, 0.7, 0.25)


def test_a_median_takes_a_tenth_of_the_points_before_on_either_side_and_as_many_as_there_are_near_the_end():
    alone = [(place, float(place % 7 == 0)) for place in range(100)]
    assert smooth(alone) == [(place, 0.0) for place in range(2, 95)]
    # Of 55 points the median takes five on either side, three before the end, and none where fewer follow than half.
    assert [place for place, _ in smooth([(place, 0.0) for place in range(55)])] == list(range(2, 52))
    # At most 250 on either side: of 501 points 251 are more than half, and 250 are noise.
    for ones, kept in ((range(2850, 3101), 251), (range(2850, 3100), 0)):
        made = smooth([(place, float(place in ones)) for place in range(4000)])
        assert [place for place, value in made if value] == list(ones)[:kept]


def test_trainings_at_other_learning_rates_are_curves_of_their_own_and_long_ones_are_thinned(tmp_path):
    for rate in (0.1, 0.05):
        write_training(tmp_path / str(rate), DENSE, learning_rate=rate, iterations=300)
    write_training(tmp_path / "short", TOPK, iterations=4, workers=8)  # too short to have a median
    made = method_curves(read_runs(tmp_path), "loss")
    assert [(curve.learning_rate, curve.seeds) for curve in made] == [(0.05, 1), (0.1, 1)]
    # Of 300 points 2 at the start and 15 at the end have no median; of 283 every third is kept, the last among them.
    assert made[0].iteration == list(range(3, 286, 3))
    with pytest.raises(InputError, match="loss or accuracy as the target, got 'perplexity'"):
        method_curves(read_runs(tmp_path), "perplexity")
