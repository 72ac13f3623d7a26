"""Changes to the text of a scenario: in place where that is possible, and the same data in any case."""

import pytest
from places import ROOT

from simulator.component import discover
from simulator.errors import InputError
from simulator.scenario.reading import load, parse_scenario
from simulator.serving.answering import AnswerService
from simulator.serving.forms import change_text, form_of, rename, values_of
from simulator.sparsifiers.base import Sparsifier

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


def form(text=TEXT, *keys):
    """The form of a text, and its values."""
    made, scenario = data(text), load("quickstart", keys)
    found = form_of(made, scenario)
    return found, values_of(found, made, scenario)


def test_a_field_is_entered_as_its_schema_says_and_shows_what_the_text_leaves_open():
    found, shown = form()
    assert [field.control for field in found.main] == [*["choice", "number"] * 2, *["choice"] * 5]
    kinds = {field.key: field for field in found.main if field.key.endswith(".kind")}
    assert kinds["sparsifier.kind"].choices == tuple(discover(Sparsifier)) and not kinds["scheduler.kind"].optional
    assert "traces/resnet-digits" in found.main[0].choices and "gpus/v100" in found.main[2].choices
    ends = [(field.key, field.least, field.most, field.unit) for field in found.sliders]
    assert ends == [
        ("cluster.network.bandwidth", 1.25e6, 1.25e11, "bandwidth"), ("cluster.nodes", 1, 1024, "count"),
        ("sparsifier.density", 1e-5, 1, "share"),
    ]  # fmt: skip
    groups = {
        title: {field.key.rpartition(".")[2]: field for field in fields} for title, fields in found.groups.items()
    }
    assert [groups["Software"][key].control for key in ("framework", "negotiation", "fills_buckets")] == [
        "choice", "text", "switch",
    ]  # fmt: skip
    assert groups["Cluster"]["jitter"].label == "stragglers jitter" and not groups["Cluster"]["rate"].optional
    assert found.main[3].label == "GPUs per node" and {"optimiser", "image"} < groups["Model"].keys()
    described = {"model": "gpt2", "batch_size": 1, "layers": 2, "hidden": 8, "heads": 2}
    needed = {field.key: not field.optional for field in form_of({"workload": described}, None).groups["Model"]}
    assert needed["workload.hidden"] and not needed["workload.vocabulary"] and "workload.image" not in needed
    assert groups["Network"]["nics_per_gpu"].label == "NICs per GPU" and groups["Network"]["latency"].example
    others = {field.key for fields in found.groups.values() for field in fields}
    assert not others & {field.key for field in (*found.main, *found.sliders)}
    assert shown["workload.compute_time"] == {"text": "252.9 ms", "shown": "252.9 ms", "si": 0.2529}
    assert shown["cluster.network.bandwidth"] == {"text": "", "shown": "9.394 Gbit/s", "si": 1.1743e9}
    assert (shown["workload"]["text"], shown["cluster.gpu"]["text"]) == ("workloads/resnet50-v100", "gpus/rtx2080ti")
    assert shown["sparsifier.kind"]["about"].startswith("Exact Top-k") and shown["seed"]["text"] == ""


def test_of_one_node_the_bandwidth_inside_counts_and_fewer_nodes_of_many_gpus_are_offered():
    inside = ("cluster.nodes=1", "cluster.network.intra_node={bandwidth: 10 GB/s}", "sparsifier=dense")
    one, other = form(TEXT, *inside)[0].sliders
    assert (one.key, one.label) == ("cluster.network.intra_node.bandwidth", "bandwidth inside a node")
    assert other.most == 1024
    assert form(TEXT, "cluster.gpus_per_node=8")[0].sliders[1].most == 512
    _, shown = form(change(("cluster.network.latency", "5 us")))
    assert shown["cluster.network"]["text"].startswith("written out in the text: 10 GbE")


def test_what_was_measured_stays_that_of_the_text_as_it_was_first_written():
    """Also of keys that it does not state, or that are removed."""
    measured = TEXT + "measured: {iteration_time: 560 ms, source: a timer}\n"
    changes = [("fidelity", "flows"), ("cluster.nodes", "16"), ("workload.compute_time", "")]
    for count in range(1, len(changes) + 1):
        once, one_by_one = change(*changes[:count], text=measured), measured
        for each in changes[:count]:
            one_by_one = change(each, text=one_by_one)
        assert once == one_by_one
        found = load(data(rename(once, "new")))
        assert found.digest != found.measured.at.digest == load("quickstart").digest
        if count == 2:
            assert found.digest == load(data(measured), ("fidelity=flows", "cluster.nodes=16")).digest
