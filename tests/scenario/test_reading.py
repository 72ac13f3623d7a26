"""Names, questions and `versus` follow what is set on the command line."""

import json

import pytest
from places import ROOT

from simulator.errors import InputError
from simulator.scenario.reading import load, load_versus, parse_scenario
from simulator.scenario.scenario import Measured, Scenario

NAME = "ResNet-50, Top-k 0.1 %, 32 GPUs on 10 GbE"


def test_without_overrides_name_and_question_are_those_of_the_file():
    scenario = load("quickstart")
    assert (scenario.name, scenario.question[:19]) == (NAME, "Does Top-k 0.1 % pa")


def test_a_title_that_may_no_longer_hold_is_made_from_the_scenario_and_tells_the_overrides():
    scenario = load("quickstart", ("cluster.nodes=16", "sparsifier=dense"))
    title = "resnet50, dense, 64 GPUs over 9.394 Gbit/s (quickstart with cluster.nodes=16, sparsifier=dense)"
    assert (scenario.name, scenario.question) == (title, "")


def test_a_file_without_a_name_gets_a_title(tmp_path):
    lines = (ROOT / "scenarios" / "ring_check.yaml").read_text().splitlines(keepends=True)
    (tmp_path / "mine.yaml").write_text("".join(line for line in lines if not line.startswith("name:")))
    assert load(tmp_path / "mine.yaml").name == "unnamed, dense, 8 GPUs over 10 Gbit/s"
    changed = load(tmp_path / "mine.yaml", ("cluster.nodes=1", "sparsifier={kind: topk, density: 0.5}")).name
    assert changed.startswith("unnamed, topk 0.5, 1 GPU (mine with cluster.nodes=1, sparsifier={")


@pytest.mark.parametrize("item", ["cluster.nodes=8", "versus=none", "versus={sparsifier: qsgd}"])
def test_what_the_prediction_does_not_depend_on_changes_neither(item):
    scenario = load("quickstart", (item,))
    assert (scenario.name, scenario.question) == (NAME, load("quickstart").question)
    assert scenario.digest == load("quickstart").digest


def test_a_name_and_a_question_that_are_set_are_kept():
    scenario = load("quickstart", ("cluster.nodes=16", "name=mine", "question=Mine?"))
    assert (scenario.name, scenario.question) == ("mine", "Mine?")


def test_a_long_value_is_shortened_in_the_name():
    workers = ", ".join(f"{{worker: {n}, factor: 1.5}}" for n in range(9))
    name = load("straggler", (f"cluster.stragglers.slow=[{workers}]",)).name
    assert name.endswith("...)")
    assert len(name) < 130


def test_versus_can_be_set_too():
    assert load_versus("quickstart") is None
    other = load_versus("quickstart", ("versus={sparsifier: dense}", "cluster.nodes=2"))
    assert (other.sparsifier.kind, other.cluster.nodes) == ("dense", 2)
    assert other.scheduler == load("quickstart").scheduler


def test_a_mistake_is_reported_where_its_value_stands(tmp_path):
    """Not at the line of the key that it replaces."""
    path = tmp_path / "own.yaml"
    path.write_text(
        (ROOT / "scenarios" / "failover.yaml").read_text().replace("{cluster.links: []}", "{cluster.nodes: -1}")
    )
    with pytest.raises(InputError, match=r"own.yaml:10:1: versus: cluster.nodes: expected at least 1, got -1"):
        load_versus(path)
    for set_by, where in ((("cluster.nodes=-1",), "^--set "), ({"cluster.nodes": -1}, "^overrides: ")):
        with pytest.raises(InputError, match=f"{where}cluster.nodes: expected at least 1, got -1"):
            load("quickstart", set_by)
    with pytest.raises(InputError, match=r"^--set versus: cluster.nodes: expected at least 1, got -1"):
        load_versus("quickstart", ("versus={cluster.nodes: -1}",))


@pytest.mark.parametrize(("value", "got"), [("best_dens", "'best_dens'"), ("3", "3"), ("[dense]", r"\['dense'\]")])
def test_anything_else_is_refused_in_one_line(value, got):
    with pytest.raises(InputError, match=rf"versus: expected a mapping .*, `best_dense` or `none`, got {got}") as error:
        load("quickstart", (f"versus={value}",))
    assert len(error.value.problems) == 1


SMALL = {
    "workload": {"batch_size": 1, "layers": [{"name": "all", "numel": 10}]},
    "cluster": {"nodes": 8, "gpu": "gpus/ideal", "network": {"kind": "single_switch", "bandwidth": 1e9}},
    **{"topology": "ring", "sparsifier": "dense", "scheduler": "wfbp", "name": "small", "versus": "none"},
}
TIMED = {"iteration_time": 0.2, "source": "a clock"}


