"""The answer of `quality`: what trainings took to a target, and the time that it takes, with units and meanings."""

from __future__ import annotations

from typing import Annotated

from simulator.answers import Answer, Interval, in_json, says
from simulator.prediction.result_parts import Word
from simulator.trainings.runs import MethodCurve


class TrainedTask(Answer):
    """A task that was trained."""

    name: Annotated[str, says("a task that was trained")]
    elements: Annotated[int, says("its trainable parameters", "1")]


class TrainedSetting(Answer):
    """Where trainings were made."""

    task: Annotated[str, says("the task")]
    method: Annotated[str, says("method with its density")]
    density: Annotated[float, says("its density; 1 for a method that has none", "1")]
    workers: Annotated[int, says("workers", "1")]
    batch_size: Annotated[int, says("samples of each worker in an iteration", "1")]


class SettingSteps(TrainedSetting):
    """What the trainings of a setting took."""

    iterations_to_target: Annotated[float | None, says("typical iterations; null where no training reached it", "1")]
    iterations_to_target_interval: Annotated[
        Interval | None, says("their 90 % interval, by a bootstrap over seeds", "1")
    ]
    reached: Annotated[int, says("trainings that reached the target", "1")]
    trained: Annotated[int, says("trainings in all", "1")]
    iterations_run: Annotated[int, says("iterations within which the others did not reach it", "1")]


class LeftOutSetting(TrainedSetting):
    """What the law says of a setting that was left out."""

    factor: Annotated[float, says("measured over predicted iterations", "1")]
    inside: Annotated[bool, says("whether the 90 % interval holds the iterations that were measured")]


class LeftOutErrors(Answer):
    """What a law says of settings inside of what remains when they are left out."""

    settings: Annotated[int, says("settings inside of what remains when they are left out", "1")]
    median_factor: Annotated[float | None, says("the middle factor between measured and predicted ones there", "1")]
    inside: Annotated[int, says("how many of them the 90 % interval holds", "1")]
    rows: list[LeftOutSetting]


class TrainingLaw(Answer):
    """The law of iterations between settings."""

    task: Annotated[str, says("the task")]
    method: Annotated[str, says("the method")]
    form: Annotated[str, says("the law of iterations to the target, with B = workers x batch")]
    factors: Annotated[dict[str, float], says("the factors of the law", "1")]
    range: Annotated[
        dict[str, Interval], says("lowest and highest density, workers and batch that were run; refused outside", "1")
    ]
    width: Annotated[float, says("the factor within which it is right in nine of ten cases", "1")]
    left_out: LeftOutErrors


class TrainedPlace(Answer):
    """Where in the trainings a scenario is looked up: the task, the workers and the batch of a worker."""

    task: Annotated[str, says("the task at which iterations are looked up in the trainings")]
    workers: Annotated[int, says("the workers there", "1")]
    batch_size: Annotated[int, says("the batch of a worker there", "1")]


class MethodTime(
    Answer,
    kw_only=True,
    rename=in_json(time=("iteration_time", "iteration_time_interval", "time_to_target", "time_to_target_interval")),
):
    """A method by its time to the target."""

    method: Annotated[str, says("method with its density")]
    iterations_to_target: Annotated[float, says("iterations to the target", "1")]
    iterations_to_target_interval: Annotated[Interval, says("their 90 % interval: seeds, law, carrying over", "1")]
    iterations_over_dense: Annotated[float, says("iterations over those of dense", "1")]
    iteration_time: Annotated[float, says("predicted time of an iteration", "s")]
    iteration_time_interval: Annotated[Interval, says("its 90 % interval", "s")]
    time_to_target: Annotated[float, says("iterations times the time of one", "s")]
    time_to_target_interval: Annotated[Interval, says("its 90 % interval: both errors", "s")]
    cost: Annotated[float | None, says("GPU-hours to the target times the price; null without a price", "1")]
    cost_interval: Annotated[Interval | None, says("its 90 % interval", "1")]
    speed_up_over_dense: Annotated[float, says("how many times faster than dense to the target", "1")]
    speed_up_interval: Annotated[Interval, says("its 90 % interval; errors that both share cancel", "1")]
    probability: Annotated[float | None, says("probability that it reaches the target before dense", "1")]
    verdict: Annotated[Word | None, says("`yes`, `no`, `alike` or `undecided`: whether it pays; null for dense")]
    answer: Annotated[str, says("that in words")]
    pareto: Annotated[bool, says("whether no other method has both fewer iterations and shorter ones")]


class RefusedMethod(Answer):
    """A method without iterations, or without a prediction."""

    method: Annotated[str, says("a method without iterations or without a prediction")]
    reason: Annotated[str, says("why it has none")]


class TrainingQuality(Answer):
    """What trainings took to a target; on a scenario's cluster also the time that each method takes to it.

    The fields from `scenario` on are None without a scenario.
    """

    trainings: Annotated[str, says("the folder of trainings, or the table of iterations")]
    target: Annotated[str, says("what the trainings are to reach")]
    tasks: list[TrainedTask]
    seed_deviation: Annotated[
        float, says("standard deviation of ln(iterations) between seeds, pooled over settings", "1")
    ]
    settings: list[SettingSteps]
    laws: list[TrainingLaw]
    notes: Annotated[list[str], says("trainings that did not reach the target, and limits of the answer")]
    scenario: Annotated[str | None, says("name of the scenario; this key and those below only with a scenario")] = None
    digest: Annotated[str | None, says("SHA-256 over all that its prediction depends on")] = None
    workers: Annotated[int | None, says("GPUs in all", "1")] = None
    looked_up: TrainedPlace | None = None
    same_model: Annotated[bool | None, says("whether the scenario's model was trained, by its number of elements")] = (
        None
    )
    opponent: Annotated[str | None, says("what dense is, with which all methods are compared")] = None
    methods: list[MethodTime] | None = None
    refused: list[RefusedMethod] | None = None
    answer: Annotated[str | None, says("which method reaches the target first, and how sure that is")] = None
    warnings: Annotated[list[str] | None, says("whose iterations these are, and what was carried over")] = None
    curves: list[MethodCurve] | None = None
