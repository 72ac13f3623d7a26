"""Names, questions and `versus` follow what is set on the command line."""

import pytest
from places import ROOT

from simulator.errors import InputError
from simulator.scenario.reading import load, load_versus

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