def test_a_measurement_is_of_the_scenario_in_which_it_stands_whatever_is_changed_later():
    """Unless it says `at` which values it was taken; one that is set with a change is of what is changed."""
    plain, at_two = SMALL | {"measured": TIMED}, SMALL | {"measured": TIMED | {"at": {"cluster.nodes": 2}}}
    given = Scenario.model_validate(plain), Scenario.model_validate(at_two)
    for source, nodes in zip((plain, at_two, *given), (8, 2, 8, 2), strict=True):
        found = [load(source), load(source, {"cluster.nodes": 4}), load(load(source), {"cluster.nodes": 4})]
        assert [each.cluster.nodes for each in found] == [8, 4, 4]
        for each in found:
            at = each.measured.at
            assert (at.cluster.nodes, at.measured, at.versus, at.name) == (nodes, None, None, "small")
            assert load(json.loads(json.dumps(each.resolved()))).measured.at.cluster.nodes == nodes
    changed = load(plain, {"cluster.nodes": 4, "measured": TIMED | {"at": {"sparsifier": "qsgd"}}}).measured.at
    assert (changed.cluster.nodes, changed.sparsifier.kind) == (4, "qsgd")
    assert load(SMALL | {"measured": {"source": "nobody"}}).measured.at == {}
    fitted, shares = TIMED | {"used_in_fit": True}, {"source": "a clock", "density_selected": 0.1}
    found = [load(SMALL | {"measured": item}).narrowing for item in (TIMED, fitted, shares)]
    assert [item is not None for item in found] == [True, False, False]
    with pytest.raises(InputError, match=r"measured.at: cluster.nodes: expected at least 1, got 0"):
        load(SMALL | {"measured": TIMED | {"at": {"cluster.nodes": 0}}})


def test_a_fold_is_refused_where_a_link_changes_and_a_text_without_keys_by_its_name():
    link = {"link": "node 0 NIC", "factor": 0.5}
    assert load(SMALL, {"fidelity": "fold", "cluster.links": [link]}).fidelity == "fold"
    for change in ({"start": 1.0}, {"until": 1.0}, {"factor": 0.0}):
        with pytest.raises(InputError, match="expected fidelity auto or flows, got fold: node 0 NIC changes while"):
            load(SMALL, {"fidelity": "fold", "cluster.links": [link | change]})
    with pytest.raises(InputError, match=r"^mine"):
        parse_scenario("- 1", "mine")


def test_a_baseline_has_the_notes_of_nobody_and_the_measurement_of_its_scenario():
    other = load_versus(SMALL | {"measured": TIMED, "question": "Why?", "versus": {"cluster.nodes": 4}})
    assert (other.name, other.question, other.cluster.nodes, other.measured.at.cluster.nodes) == ("versus", "", 4, 8)


def test_values_from_python_change_keys_below_a_part_or_take_its_place():
    made = load(
        SMALL, {"cluster": {"nodes": 4, "network": {"latency": 1e-3}}, "sparsifier": {"kind": "topk", "density": 0.5}}
    )
    assert (made.cluster.nodes, made.cluster.network.bandwidth, made.cluster.network.latency) == (4, 1e9, 1e-3)
    assert (made.sparsifier.density, load(SMALL, {"cluster.network": {"bandwidth": 2e9}}).cluster.nodes) == (0.5, 8)
    layers = load(SMALL, {"workload": {"batch_size": 2, "layers": [{"name": "one", "numel": 3}]}}).workload
    assert (layers.numel, layers.batch_size) == (3, 2)
    again = load(load(SMALL), {"cluster.nodes": 4})  # what nobody stated stays so
    assert "optimiser" not in again.workload.model_fields_set and again.cluster.model_fields_set == {*SMALL["cluster"]}
    for wrong, said in (
        ({1: 2}, "the scenario: expected keys that are texts, got 1"),
        ({"cluster": {"": 2}}, "cluster: exp"),
    ):
        with pytest.raises(InputError, match=said):
            load(SMALL, wrong)
    with pytest.raises(InputError, match="expected the name or path of a scenario, a mapping or a Scenario, got 3"):
        load(3)


def test_a_share_of_exposed_communication_is_that_of_the_iteration():
    shares = {"communication_exposed": 0.5, "iteration_time": 3.0, "source": "a clock"}
    assert Measured(**shares).stated == {"iteration_time": 3.0, "exposed_communication": 1.5}
    assert Measured(**shares, exposed_communication=1.529).stated["exposed_communication"] == 1.5
    for values, said in (
        ({"iteration_time": None}, "`iteration_time` beside the share `communication_exposed`, got none"),
        ({"exposed_communication": 1.531}, "they do not say the same"),
        (
            {"used_in_fit": ["update"]},
            "quantities that are stated, got update: valid: exposed_comm",
        ),
    ):
        with pytest.raises(ValueError, match=said):
            Measured(**shares | values)
