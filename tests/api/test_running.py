"""`run` takes a scenario in every form, gives what the command gives, and says what is wrong in one line a problem."""

import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import answered, run_python
from hypothesis import given, settings
from hypothesis import strategies as st
from places import ROOT

import simulator
from simulator.scenario.reading import load
from simulator.sparsifiers.topk import TopK

SMALL = {
    "workload": {
        "batch_size": 1, "layers": [{"name": "all", "numel": 25_000_000, "forward": 0.01, "backward": "20 ms"}],
    },
    "cluster": {
        "nodes": 4, "gpu": "gpus/ideal", "runtime": "runtimes/ideal",
        "network": {"kind": "single_switch", "bandwidth": 1.25e9, "latency": "50 us"},
    },
    "topology": "ring",
    "sparsifier": "dense",
    "scheduler": "sequential",
}  # fmt: skip


def test_the_function_answers_as_the_command_does():
    answer = answered("run", "quickstart", "--set", "cluster.nodes=16")
    assert answer == simulator.run("quickstart", **{"cluster.nodes": 16}).to_dict()


def test_every_form_of_a_scenario_gives_the_same_prediction(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text((ROOT / "scenarios" / "ring_check.yaml").read_text())
    expected = simulator.run("ring_check").document
    assert all(simulator.run(form).document == expected for form in [str(path), path, load("ring_check")])
    whole = simulator.run(load("ring_check").resolved())  # which states what was assumed
    assert (whole.iteration_time, whole.document["digest"]) == (expected["iteration_time_s"], expected["digest"])


def test_a_scenario_is_changed_as_its_file_is():
    overrides = {"cluster.nodes": 16, "sparsifier.density": 0.01}
    changed, filed = load(load("quickstart"), overrides), load("quickstart", overrides)
    assert changed.digest == filed.digest and changed.name == filed.name.replace("(quickstart with", "(with")
    assert simulator.run(changed, name="same").document == simulator.run(filed, name="same").document


def test_a_mapping_holds_numbers_in_si_and_texts_with_units():
    assert simulator.run(SMALL).iteration_time == pytest.approx(0.03 + 2 * 3 * (50e-6 + 25e6 / 1.25e9), rel=1e-9)


@pytest.mark.parametrize(
    "overrides",
    [
        {"cluster.nodes": 16, "sparsifier.density": 0.01},
        {"cluster": {"nodes": 16}, "sparsifier": {"density": "1 %"}},
        {"cluster": {"nodes": np.int64(16)}, "sparsifier": {"kind": "topk", "density": np.float32(0.01)}},
        {"cluster.nodes": 16, "sparsifier": TopK(density=0.01)},
    ],
)
def test_overrides_may_be_dotted_or_nested_or_specs(overrides):
    made = load("quickstart", overrides)
    assert made.cluster == load("quickstart", ("cluster.nodes=16", "sparsifier.density=0.01")).cluster
    assert made.sparsifier.density == pytest.approx(0.01, rel=1e-6)
    assert made.cluster.gpu == load("quickstart").cluster.gpu


def test_a_mapping_with_a_kind_takes_the_place_of_a_part_and_any_other_changes_its_keys():
    whole = load("ring_check", {"cluster": {"network": {"kind": "single_switch", "bandwidth": 1e9}}})
    assert (whole.cluster.network.bandwidth, whole.cluster.network.latency) == (1e9, 0.0)
    changed = load("ring_check", {"cluster": {"network": {"bandwidth": 1e9}}})
    assert (changed.cluster.network.bandwidth, changed.cluster.network.latency) == (1e9, pytest.approx(50e-6))


def test_numbers_are_si_in_overrides_of_a_file_but_not_in_the_file_itself(tmp_path):
    text = (ROOT / "scenarios" / "ring_check.yaml").read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("bandwidth: 10 Gbit/s", "bandwidth: 10"))
    with pytest.raises(simulator.InputError, match="with its unit"):
        simulator.run(path, cluster={"nodes": 2})
    assert simulator.run(path, cluster={"network": {"bandwidth": 1.25e9}}).iteration_time > 0


