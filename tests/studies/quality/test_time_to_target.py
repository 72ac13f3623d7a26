"""Iterations from trainings times the predicted time of one: intervals, verdicts, and what is carried over."""

import math

import pytest
from command_line import answered, printed
from figure_results import SCENARIO
from in_json import flatten
from made_trainings import DENSE, RANDOMK, TOPK, write_study, write_training

from simulator.answers import keys_of, read_answer
from simulator.errors import InputError
from simulator.prediction.doubts.spread import Response, Spread, Tails, compare_spreads
from simulator.prediction.iterations_to_target import Iterations
from simulator.reporting.answers.trained import TrainedPlace, TrainingQuality
from simulator.scenario.reading import load
from simulator.studies.quality.iterations import find_iterations, find_place, transfer_width
from simulator.studies.quality.observations import Target
from simulator.studies.quality.quality import describe_quality
from simulator.studies.quality.study import read_study

LOSS = Target("loss", 0.5)

OWN = ("workload.layers.0.numel=600", "workload.layers.1.numel=400")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("quality")
    write_study(made / "study", [DENSE, TOPK, RANDOMK])
    (made / "small.yaml").write_text(SCENARIO)
    return made


@pytest.fixture(scope="module")
def study(folder):
    return read_study(str(folder / "study"), LOSS)


def scenario(folder, *overrides):
    return load(str(folder / "small.yaml"), overrides)


@pytest.fixture(scope="module")
def document(folder, study):
    return describe_quality(study, scenario(folder), price=3.0)


def rows(document):
    return {row.method: row for row in document.methods}


def test_time_is_iterations_times_the_time_of_one(document):
    for row in document.methods:
        assert row.time_to_target == pytest.approx(row.iterations_to_target * row.iteration_time)
        assert row.cost == pytest.approx(row.time_to_target / 3600 * 4 * 3.0)
        low, high = row.time_to_target_interval
        assert low < row.time_to_target < high
        # No surer than the number of iterations, nor than the time of one.
        for (least, most), value in (
            (row.iterations_to_target_interval, row.iterations_to_target),
            (row.iteration_time_interval, row.iteration_time),
        ):
            assert low / row.time_to_target <= least / value and high / row.time_to_target >= most / value
    dense, topk = (rows(document)[name] for name in ("dense", "topk 0.01"))
    assert topk.iterations_over_dense == pytest.approx(topk.iterations_to_target / dense.iterations_to_target)
    assert topk.speed_up_over_dense == pytest.approx(dense.time_to_target / topk.time_to_target)


def test_how_far_iterations_are_off_is_no_other_in_a_ratio():
    """Errors of iteration times are stretched, and further in ratios; those of the number of iterations are not."""
    iteration = Spread(2.0, (), tails=Tails({50: 0.1, 80: 0.3, 90: 0.5}, 1.5))
    made = Iterations(3.0, (Response(("iterations", "x"), (), -0.1, 0.2),)).spread(iteration)
    assert [math.log(end / 6) for end in made.interval()] == pytest.approx([-0.1, 0.2])
    assert [math.log(3 * end) for end in compare_spreads(made, iteration).interval()] == pytest.approx([-0.2, 0.1])


def test_what_was_not_reached_is_listed_and_not_dropped(document):
    (left_out,) = document.refused
    assert left_out.method == "randomk 0.01" and "not within" in left_out.reason
    assert any("randomk 0.01 with 4 workers and batch 8 (3 of 3)" in note for note in document.notes)


def test_bandwidth_changes_no_iterations(folder, study, document):
    fast = describe_quality(study, scenario(folder, "cluster.network.bandwidth=20 Gbit/s"), price=3.0)
    for name, row in rows(document).items():
        assert rows(fast)[name].iterations_to_target == row.iterations_to_target
    assert rows(fast)["dense"].iteration_time < rows(document)["dense"].iteration_time
    assert fast.curves == document.curves


def test_iterations_of_another_model_are_less_sure(folder, study, document):
    """The scenario has 500,000 elements, the trainings 1,000 of another task."""
    other = rows(document)["topk 0.01"]
    assert not document.same_model
    assert any("small task, made (1,000 elements), and not of" in text for text in document.warnings)
    same = describe_quality(study, scenario(folder, *OWN))
    assert same.same_model and not same.warnings
    failing = scenario(folder, *OWN, "cluster.membership={mean_time_between_failures: 1 h}")
    assert "is in none of these times" in describe_quality(study, failing).warnings[-1]
    ends = (row.iterations_to_target_interval for row in (rows(same)["topk 0.01"], other))
    spread = [math.log(high / low) for low, high in ends]
    assert spread[1] == pytest.approx(math.hypot(spread[0], 2 * math.log(transfer_width()[0])), rel=0.1)


def test_own_iterations_of_dense_are_exact(folder, study):
    made = rows(describe_quality(study, scenario(folder), dense_iterations=1e5))
    assert made["dense"].iterations_to_target == 1e5 and made["dense"].iterations_to_target_interval == (1e5, 1e5)
    logs = {setting.method: known.log for setting, known in study.typical.items()}
    assert made["topk 0.01"].iterations_to_target == pytest.approx(1e5 * math.exp(logs["topk 0.01"] - logs["dense"]))


