"""Iterations from trainings times the predicted time of one: intervals, verdicts, and what is carried over."""

import math
from types import SimpleNamespace

import pytest
from command_line import answered, printed
from figure_results import SCENARIO
from in_json import flatten
from made_trainings import DENSE, RANDOMK, TOPK, write_study, write_training

from simulator.answers import keys_of, read_answer
from simulator.errors import InputError
from simulator.prediction.doubts.doubt import Doubt
from simulator.prediction.doubts.spread import Response, Spread, Tails, compare_spreads
from simulator.prediction.iterations_to_target import Iterations
from simulator.prediction.run import run
from simulator.reporting.answers.trained import TrainedPlace, TrainingQuality
from simulator.scenario.reading import load
from simulator.studies.quality import iterations, quality
from simulator.studies.quality.iterations import MeasuredIterations, find_iterations, find_place
from simulator.studies.quality.observations import Observation, Target, write_table
from simulator.studies.quality.quality import describe_quality
from simulator.studies.quality.study import Noise, Study, Typical, read_study
from simulator.trainings.runs import Recipe, Setting

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


def made_study(elements=1000):
    """Dense takes 100 iterations (95 to 104), topk 200 (190 to 220), on a task with so many elements."""
    typical, laws = {}, {}
    for kind, density, least, steps, most in (("dense", 1.0, 95, 100, 104), ("topk", 0.01, 190, 200, 220)):
        recipe = Recipe("made", elements, kind, "{}", True, 1, "fp32")
        laws[recipe], setting = None, Setting(recipe, density, 4, 8)
        typical[setting] = Typical(*(math.log(each) for each in (steps, least, most)), 3, 3, 999)
    return Study("here", LOSS, {setting: [] for setting in typical}, Noise((0.1,), 1), typical, laws)


def ends_of(found):
    return [(item.doubts[0].level, *(math.exp(end) for end in (item.low, item.high))) for item in found.responses]


def test_iterations_by_hand(folder, monkeypatch):
    """Of one's own model they are those of the trainings; of another only the ratio to dense's is carried over."""
    monkeypatch.setattr(iterations, "transfer_width", lambda: (1.5, 7))
    place, sparse, dense = TrainedPlace("made", 4, 8), scenario(folder), scenario(folder, "sparsifier=dense")
    mine, its = ("measured", 0.95, 1.1), ("measured", pytest.approx(100 / 95), pytest.approx(100 / 104))
    for same, known, asked, value, ends in (
        (True, None, sparse, 200, [mine]),
        (True, None, dense, 100, [("measured", 0.95, 1.04)]),
        (True, 1000.0, sparse, 2000, [mine, its]),
        (True, 1000.0, dense, 1000, []),
        (False, None, sparse, 200, [("transferred", 0.95, 1.1), ("assumed", 1 / 1.5, 1.5)]),
        (False, None, dense, 100, [("transferred", 0.95, 1.04)]),
    ):
        found = MeasuredIterations(made_study(), place, same, known).find(asked)
        assert found.value == pytest.approx(value) and ends_of(found) == [pytest.approx(end) for end in ends]
    assert MeasuredIterations(made_study(), place, True).warnings(sparse) == []
    told = MeasuredIterations(made_study(), place, False).warnings(scenario(folder, "cluster.nodes=8"))
    assert [text.split()[:4] for text in told] == [
        ["The", "iterations", "are", "those"], ["Times", "to", "the", "target"], ["The", "ratios", "of", "iterations"]
    ]  # fmt: skip
    assert "a factor of 1.50 in nine of ten cases, as 7 pairs of" in told[0] and "(1,000 elements)" in told[0]
    assert len(MeasuredIterations(made_study(), place, False, 1000.0).warnings(sparse)) == 1


def test_every_method_is_predicted_with_what_was_measured_of_the_scenario(folder, study):
    known = scenario(folder, *OWN, "measured={iteration_time: 4 ms, source: a timer}")
    made = rows(describe_quality(study, known))
    for method in ("dense", "topk 0.01"):
        kind, _, density = method.partition(" ")
        changed = load(known, {"sparsifier": {"kind": kind, "density": float(density)} if density else kind})
        free = load(changed, {"measured": None})
        assert made[method].iteration_time == run(changed).spread.time != run(free).spread.time


def test_that_failures_are_in_none_of_the_times_is_said(folder, study):
    failing = scenario(folder, *OWN, "cluster.membership={mean_time_between_failures: 1 h}")
    (warning,) = describe_quality(study, failing).warnings
    assert "is in none of these times" in warning


