"""The tables of iterations that come with the package: settings left out are predicted, and intervals hold."""

import math
from functools import cache
from statistics import median

import pytest
from places import ROOT

from simulator.studies.quality.iterations import ratios_by_task, transfer_width
from simulator.studies.quality.observations import Target, read_table
from simulator.studies.quality.study import leave_out, read_study
from simulator.studies.quality.trainings import read_study as read_trainings
from simulator.trainings.runs import TrainingSpec, setting_of

TABLES = sorted((ROOT / "configs" / "trainings").glob("*.csv"))
TARGETS = {
    "mlp-digits": (Target("loss", 1), Target("accuracy", 0.8)),
    "lstm-text": (Target("nats_per_token", 2.3),),
    "transformer-text": (Target("nats_per_token", 2.3),),
    "lstm-text-1m": (Target("nats_per_token", 2.3), Target("nats_per_token", 2.1)),
    "transformer-text-1m": (Target("nats_per_token", 2.3), Target("nats_per_token", 2.1)),
    "transformer-text-local-steps": (Target("nats_per_token", 2.05),),
}
CASES = [(name, target) for name, targets in TARGETS.items() for target in targets]


@cache
def study(name, target):
    return read_study(name, target)


def test_every_table_is_tested():
    assert {path.stem for path in TABLES} == set(TARGETS)
    for path in TABLES:
        assert {item.target for item in read_table(path)} == set(TARGETS[path.stem])
        assert path.stat().st_size < 50_000


@pytest.mark.parametrize("name", TARGETS)
def test_a_table_has_the_trainings_of_its_study(name):
    """The command that made it: `sparsim record training iterations-NAME`."""
    options = read_trainings(ROOT / "scenarios" / "trainings" / f"iterations-{name}.yaml").values()
    more = {"metric": "-", "better": "lower"}
    items = read_table(ROOT / "configs" / "trainings" / f"{name}.csv", TARGETS[name][0])
    elements, rate = items[0].setting.recipe.elements, items[0].tuning[0]
    batch = items[0].setting.batch_size
    wanted = set()
    for each in options:
        data = each.model_dump(exclude_none=True) | more | {"elements": elements}
        spec = TrainingSpec.model_validate({"learning_rate": rate, "batch_size": batch, **data})
        wanted.add((setting_of(spec), spec.seed, spec.momentum))
    assert {(item.setting, item.seed, item.tuning[1]) for item in items} == wanted


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_lower_density_needs_more_iterations(case):
    """With error feedback less of the gradient only adds iterations: from the highest to the lowest density."""
    found = {}
    for setting, known in study(*case).typical.items():
        if known.log is not None and setting.recipe.kind in ("topk", "randomk"):
            key = setting.recipe, setting.workers, setting.batch_size
            found.setdefault(key, []).append((setting.density, known.log))
    pairs = [(max(each)[1], min(each)[1]) for each in found.values() if len(each) > 1]
    assert sum(high < low for high, low in pairs) >= 0.9 * len(pairs)


def test_local_steps_cost_little_alone_and_more_with_methods_that_keep_a_residual():
    """Local steps over iterations with an exchange in each: few more if dense, many more with Top-k 1 %."""
    steps = {
        (setting.recipe.kind, setting.recipe.local_steps): math.exp(known.log) * setting.recipe.local_steps
        for setting, known in study(*CASES[-1]).typical.items()
    }
    for apart in (2, 4, 8, 16, 32, 64):
        assert 0.85 < steps["dense", apart] / steps["dense", 1] < 1.35
    longest = {}
    for method in ("topk", "sparseloco"):
        ratios = [steps[method, apart] / steps[method, 1] for apart in (4, 8, 16, 32, 64)]
        assert ratios == sorted(ratios)
        longest[method] = ratios[-1]
    assert longest["topk"] > 1.5 * longest["sparseloco"] > 2.5


def test_what_carries_over_is_measured_between_tasks():
    width, pairs = transfer_width()
    assert pairs > 100
    assert 1.1 < width < 1.6
    ratios = ratios_by_task(item for path in TABLES for item in read_table(path))
    half = math.log(width)
    gaps = [
        abs(one - other)
        for found in ratios.values()
        for (task, _), one in found.items()
        for (other_task, _), other in found.items()
        if task < other_task
    ]
    assert len(gaps) == pairs and 0.8 <= sum(gap <= half for gap in gaps) / pairs <= 1


@pytest.mark.parametrize("name", ["transformer-text", "lstm-text"])
def test_the_target_changes_what_a_method_costs_more_than_the_size_of_the_model(name):
    """Iterations over those of dense, of a model and of one ten times as large, and to a nearer and a later target."""

    def logs(stem, value):
        target = Target("nats_per_token", value)
        found = ratios_by_task(read_table(ROOT / "configs" / "trainings" / f"{stem}.csv", target))
        return {method: next(iter(by_task.values())) for method, by_task in found.items()}

    small, soon, late = logs(name, 2.3), logs(f"{name}-1m", 2.3), logs(f"{name}-1m", 2.1)
    assert len(small) == len(soon) == len(late) == 7 and all(soon[method] > late[method] for method in soon)
    by_size = median(abs(soon[method] - small[method]) for method in soon)
    assert by_size < 0.6 * median(soon[method] - late[method] for method in soon)


@pytest.mark.long
def test_settings_left_out_are_predicted_and_intervals_hold():
    """Of all tables: within a factor of 1.15 in the middle, and at least 85 % of the 90 % intervals hold."""
    rows = [row for case in CASES for recipe in study(*case).laws for row in leave_out(study(*case), recipe)]
    assert len(rows) > 100 and math.exp(median(abs(math.log(row.factor)) for row in rows)) < 1.15
    assert sum(row.inside for row in rows) / len(rows) >= 0.85
