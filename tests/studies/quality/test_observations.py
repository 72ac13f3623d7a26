"""Trainings and tables of iterations as observations."""

import math

import pytest
from made_trainings import DENSE, RANDOMK, TOPK, write_study, write_training

from simulator.errors import InputError
from simulator.studies.quality.iterations import ratios_by_task
from simulator.studies.quality.observations import Observation, Target, read_observations, read_table, write_table
from simulator.trainings.runs import Recipe, Setting

LOSS = Target("loss", 0.5)


def observations(place, target):
    """Those of all settings, one after the other."""
    return [item for items in read_observations(place, target).values() for item in items]


def test_a_table_of_steps_says_the_same_as_the_folder(tmp_path):
    methods = [DENSE, TOPK, RANDOMK, {"kind": "topk", "density": 0.1, "granularity": "model"}]
    made = observations(str(write_study(tmp_path / "study", methods, seeds=2)), LOSS)
    assert len(made) == 8
    known = {"dense", "topk 0.01", "randomk 0.01", "topk 0.1 granularity=model"}
    assert {item.setting.method for item in made} == known
    assert all(item.steps is None for item in made if item.setting.recipe.kind == "randomk")
    assert write_table(tmp_path / "steps.csv", made) == 8
    again = observations(str(tmp_path / "steps.csv"), LOSS)
    assert [(item.setting, item.seed, item.tuning, item.iterations) for item in again] == [
        (item.setting, item.seed, item.tuning, item.iterations) for item in made
    ]
    assert [item.steps and round(item.steps, 2) for item in made] == [item.steps for item in again]


def test_every_setting_counts_with_its_best_learning_rate(tmp_path):
    write_training(tmp_path / "fast", TOPK, workers=8, seed=1)
    write_training(tmp_path / "slow", DENSE | {}, seed=1)
    write_training(tmp_path / "best", TOPK, workers=8, seed=1, learning_rate=0.4)
    curve = (tmp_path / "slow" / "curve.csv").read_text()
    found = {item.tuning[0]: item for item in observations(str(tmp_path), LOSS)}
    assert set(found) == {0.1}  # equally fast: the smaller one
    (tmp_path / "fast" / "curve.csv").write_text(curve.replace(",,", ",,").split("\n", 1)[0] + "\n" + _flat(400))
    found = {item.setting.recipe.kind: item for item in observations(str(tmp_path), LOSS)}
    assert found["topk"].tuning[:2] == (0.4, 0.9)


def _flat(iterations):
    return "".join(f"{i},2.0,,0.01,0.03,0.5,1.0\n" for i in range(iterations))


def test_damaged_tables_are_named_by_line(tmp_path):
    folder = write_study(tmp_path / "study", [DENSE, TOPK], seeds=1)
    path = tmp_path / "steps.csv"
    write_table(path, observations(str(folder), LOSS))
    text = path.read_text()
    path.write_text(text.replace("381", "many", 1).replace('""topk""', '""topkk""'))
    with pytest.raises(InputError) as error:
        observations(str(path), LOSS)
    assert "steps.csv:2: iterations_run" in str(error.value) and "did you mean 'topk'" in str(error.value)
    path.write_text(text.replace("381", "0", 1))
    with pytest.raises(InputError, match="iterations_run: expected a whole number above 0, got '0'"):
        observations(str(path), LOSS)
    path.write_text(text)
    with pytest.raises(InputError, match=r"rows with the target loss 0\.1, got 'loss 0\.5'"):
        observations(str(path), Target("loss", 0.1))


def test_a_table_keeps_other_targets(tmp_path):
    folder, path = write_study(tmp_path / "study", [DENSE, TOPK], seeds=1), tmp_path / "steps.csv"
    early = Target("loss", 1.0)
    for target in (LOSS, early, LOSS):
        write_table(path, observations(str(folder), target))
    assert len(read_table(path)) == 4
    steps = [[item.steps for item in observations(str(path), target)] for target in (early, LOSS)]
    assert all(one < other for one, other in zip(*steps, strict=True))


def test_an_empty_folder_is_named(tmp_path):
    with pytest.raises(InputError, match=r"a folder with trainings, each with training\.yaml"):
        observations(str(tmp_path), LOSS)


def test_ratios_to_dense_are_means_over_settings_at_which_every_training_reached_the_target():
    """Dense needs 20 iterations with one worker (10 and 40) and 30 with two; nobody trained it with four."""

    def made(kind, density, workers, *steps):
        setting = Setting(Recipe("task", 9, kind, "{}", True, 1, "fp32"), density, workers, 8)
        return [Observation(setting, (0.1, 0.9, 1.0, 0.0), seed, LOSS, each, 500) for seed, each in enumerate(steps)]

    seen = [*made("dense", 1.0, 1, 10, 40), *made("dense", 1.0, 2, 30), *made("topk", 0.1, 1, 40)]
    seen += [*made("topk", 0.1, 2, 240), *made("topk", 0.1, 4, 90), *made("topk", 0.01, 2, 60)]
    found = ratios_by_task([*seen, *made("randomk", 0.1, 2, 50, None)])
    assert found == {
        ("topk", "{}", True, 1, density): {("task", LOSS): pytest.approx(math.log(ratio))}
        for density, ratio in ((0.1, math.sqrt(2 * 8)), (0.01, 2.0))
    }
