"""The slowdown of compute where nobody measured it: from set-ups that were, each predicted from the others."""

import pytest
from pydantic import ValidationError
from validation_rows import row_of

from simulator.hardware.runtime import Runtime
from simulator.hardware.slowdown import MEASURED, MeasuredSlowdown, estimate_slowdown, spread_between_models
from simulator.prediction.run import run
from simulator.scenario.changes import with_value


def setups(*values):
    return tuple(MeasuredSlowdown(str(value), value, "") for value in values)


def test_the_estimate_is_the_middle_and_its_width_holds_every_setup_left_out():
    assert estimate_slowdown(setups(0.5, 0.6, 1.0)) == pytest.approx((0.6, max(0.3 / 0.8, 0.15 / 0.75, 0.45 / 0.55)))
    value, width = estimate_slowdown(setups(*[0.5] * 19, 5.0))
    assert (value, width) == (0.5, 0)  # one in twenty may be outside


@pytest.mark.parametrize(
    ("group", "name", "runtime"),
    [
        ("16xv100-10gbe-mgwfbp", "Inception-v4, WFBP, all-reduce, 16 V100 on 10 GbE", "Inception-v4"),
        ("8xv100-grace", "ResNet-50, dense, 2 V100 on 10 GbE, NCCL", "TensorFlow 1"),
    ],
)
def test_measured_setups_are_what_their_runtimes_say(group, name, runtime):
    (item,) = [item for item in MEASURED if runtime in item.setup]
    assert row_of(group, name).cluster.runtime.compute_slowdown == pytest.approx(item.slowdown)
    bert = row_of("rtx2080ti-100gib-allreduce", "BERT-Base, WFBP, all-reduce, 8 GPUs on 100 Gb InfiniBand")
    assert bert.workload.compute_slowdown == next(item.slowdown for item in MEASURED if "BERT" in item.setup)


def test_a_number_is_taken_as_it_is_and_auto_is_the_estimate_with_its_width():
    assert (Runtime().compute_slowdown, Runtime().slowdown_width) == (0, 0)
    stated = Runtime.model_validate({"compute_slowdown": "40 %"})
    assert (stated.compute_slowdown, stated.slowdown_width) == (0.4, 0)
    estimated = Runtime.model_validate({"compute_slowdown": "auto"})
    assert (estimated.compute_slowdown, estimated.slowdown_width) == estimate_slowdown()
    assert Runtime.model_validate_json(estimated.model_dump_json()) == estimated
    with pytest.raises(ValidationError, match="or `auto`"):
        Runtime.model_validate({"compute_slowdown": "atuo"})


@pytest.mark.long
def test_resnet50_on_2080_ti_is_slowed_by_what_its_overlapped_rows_show():
    groups = {
        "rtx2080ti-100gib-allreduce": ("WFBP, all-reduce", "MG-WFBP, all-reduce"),
        "rtx2080ti-100gib-ps": ("WFBP, parameter server",),
    }
    rows = [
        row_of(group, f"ResNet-50, {method}, {workers} GPUs on 100 Gb InfiniBand")
        for group, methods in groups.items()
        for method in methods
        for workers in (8, 16)
    ]

    def squares(slowdown):
        changed = [with_value(row, "cluster.runtime.compute_slowdown", slowdown) for row in rows]
        times = [run(with_value(row, "measured", None)).document["iteration_time_s"] for row in changed]
        return sum((time / row.measured.iteration_time - 1) ** 2 for time, row in zip(times, rows, strict=True))

    stated = next(item.slowdown for item in MEASURED if item.setup.startswith("ResNet-50 on RTX"))
    assert squares(stated) < min(squares(0.0), squares(stated + 0.02))


def test_another_model_on_the_same_gpu_may_be_off_by_what_models_there_differ():
    def on(gpu, *values):
        return tuple(MeasuredSlowdown(str(value), value, "", gpu) for value in values)

    assert spread_between_models(on("a", 0.5, 0.7)) == pytest.approx(0.2)
    assert spread_between_models(on("a", 0.5, 0.7) + on("b", 9.0)) == pytest.approx(0.2)  # the only model of its GPU
    assert spread_between_models() == pytest.approx(0.79 - 0.01)
