"""`explain`, `advise`, `validate`, `quality` and `sweep` take the same forms of a scenario, and show themselves."""

import json

import pytest
from places import ROOT

import simulator
from simulator.studies.sweep.sweep import sweep as run_sweep_file

VGG = ROOT / "scenarios" / "validation" / "vgg16-8xv100-nvlink"


def test_an_explanation_is_a_document_with_a_table():
    made = simulator.explain("ring_check", cluster={"nodes": 4})
    assert made.to_dict() == json.loads(json.dumps(made.to_dict()))
    assert made.to_frame()["seconds"].sum() == pytest.approx(made.iteration_time)
    assert made.text in repr(made).replace("...>", "") and repr(made).startswith(f"<Explanation {made.scenario}; ")
    assert len(repr(made)) < 500 and "<table" in made._repr_html_()


def test_advice_is_a_document_with_a_table():
    made = simulator.advise("ring_check", cluster={"nodes": 1})
    assert made.answer.startswith("One worker exchanges nothing") and made.text == made.answer
    assert len(made.to_frame()) == 1 and len(repr(made)) < 500
    assert "<script" not in simulator.advise("ring_check", name="<script>", cluster={"nodes": 1})._repr_html_()


def test_validation_takes_folders_files_and_scenarios_in_python():
    whole, same, one = (simulator.validate(place) for place in [VGG, str(VGG), *sorted(VGG.glob("*.yaml"))[:1]])
    assert whole.rows == same.rows and len(one.rows) < len(whole.rows)
    assert repr(whole).startswith(f"<Validation {len(whole.rows)} rows; MAPE ")
    scenario = simulator.load("ring_check", {"measured": {"iteration_time": 0.15, "source": "made up"}})
    (row,) = simulator.validate(scenario).rows
    assert (row["measured"], row["group"]) == (0.15, "ring check")
    assert simulator.validate([scenario.resolved()]).rows[0]["predicted"] == row["predicted"]
    with pytest.raises(simulator.InputError, match="at least one scenario with `measured:`"):
        simulator.validate(simulator.load("ring_check"))


def test_quality_without_a_scenario_is_a_document_with_a_table():
    plain = simulator.quality("mlp-digits", "loss 1")
    assert len(repr(plain)) < 500 and len(plain.to_frame()) == len(plain.settings)


@pytest.mark.long
def test_quality_takes_a_scenario_in_every_form():
    asked = {"workers": 8, "batch_size": 32}
    by_name = simulator.quality("mlp-digits", "loss 1", "ring_check", batch_size=32, cluster={"nodes": 8})
    loaded = simulator.load("ring_check", {"cluster": {"nodes": 8}})
    assert by_name == simulator.quality("mlp-digits", "loss 1", loaded, **asked)


def test_a_sweep_of_a_scenario_is_the_sweep_of_a_file(tmp_path):
    vary = {"cluster.nodes": [2, 4], "cluster.network.bandwidth": ["1 Gbit/s", "10 Gbit/s"]}
    made = simulator.sweep("ring_check", vary)
    assert made.equals(run_sweep_file({"base": "ring_check", "vary": vary}, workers=1))
    assert made["cluster.network.bandwidth_bytes_per_s"].tolist() == [1.25e8, 1.25e9] * 2
    assert made.attrs["units"]["cluster.network.bandwidth_bytes_per_s"] == "B/s"
    assert made.attrs["units"]["iteration_time_s"] == "s" and "cluster.nodes" not in made.attrs["units"]
    assert simulator.sweep(simulator.load("ring_check"), vary)["iteration_time_s"].equals(made["iteration_time_s"])
    in_si = {"cluster.nodes": range(2, 5, 2), "cluster.network.bandwidth": (1.25e8, 1.25e9)}
    assert simulator.sweep("ring_check", in_si)["iteration_time_s"].equals(made["iteration_time_s"])


def test_a_sweep_changes_the_scenario_and_keeps_what_is_finished(tmp_path):
    made = simulator.sweep("ring_check", {"cluster.nodes": [2, 4]}, out=tmp_path, seed=3, intervals="none")
    assert made["seed"].tolist() == [3, 3]
    assert (tmp_path / "results.csv").is_file()
    assert made["iteration_time_s"].iloc[1] == simulator.run("ring_check", seed=3, cluster={"nodes": 4}).iteration_time


def test_keys_that_go_together_and_points_that_are_left_out():
    made = simulator.sweep(
        "ring_check",
        {"sparsifier": ["dense", {"kind": "topk", "density": 0.01}]},
        zip=[{"cluster.nodes": [1, 2], "cluster.gpus_per_node": [4, 2]}],
        skip=[{"sparsifier.kind": "topk", "cluster.nodes": 1}],
        verdicts=True,
    )
    assert made["cluster.nodes"].tolist() == [1, 2, 2] and made["workers"].tolist() == [4, 4, 4]
    assert made["density.target"].tolist() == [1, 1, 0.01] and made["verdict"].notna().sum() == 1


@pytest.mark.parametrize(
    ("arguments", "overrides", "message"),
    [
        (("quickstart", {"cluster.nodes": 4}), {}, "sweep: cluster.nodes: expected a list of values, got 4"),
        (("quickstart", {"cluster.nodse": [4]}), {}, "did you mean 'nodes'"),
        (("quickstar", {"cluster.nodes": [4]}), {}, "no scenario named 'quickstar'.*did you mean 'quickstart'"),
        (("density_swep",), {}, "no sweep named 'density_swep'.*did you mean"),
        (({"workload": {}},), {}, "expected a sweep, or a scenario and what varies, got a scenario alone"),
        (("density_sweep",), {"seed": 1}, "expected what varies"),
        ((5,), {}, "expected the name or path of a sweep"),
        (("quickstart", {}), {}, "keys to `vary`"),
    ],
)
def test_wrong_sweeps_are_input_errors(arguments, overrides, message):
    with pytest.raises(simulator.InputError, match=message):
        simulator.sweep(*arguments, **overrides)


@pytest.mark.long
def test_advice_of_a_whole_search_is_short_in_every_form():
    made = simulator.advise("quickstart", iterations_to_target={"dense": 1000, "topk": 1100})
    assert len(repr(made)) < 500 and made._repr_html_().count("<tr>") <= 11
    assert made.iterations_to_target == {"dense": 1000, "topk": 1100}


@pytest.mark.long
def test_answers_do_not_depend_on_how_many_processes_predict():
    assert simulator.validate(VGG, processes=1).rows == simulator.validate(VGG, processes=2).rows
    one, two = (simulator.advise("ring_check", processes=count) for count in (1, 2))
    assert one == two


def test_points_that_failed_are_evaluated_again_where_that_is_asked_for(tmp_path):
    vary = {"sparsifier": ["dense", {"kind": "gtopk", "density": 0.1}], "cluster.nodes": [2, 3]}

    def evaluated(**options):
        table = simulator.sweep("ring_check", vary, out=tmp_path, **options)
        assert table["error"].notna().tolist() == [False, False, False, True]
        return json.loads((tmp_path / "manifest.json").read_text())["evaluated"]

    assert [evaluated(), evaluated(), evaluated(retry_failed=True)] == [4, 0, 1]
