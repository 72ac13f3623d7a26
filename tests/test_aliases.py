"""Every name that people use resolves to what is meant, or the error says which keys are meant."""

import pytest

from simulator.aliases import EXPLAINED, FILES, KINDS, all_aliases, explain
from simulator.component import build, discover, required_fields
from simulator.errors import InputError
from simulator.scenario.catalogue import list_shipped
from simulator.scenario.named_parts import read_part
from simulator.scenario.reading import load
from simulator.schedulers.base import Scheduler
from simulator.sparsifiers.base import Sparsifier
from simulator.studies.start.questions import QUESTIONS, parse_methods

FAMILIES = {"sparsifier": Sparsifier, "scheduler": Scheduler}
ASKED = [
    "1bit_adam",
    "onebit_adam",
    "zero_one_adam",
    "01adam",
    "powersgd_ddp",
    "powerSGD_hook",
    "bucket_cap_mb",
    "fp16_hook",
    "bf16_hook",
    "dgc",
    "top_k",
    "randomk",
    "qgz",
    "qwz",
    "hpz",
    "zero++",
    "zeropp",
    "ddp",
    "fsdp2",
    "zero1",
    "zero2",
    "zero3",
    "deepspeed",
    "a100",
    "h100-sxm",
]


def given(family, written):
    """A member as it is written, with the density that it may need."""
    needs = {"density": 0.01} if "density" in required_fields(discover(FAMILIES[family])[written["kind"]]) else {}
    return {**written, **needs}


@pytest.mark.parametrize(("family", "name"), [(family, name) for family, names in KINDS.items() for name in names])
def test_the_name_of_a_kind_is_as_the_kind_in_a_file_and_in_an_override(family, name):
    meant = given(family, KINDS[family][name])
    others = {key: value for key, value in meant.items() if key not in KINDS[family][name]}
    for spelled in (name, name.upper(), name.replace("_", "-")):
        assert build(FAMILIES[family], {"kind": spelled, **others}) == build(FAMILIES[family], meant)
    source = {"workload": "resnet50-v100", "cluster": {"nodes": 2, "gpu": "h100-sxm", "network": "10gbe-tcp"}}
    source |= {"topology": "ring", "sparsifier": "dense", "scheduler": "wfbp", family: {"kind": name, **others}}
    assert getattr(load(source), family) == build(FAMILIES[family], meant)
    written = ", ".join(f"{key}: {value}" for key, value in {"kind": name, **others}.items())
    changed = load("quickstart", (f"{family}={{{written}}}",))
    assert getattr(changed, family) == build(FAMILIES[family], meant)
    assert name not in discover(FAMILIES[family])


@pytest.mark.parametrize(("folder", "name"), [(folder, name) for folder, names in FILES.items() for name in names])
def test_the_name_of_a_file_is_as_the_file(folder, name):
    meant = read_part(FILES[folder][name], folder)
    for spelled in (name, name.upper(), f"{folder}/{name.replace('_', '-')}"):
        assert read_part(spelled, folder) == meant


@pytest.mark.parametrize("name", EXPLAINED)
@pytest.mark.parametrize("place", ["sparsifier=", "scheduler=", "topology="])
def test_what_no_kind_stands_for_is_told_the_keys(name, place):
    with pytest.raises(InputError) as caught:
        load("quickstart", (f"{place}{name}",))
    assert EXPLAINED[name] in str(caught.value)


def test_a_name_in_a_wrong_place_is_told_the_right_one():
    with pytest.raises(InputError, match=r"write `scheduler: \{kind: fsdp, reduce_wire: qgz\}`"):
        load("quickstart", ("sparsifier=qgz",))
    with pytest.raises(InputError, match=r"16-bit travel is `precision: \{travels: fp16\}`"):
        load("quickstart", ("workload.fp16_hook=true",))


def test_a_kind_of_another_family_is_told_its_key():
    with pytest.raises(InputError, match="expected a kind of sparsifier, got diloco: write `scheduler: diloco`"):
        load("quickstart", ("sparsifier=diloco",))
    with pytest.raises(InputError, match="write `topology: ring`"):
        parse_methods("--method", "ring, dense")


@pytest.mark.parametrize("name", FILES["runtimes"])
def test_a_first_scenario_knows_the_frameworks_by_their_names(name):
    (question,) = [each for each in QUESTIONS if each.key == "framework"]
    assert question.read(name.upper(), {}).name == f"runtimes/{FILES['runtimes'][name]}"


@pytest.mark.parametrize("name", ASKED)
def test_names_that_were_asked_for_resolve_or_explain(name):
    known = {item.name.lower() for item in all_aliases()} | {*discover(Sparsifier)}
    if name in ("a100", "h100-sxm"):
        assert read_part(name, "gpus").memory_size
    elif name == "deepspeed":
        with pytest.raises(InputError, match="kind: zero, stage: 1"):
            load("quickstart", ("scheduler=deepspeed",))
    else:
        assert name.lower() in known or explain(name)


def test_all_are_listed():
    assert {row["name"] for row in list_shipped("aliases")} == {item.name for item in all_aliases()}
    assert all(row["what"] for row in list_shipped("aliases"))