def test_what_changed_is_in_the_name():
    assert simulator.run(SMALL, name="mine", cluster={"nodes": 2}).name == "mine"
    two = simulator.run(SMALL, cluster={"nodes": 2})
    assert two.name == "unnamed, dense, 2 GPUs over 10 Gbit/s (with cluster.nodes=2)"


def test_versus_works_in_every_form():
    asked = {**SMALL, "versus": {"cluster.network.bandwidth": 1.25e8}}
    verdict = simulator.run(asked).verdict
    assert (verdict.word, verdict.speed_up) == ("yes", pytest.approx((0.03 + 6 * 0.20005) / (0.03 + 6 * 0.02005)))
    assert simulator.run(load(asked)).verdict == verdict
    assert simulator.run(SMALL, versus={"cluster.network.bandwidth": "1 Gbit/s"}).verdict.word == "yes"
    assert simulator.run(SMALL).verdict is None


@pytest.mark.parametrize(
    ("source", "overrides", "message"),
    [
        ("quickstar", {}, "no scenario named 'quickstar' .*: did you mean 'quickstart'"),
        (5, {}, "scenario: expected the name or path of a scenario, a mapping or a Scenario, got 5"),
        (None, {}, "got null"),
        ({}, {}, "the scenario: workload: expected this key, got nothing"),
        ("quickstart", {"nodes": 4}, r"^nodes: expected a known key, got 'nodes': did you mean 'cluster\.nodes'"),
        ("quickstart", {"density": 0.1}, r"did you mean 'sparsifier\.density'"),
        ("quickstart", {"bandwidth": 1}, r"did you mean 'cluster\.network\.bandwidth'"),
        ("quickstart", {"cluster": {"nodse": 4}}, r"cluster\.nodse: .*did you mean 'nodes'"),
        ("quickstart", {"cluster": {5: 4}}, "cluster: expected keys that are texts, got 5"),
        ("quickstart", {"cluster.nodes.x": 4}, r"^cluster\.nodes\.x: expected a mapping at cluster\.nodes, got 8"),
        ("quickstart", {"sparsifier": {"kind": "topkk"}}, "did you mean 'topk'"),
        ("quickstart", {"cluster": {"network": {"bandwidth": float("inf")}}}, "a finite number"),
        ("quickstart", {"cluster": {"nodes": 10**400}}, "cluster.nodes"),
        ("quickstart", {"sparsifier": object()}, "sparsifier: expected a sparsifier"),
    ],
)
def test_wrong_input_is_an_input_error(source, overrides, message):
    with pytest.raises(simulator.InputError, match=message):
        simulator.run(source, **overrides)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(key=st.sampled_from(["cluster", "workload", "sparsifier", "topology", "seed", "versus", "x"]), value=JUNK)
def test_anything_else_is_an_input_error_too(key, value):
    try:
        load(SMALL, {key: value})
        load({**SMALL, key: value})
    except simulator.InputError as error:
        assert str(error)


def test_quick_intervals_compare_with_nothing():
    quick, none = (simulator.run("quickstart", intervals=word) for word in ("first_order", "none"))
    assert quick.iteration_time == none.iteration_time == simulator.run("quickstart").iteration_time
    assert quick.verdict is None and quick.interval[0] < none.interval[0] <= none.interval[1] < quick.interval[1]
    assert simulator.run("quickstart", intervals=False).document == none.document
    with pytest.raises(simulator.InputError, match="did you mean 'first_order'"):
        simulator.run("quickstart", intervals="firstorder")


def test_a_notebook_shows_problems_without_a_traceback():
    with pytest.raises(simulator.InputError) as caught:
        simulator.run("quickstar")
    assert caught.value._render_traceback_() == [f"InputError: {caught.value}"]


def test_old_calls_still_work():
    result = simulator.run(simulator.load("ring_check", ("cluster.nodes=4",)), keep_iterations=True)
    assert result.document["iteration_time_s"] == result.iteration_time and result.iterations
    assert result.plan is not None


def test_python_files_of_other_folders_find_their_scenario(tmp_path):
    (tmp_path / "mine.yaml").write_text((ROOT / "scenarios" / "ring_check.yaml").read_text())
    code = "import simulator; print(simulator.run('mine').name)"
    done = run_python("-c", code, cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": str(Path(sys.executable).parent)})
    assert done.stdout == "ring check\n"