def test_the_model_is_the_same_where_it_has_as_many_elements(folder):
    place, own = TrainedPlace("made", 4, 8), scenario(folder)
    assert [
        find_iterations(made_study(elements=elements), own, place).same_model for elements in (1000, own.workload.numel)
    ] == [False, True]


def test_the_width_of_carried_ratios_is_that_between_tasks(tmp_path, monkeypatch):
    """Ratios of 2 and 8: ln 4 apart, times Student's 95 % quantile of one degree of freedom, 6.314."""
    monkeypatch.setattr(iterations, "find_shipped", lambda _: tmp_path)
    assert iterations.transfer_width.__wrapped__() == (1000.0, 0)
    for task, ratio in (("one", 2), ("other", 8)):
        made = []
        for kind, density, steps in (("dense", 1.0, 100), ("topk", 0.01, 100 * ratio)):
            setting = Setting(Recipe(task, 9, kind, "{}", True, 1, "fp32"), density, 4, 8)
            targets = LOSS, Target("loss", 1)
            made += [Observation(setting, (0.1, 0.9, 1.0, 0.0), 0, target, steps, 999) for target in targets]
        write_table(tmp_path / f"{task}.csv", made)
    width, pairs = iterations.transfer_width.__wrapped__()
    # Each of two targets of the one task with each of the other.
    assert pairs == 4 and width == pytest.approx(math.exp(math.log(4) * 2.1318), rel=1e-4)


def trained(method, iterations, time, *responses):
    spread = Spread(time, responses)
    prediction = SimpleNamespace(spread=spread, result=SimpleNamespace(interval=spread.interval()))
    made = Iterations(iterations, ())
    return quality._TrainedMethod(method, prediction, made, made.spread(spread))


def test_times_costs_and_the_front_by_hand():
    """Half a coin per second; `late` is beaten by `fast`, which needs as many iterations, and dense by nobody."""
    doubt = Doubt("kernel", "topk", "assumed", 1.25)
    dense, fast, late = trained("dense", 100, 3.0), trained("fast", 200, 1.0), trained("late", 200, 1.2)
    open_ = trained("open", 50, 5.0, Response(doubt.key, (doubt,), math.log(0.5), math.log(2)))
    found = [fast, late, dense, open_]
    rows = {item.method: quality._row(item, dense, found, 0.5) for item in found}
    assert {name: (row.time_to_target, row.cost) for name, row in rows.items()} == {
        "dense": (300, 150), "fast": (200, 100), "late": (240, 120), "open": (250, 125)
    }  # fmt: skip
    assert rows["open"].cost_interval == pytest.approx((62.5, 250))
    assert rows["open"].time_to_target_interval == pytest.approx((125, 500))
    assert (rows["fast"].speed_up_over_dense, rows["fast"].iterations_over_dense) == (1.5, 2.0)
    assert [row.verdict for row in rows.values()] == ["yes", "yes", None, "undecided"]
    assert [row.pareto for row in rows.values()] == [True, False, True, True]
    assert quality._row(fast, dense, found, None).cost is None and rows["dense"].speed_up_interval == (1.0, 1.0)
    assert quality._answer(found, dense).startswith("fast against dense, by the time to the target: Yes: 1.50 times")
    assert quality._answer(found, dense).endswith(" It cannot be told apart from open.")
    assert quality._answer([dense], dense) == "Only dense can be compared."


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
    assert {item.measurement.command for response in found.responses for item in response.doubts} == {
        'sparsim record training YOUR_MODEL.py --method "dense" --set local_steps=5'
    }


@pytest.mark.parametrize(("schedule", "said"), [
    ("kind: local_sgd", ()),
    ("kind: diloco, outer_optimiser: {kind: sgd}", ()),
    ("kind: diloco", ("outer optimiser with momentum",)),
    ("kind: overlapped_diloco", ("some steps after", "outer optimiser")),
    ("kind: streaming_diloco, fragments: 2, delay: 1, outer_optimiser: {kind: sgd}", ("some steps after", "2 parts")),
])  # fmt: skip
def test_what_a_schedule_does_and_trainings_did_not_is_said(folder, tmp_path, schedule, said):
    write_training(tmp_path / "0", DENSE, seed=0, local_steps=4)
    write_training(tmp_path / "1", DENSE, seed=1, local_steps=4)
    spec = scenario(folder, f"scheduler={{inner_steps: 4, {schedule}}}", "sparsifier=dense")
    warnings = find_iterations(read_study(str(tmp_path), LOSS), spec, TrainedPlace("made", 4, 8)).warnings(spec)
    made = [text for text in warnings if "waited for an exchange of the whole model" in text]
    assert len(made) == bool(said) and all(part in made[0] for part in said)


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
