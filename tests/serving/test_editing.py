"""Changes to the text of a scenario: in place where that is possible, and the same data in any case."""

import pytest
from places import ROOT

from simulator.errors import InputError
from simulator.scenario.reading import parse_scenario
from simulator.serving.answering import AnswerService
from simulator.serving.forms import change_text, rename

TEXT = (ROOT / "scenarios" / "quickstart.yaml").read_text()


def change(*changes, text=TEXT):
    return change_text(text, list(changes))


def data(text):
    return parse_scenario(text, "scenario").data


def test_a_value_is_replaced_and_every_comment_stays():
    made = change(("sparsifier.density", "0.02"), ("cluster.nodes", "16"))
    assert made == TEXT.replace("density: 0.001", "density: 0.02").replace("nodes: 8", "nodes: 16")


def test_a_value_of_a_named_part_writes_the_part_out():
    made = data(change(("cluster.network.bandwidth", "5 Gbit/s")))
    network = made["cluster"]["network"]
    assert (network["bandwidth"], network["latency"], network["kind"]) == ("5 Gbit/s", "51 us", "single_switch")
    assert made["sparsifier"] == data(TEXT)["sparsifier"]


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [("dgc", {"kind": "dgc", "density": 0.001}), ("signsgd", "signsgd"), ("no such kind", "no such kind")],
)
def test_another_kind_keeps_the_parameters_that_it_knows(kind, wanted):
    assert data(change(("sparsifier.kind", kind)))["sparsifier"] == wanted


def test_a_kind_that_needs_a_density_gets_one():
    again = data(change(("sparsifier.kind", "dense"), ("sparsifier.kind", "topk")))
    assert again["sparsifier"] == {"kind": "topk", "density": 0.01}


def test_another_model_drops_the_measured_step_of_the_one_before():
    assert data(change(("workload", "workloads/vgg16-v100")))["workload"] == {"trace": "workloads/vgg16-v100"}
    short = TEXT.replace("\nworkload:\n", "\nignored:\n") + "workload: workloads/vgg16-v100\n"
    changed = data(change(("workload.batch_size", "8"), text=short))
    assert changed["workload"] == {"trace": "workloads/vgg16-v100", "batch_size": 8}


def test_an_empty_value_removes_its_key():
    assert "batch_size" not in data(change(("workload.batch_size", "")))["workload"]
    assert data(change(("seed", ""))) == data(TEXT)


def test_values_are_scalars_whatever_they_look_like():
    for value in ("[1, 2]", "{a: 1}", "*x", "&a b", "# no", "!!python/object:os.system x", "- 1", "a: b", "'", '"'):
        assert data(change(("sparsifier.density", value)))["sparsifier"]["density"] == value


def test_a_new_name_replaces_name_and_question():
    made = rename(TEXT, "it's: # new")
    assert data(made)["name"] == "it's: # new"
    assert "question" not in data(made)
    assert "# sizes and proportions of a V100 profile" in made
    assert data(rename(TEXT.replace("question: Does", "question: >-\n  Does"), "new")) == data(made) | {"name": "new"}
    assert data(rename("seed: 1\n", "new")) == {"name": "new", "seed": 1}


@pytest.mark.parametrize(
    "changes", [None, "a", [["a"]], [["a", 1]], [["a", "b", "c"]], [["a", "b" * 2000]], [["a", "b"]] * 51]
)
def test_changes_of_another_form_are_refused(changes):
    (part,) = AnswerService({}).parts({"text": TEXT, "changes": changes}, lambda seconds: False)
    assert part["part"] == "problems" and "short changes to it, got" in part["problems"][0]["text"]


@pytest.mark.parametrize("key", ["sparsifier.density.more", "a" * 1001, ".".join("a" * 50)])
def test_keys_that_cannot_be_set_are_refused(key):
    with pytest.raises(InputError):
        change((key, "1"))