@pytest.mark.parametrize(("bandwidth", "word"), [("1 Mbit/s", "yes"), ("1000 Gbit/s", "no")])
def test_verdicts_follow_the_network(folder, study, bandwidth, word):
    own = ("workload.layers.0.numel=600", "workload.layers.1.numel=400")
    made = rows(describe_quality(study, scenario(folder, f"cluster.network.bandwidth={bandwidth}", *own)))["topk 0.01"]
    assert made.verdict in (word, "undecided") and (made.probability > 0.5) == (word == "yes")


def test_the_front_has_the_methods_that_no_other_one_beats(document):
    for row in document.methods:
        beaten = any(
            other.iterations_to_target <= row.iterations_to_target and other.iteration_time < row.iteration_time
            for other in document.methods
        )
        assert row.pareto == (not beaten)


def test_workers_and_tasks_outside_of_what_was_run_are_refused(folder, study, tmp_path):
    with pytest.raises(InputError, match="workers from 4 to 4, the range that was run, got 8"):
        find_place(study, scenario(folder, "cluster.nodes=8"))
    assert find_place(study, scenario(folder, "cluster.nodes=8"), workers=4) == TrainedPlace("made", 4, 8)
    with pytest.raises(InputError, match="a batch from 8 to 8, the range that was run, got 64"):
        find_place(study, scenario(folder), batch_size=64)
    with pytest.raises(InputError, match="one of made, got other"):
        find_place(study, scenario(folder), task="other")
    for seed in (0, 1):
        write_training(tmp_path / str(seed), TOPK, seed=seed)
    with pytest.raises(InputError, match="trainings of made with dense"):
        find_place(read_study(str(tmp_path), LOSS), scenario(folder))


def test_methods_that_were_not_trained_are_not_known(folder, study):
    measured = find_iterations(study, scenario(folder), TrainedPlace("made", 4, 8))
    assert measured.of(scenario(folder, "sparsifier={kind: dgc, density: 0.01}")) is None
    with pytest.raises(InputError, match=r"one with topk 0\.01 and"):
        measured.find(scenario(folder, "sparsifier.granularity=model"))
    with pytest.raises(InputError, match=r"a setting that was run: topk 0\.01 with 4 workers and batch 8"):
        measured.find(scenario(folder, "sparsifier.density=0.02"))


def test_local_steps_have_iterations_of_their_own(folder, study, tmp_path):
    place, local = TrainedPlace("made", 4, 8), "scheduler={kind: diloco, inner_steps: 5}"
    every_step = find_iterations(study, scenario(folder), place)
    with pytest.raises(InputError, match=r"one with topk 0\.01 and 5 local steps, got none: `sparsim record training`"):
        every_step.find(scenario(folder, local))
    for seed in range(3):
        write_training(tmp_path / str(seed), DENSE, seed=seed, local_steps=5)
    # The same curves, whose points are exchanges: five of the scenario's iterations each.
    exchanges = find_iterations(read_study(str(tmp_path), LOSS), scenario(folder), place)
    found = exchanges.find(scenario(folder, local, "sparsifier=dense"))
    assert found.value == pytest.approx(5 * every_step.find(scenario(folder, "sparsifier=dense")).value)
    assert exchanges.of(scenario(folder, "sparsifier=dense")) is None


def test_every_key_is_described_and_what_is_described_occurs(folder, tmp_path):
    for number, density in enumerate((0.1, 0.05, 0.02, 0.005, 0.002)):
        for seed in (0, 1):
            write_training(tmp_path / f"{number}-{seed}", {"kind": "topk", "density": density}, seed=seed)
    write_study(tmp_path / "study", [DENSE, TOPK, RANDOMK], seeds=2)
    made = answered("quality", tmp_path, "--target", "loss 0.5", "--scenario", folder / "small.yaml")
    assert read_answer(made, TrainingQuality, "quality").to_dict() == made
    known = keys_of(TrainingQuality)
    inside = tuple(f"{key}." for key in known)  # the keys of a mapping, such as factors, are not described one by one
    found = {key for key, _ in flatten(made)}
    assert {next((key[:-1] for key in inside if name.startswith(key)), name) for name in found} == set(known)
    assert all(made[key] for key in ("tasks", "settings", "laws", "methods", "curves"))
    assert all(law["left_out"]["settings"] == len(law["left_out"]["rows"]) for law in made["laws"])


def test_the_command_prints_tables_and_markdown(folder):
    arguments = (folder / "study", "--target", "loss 0.5")
    text = printed("quality", *arguments)
    assert "Iterations to loss 0.5" in text and "not within 381" in text
    text = printed("quality", *arguments, "--scenario", folder / "small.yaml", "--markdown", "--price", "2")
    heading, line = text.splitlines()[2:4]
    assert heading.startswith("| method | iterations | 90 % interval |")
    assert set(line) == set("| -")
    assert "the opponent" in printed("quality", *arguments, "--scenario", folder / "small.yaml").lower()


def test_a_table_of_steps_stands_for_the_folder(folder, tmp_path):
    table = tmp_path / "steps.csv"
    arguments = ("--target", "loss 0.5", "--scenario", folder / "small.yaml", "--json")
    one = answered("quality", folder / "study", *arguments, "--table", table)
    other = answered("quality", table, *arguments)
    assert other["curves"] == []
    for row, again in zip(one["methods"], other["methods"], strict=True):
        assert again["iterations_to_target"] == pytest.approx(row["iterations_to_target"], rel=1e-3)
