"""Iterations to the target of any scenario's method, given or from trainings, with what they may be off by."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from itertools import combinations
from statistics import fmean

from simulator.errors import InputError, Problem, suggest_nearest
from simulator.loading.finding import find_shipped
from simulator.models.groups import group_by
from simulator.models.widths import student_95
from simulator.prediction.doubts.doubt import Doubt, Level, Measurement
from simulator.prediction.doubts.spread import Response
from simulator.prediction.iterations_to_target import Iterations
from simulator.records import Record, replace
from simulator.reporting.answers.trained import TrainedPlace
from simulator.scenario.scenario import Scenario
from simulator.scenario.titles import method_name
from simulator.schedulers.local_steps import OuterStep
from simulator.sparsifiers.dense import Dense
from simulator.studies.quality.observations import HOME, Observation, Target, read_table
from simulator.studies.quality.study import Study, recipe_of_dense
from simulator.trainings.runs import Recipe, Setting, changed_parameters
from simulator.units import count_of, join_words

Method = tuple[str, str, bool, int, float]
"""A method by its kind, its parameters, whether it has error feedback, its local steps, and its density."""


@cache
def transfer_width() -> tuple[float, int]:
    """The factor within which ratios of iterations carry over to another task in nine of ten cases, and on how many
    pairs that rests; 1000 where nothing was measured. Tasks are those of the tables of iterations in the package.

    For each method and two tasks, each to each of its targets: ln of its iterations over those of dense on the one
    task, less that on the other. The
    width is e to Student's quantile of the root of their mean square.
    """
    home = find_shipped(HOME)
    tables = sorted(home.glob("*.csv")) if home is not None else []
    ratios = ratios_by_task(item for path in tables for item in read_table(path))
    gaps = [
        one - other
        for found in ratios.values()
        for ((task, _), one), ((task_of_other, _), other) in combinations(found.items(), 2)
        if task != task_of_other
    ]
    if not gaps:
        return 1000.0, 0
    deviation = math.sqrt(math.fsum(gap * gap for gap in gaps) / len(gaps))
    return math.exp(deviation * student_95(len(gaps))), len(gaps)


def ratios_by_task(observations: Iterable[Observation]) -> dict[Method, dict[tuple[str, Target], float]]:
    """ln(iterations over those of dense with the same workers and batch) of each method, by task and target: mean over
    workers and batches.

    Settings at which a training did not reach the target are left out: they have no ratio.
    """
    logs = {
        key: fmean(math.log(item.steps) for item in items if item.steps is not None)
        for key, items in group_by(observations, lambda item: (item.setting, item.target)).items()
        if all(item.steps is not None for item in items)
    }
    dense = {_place(*key): log for key, log in logs.items() if key[0].recipe.kind == Dense.kind}
    found: dict[Method, dict[tuple[str, Target], list[float]]] = {}
    for (setting, target), log in logs.items():
        recipe, place = setting.recipe, _place(setting, target)
        if recipe.kind != Dense.kind and place in dense:
            method = (recipe.kind, recipe.parameters, recipe.error_feedback, recipe.local_steps, setting.density)
            found.setdefault(method, {}).setdefault((recipe.task, target), []).append(log - dense[place])
    return {method: {task: fmean(values) for task, values in tasks.items()} for method, tasks in found.items()}


def _place(setting: Setting, target: Target) -> tuple[str, Target, int, int, int, str]:
    recipe = setting.recipe
    return recipe.task, target, setting.workers, setting.batch_size, recipe.local_steps, recipe.precision


WHAT = "iterations to the target"
_CARRIED = "iterations carried over"
MINUTES = 60.0
"""What trainings of a model take: a guess, since nobody knows how long a training is before it is made."""


class MeasuredIterations(Record):
    """Iterations from trainings, looked up at one place of their range.

    Where the scenario's own model was not trained, only the ratio of a method's iterations to dense's is carried over,
    with the width that this has between small tasks. `dense`: iterations that dense needs on the scenario's model; the
    small task's, where nobody knows.
    """

    study: Study
    place: TrainedPlace
    same_model: bool
    dense: float | None = None

    def of(self, scenario: Scenario) -> Iterations | None:
        """The iterations of the scenario's method; None where they are not known."""
        try:
            return self.find(scenario)
        except InputError:
            return None

    def find(self, scenario: Scenario) -> Iterations:
        """The iterations of the scenario's method. Raises InputError that says why they are not known."""
        method = method_name(scenario)
        setting = self.setting_of(scenario)
        mine = self.study.steps(setting)
        is_dense = scenario.sparsifier.kind == Dense.kind
        level: Level = "measured" if self.same_model else "transferred"
        steps = setting.recipe.local_steps
        known = [_response(WHAT, method, level, (mine.low - mine.log, mine.high - mine.log), steps)]
        # A training counts exchanges; of a scenario with local steps an iteration is one of these.
        value = math.exp(mine.log) * steps
        if self.dense is not None:
            other = self.study.steps(replace(setting, recipe=recipe_of_dense(setting.recipe), density=1.0))
            value = self.dense * math.exp(mine.log - other.log)
            ends = other.log - other.low, other.log - other.high
            known = [] if is_dense else [*known, _response(WHAT, Dense.kind, level, ends, steps)]
        if not self.same_model and not is_dense:
            half = math.log(transfer_width()[0])
            known.append(_response(_CARRIED, method, "assumed", (-half, half), steps))
        return Iterations(value, tuple(known))

    def warnings(self, scenario: Scenario) -> list[str]:
        """What a reader should know of the iterations: whose they are, and what was carried over."""
        made = self._unlike_schedule(scenario)
        if self.same_model:
            return made
        place, workload, (width, pairs) = self.place, scenario.workload, transfer_width()
        elements = next(recipe.elements for recipe in self.study.laws if recipe.task == place.task)
        own = f"{workload.name or 'the model of the scenario'} ({workload.numel:,} elements)"
        made += [
            f"The iterations are those of a small task, {place.task} ({elements:,} elements), and not of {own}. Only "
            f"their ratio to those of dense is carried over; it counts as right within a factor of {width:.2f} in nine "
            f"of ten cases, as {count_of(pairs, 'pair')} of small tasks differ. Train your own model to know."
        ]
        if self.dense is None:
            made.append(
                "Times to the target are those of the small task's iterations on this cluster: compare them with each "
                "other, or state how many iterations dense needs on your model (`sparsim quality --dense-iterations`)."
            )
        if place.workers != scenario.cluster.workers:
            made.append(
                f"The ratios of iterations are those of {count_of(place.workers, 'worker')}; the scenario has "
                f"{scenario.cluster.workers}."
            )
        return made

    def _unlike_schedule(self, scenario: Scenario) -> list[str]:
        """What a schedule of local steps does that the trainings did not: they wait for one exchange of all."""
        scheduler, unlike = scenario.scheduler, list[str]()
        if (period := scheduler.period) is None:
            return []
        if any(part.due > part.ready for part in period.fragments):
            unlike.append("uses what arrives some steps after it was sent")
        if (parts := len(period.fragments)) > 1:
            unlike.append(f"exchanges the model in {parts} parts, at different steps")
        trained = (items for setting, items in self.study.groups.items() if setting.recipe.local_steps == period.steps)
        momenta = (item.tuning[-1] for items in trained for item in items)
        if isinstance(scheduler, OuterStep) and scheduler.outer.kind != "sgd" and not any(momenta):
            unlike.append(f"applies the mean by an outer optimiser with momentum ({scheduler.outer.kind})")
        if not unlike:
            return []
        return [
            f"The iterations are those of trainings that waited for an exchange of the whole model and then applied "
            f"its mean. {scheduler.kind} {join_words(unlike)}; what that does to the iterations was not trained."
        ]

    def setting_of(self, scenario: Scenario) -> Setting:
        """Where in the trainings the scenario's method is looked up. Raises InputError where it was not trained."""
        member, place = scenario.sparsifier, self.place
        parameters, steps = changed_parameters(member), local_steps_of(scenario)
        for recipe in self.study.laws:
            if recipe == Recipe(place.task, recipe.elements, member.kind, parameters, True, steps, "fp32"):
                return Setting(recipe, float(getattr(member, "density", 1.0)), place.workers, place.batch_size)
        known = sorted({recipe.name for recipe in self.study.laws if recipe.task == place.task})
        where = f"trainings of {place.task} in {self.study.place}"
        what = f"one with {method_name(scenario)}" + (f" and {parameters}" if parameters != "{}" else "")
        hint = suggest_nearest(member.kind, known)
        if steps > 1:
            what += f" and {steps} local steps"
            hint = f"`sparsim record training` with local_steps={steps}; with an exchange in every step they are others"
        raise InputError(Problem(where, what, "none", hint))


