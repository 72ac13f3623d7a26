"""Efficiencies of tensor cores, fitted to whole trainings."""

from collections import Counter

import pytest
from places import ROOT

from simulator.calibration.operators import TimedOperators
from simulator.errors import InputError
from simulator.hardware.operator_times import TensorCores, shipped_operator_rates
from simulator.models.operators import Operator, product
from simulator.records import replace
from simulator.scenario.named_parts import read_gpu
from simulator.scenario.reading import load
from simulator.studies.fit.tensor_cores import fit_tensor_cores, read_trainings
from simulator.studies.validate.measured_rows import read_measured

DEVICES = {"gpus/a100-80gb": 0.35, "gpus/h100": 0.25}
EACH = 1.2e-12


def made_trainings(noise=()):
    """Trainings of six models on two GPUs, with the times of known rates; `noise`: factors on the first ones."""
    gpus = {name: read_gpu(name) for name in DEVICES}
    cores = {
        gpus[name].device: TensorCores(gpus[name].product_share, early, 1.0, 1, "") for name, early in DEVICES.items()
    }
    known = replace(shipped_operator_rates(), matrix_byte=EACH, tensor_devices=cores)
    made = []
    for name in DEVICES:
        for width in (1024, 1536, 2048, 3072, 4096, 5120):
            attention = Operator("attention", "attention", 1.0, 64, 2048, 1024, 128, attention="flash1")
            operators = Counter({product("p", 8192, width, 4 * width, 2): 96, attention: 100})
            one = TimedOperators(read_gpu(name), "bf16", f"{name} {width}", operators, 0.01, 1.0)
            made.append(replace(one, seconds=one.predicted(known)))
    return [replace(item, seconds=factor * item.seconds) for item, factor in zip(made, noise, strict=False)] or made


def test_known_rates_are_found_again():
    found = fit_tensor_cores(made_trainings(), shipped_operator_rates(), "made")
    assert found.matrix_byte == pytest.approx(EACH, rel=1e-3)
    for name, early in DEVICES.items():
        cores, value = found.tensor_devices[read_gpu(name).device], read_gpu(name).product_share
        assert (cores.value, cores.early_attention) == pytest.approx((value, early), rel=1e-3)
        assert cores.count == 6 and cores.width < 1.01 and cores.source.startswith("made on ")
    assert found.tensor_devices[read_gpu("gpus/a100-80gb").device].attention is None
    assert (cores.attention, cores.late_attention) == pytest.approx((0.35 / value, 0.56 / value), rel=1e-3)


def test_attention_of_the_second_generation_is_fitted_after_all_else():
    """To trainings on another variant of the GPU, with the rates of products as they are without these."""
    made = made_trainings()
    before, device = fit_tensor_cores(made, shipped_operator_rates(), "made"), read_gpu("gpus/h100").device
    slower = replace(before.tensor_devices[device], attention=0.3)
    known = replace(before, tensor_devices={**before.tensor_devices, device: slower})
    for width in (1024, 4096):
        operators = Counter({Operator("attention", "attention", 1.0, 64, 8192, width, 128): 96})
        one = TimedOperators(read_gpu("gpus/h100-500w"), "bf16", f"variant {width}", operators, 0.01, 1.0)
        made.append(replace(one, seconds=one.predicted(known)))
    found = fit_tensor_cores(made, shipped_operator_rates(), "made")
    assert found.tensor_devices[device].attention == pytest.approx(0.3, rel=1e-3)
    kept = (before.matrix_byte, slower.early_attention)
    assert (found.matrix_byte, found.tensor_devices[device].early_attention) == pytest.approx(kept, rel=1e-6)


def test_a_training_that_was_slowed_down_by_something_else_changes_little():
    found = fit_tensor_cores(made_trainings([*[1] * 5, 1.3, *[1] * 6]), shipped_operator_rates(), "made")
    h100 = found.tensor_devices[read_gpu("gpus/h100").device]
    assert found.matrix_byte == pytest.approx(EACH, rel=0.1)
    assert found.tensor_devices[read_gpu("gpus/a100-80gb").device].width > h100.width


@pytest.mark.long
def test_shipped_rates_are_what_the_validation_rows_give():
    folders = [
        ROOT / "scenarios" / "validation" / name
        for name in ("8xa100-mpt-fsdp", "h100-mpt-fsdp", "h100-torchtitan-fsdp")
    ]
    shipped = shipped_operator_rates()
    found = fit_tensor_cores(read_trainings(read_measured(folders).samples), shipped, "")
    assert found.matrix_byte == pytest.approx(shipped.matrix_byte, rel=0.01)
    for name, cores in shipped.tensor_devices.items():
        fitted = found.tensor_devices[name]
        assert (fitted.value, fitted.early_attention) == pytest.approx((cores.value, cores.early_attention), rel=0.01)
        assert fitted.width == pytest.approx(cores.width, rel=0.01) and fitted.count == cores.count
        assert fitted.attention == (cores.attention and pytest.approx(cores.attention, rel=0.01))


def test_scenarios_without_such_trainings_are_refused():
    with pytest.raises(InputError, match="at least one training to fit to"):
        read_trainings([load("quickstart")])