def local_steps_of(scenario: Scenario) -> int:
    """Steps that a worker takes between two exchanges: 1, where gradients are exchanged in every step."""
    period = scenario.scheduler.period
    return 1 if period is None else period.steps


def _response(what: str, method: str, level: Level, ends: tuple[float, float], steps: int) -> Response:
    """The effect of one error of iterations on the logarithm of the time to the target."""
    more = max(map(abs, ends))
    local = f" --set local_steps={steps}" if steps > 1 else ""
    command = f'sparsim record training YOUR_MODEL.py --method "{method}"{local}'
    measurement = Measurement(f"the iterations of {method} with your own model", command, MINUTES)
    source = "trainings of small tasks" if what == _CARRIED else "seeds of trainings"
    item = Doubt(what, method, level, math.exp(more), more=more, less=more, source=source, measurement=measurement)
    return Response(item.key, (item,), *ends)


def find_place(study: Study, scenario: Scenario, task: str = "", workers: int = 0, batch_size: int = 0) -> TrainedPlace:
    """Where to look: the given values, else the scenario's workers, and the only task and batch that were trained.

    Raises InputError where a value has to be chosen.
    """
    tasks = sorted({setting.recipe.task for setting in study.groups})
    if task not in tasks and (task or len(tasks) > 1):
        raise InputError(
            Problem("--task", f"one of {', '.join(tasks)}", task or "none", "the folder has several tasks")
        )
    task = task or tasks[0]
    dense = [each for each in study.groups if each.recipe.task == task and each.recipe.kind == Dense.kind]
    if not dense:
        what = f"trainings of {task} with dense, which every method is compared with"
        raise InputError(Problem(study.place, what, "none"))
    batches = sorted({each.batch_size for each in dense})
    own = scenario.workload.batch_size
    batch_size = batch_size or (batches[0] if len(batches) == 1 else own)
    if not batches[0] <= batch_size <= batches[-1]:
        what = f"a batch from {batches[0]} to {batches[-1]}, the range that was run"
        raise InputError(Problem("--batch", what, str(batch_size), "choose one with --batch"))
    counts = sorted({each.workers for each in dense})
    workers = workers or scenario.cluster.workers
    if not counts[0] <= workers <= counts[-1]:
        what = f"workers from {counts[0]} to {counts[-1]}, the range that was run"
        hint = "train with as many, or choose with --workers at how many the ratio to dense is taken"
        raise InputError(Problem("workers", what, str(workers), hint))
    return TrainedPlace(task, workers, batch_size)


def find_iterations(
    study: Study, scenario: Scenario, place: TrainedPlace, dense: float | None = None
) -> MeasuredIterations:
    """Iterations for a scenario from trainings at one place of their range; `dense` as in `MeasuredIterations`."""
    elements = {recipe.elements for recipe in study.laws if recipe.task == place.task}
    return MeasuredIterations(study, place, elements == {scenario.workload.numel}, dense)
