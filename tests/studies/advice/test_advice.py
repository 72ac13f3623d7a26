"""Advice: the ranking, the answer, the reasons, and what the command prints."""

import json
import math
import re
import shlex
from types import SimpleNamespace

import pytest
from command_line import answered, printed, refused
from in_json import in_json
from made_trainings import write_study
from printed import lines_of
from small_advice import CARD, DENSE, IDEAL, LAYERS, SMALL, TOPK, scenario

from simulator.answers import keys_of, read_answer
from simulator.errors import InputError, Problem
from simulator.prediction.run import run
from simulator.progress import Watch
from simulator.records import replace
from simulator.reporting.answers.advised import MethodAdvice
from simulator.reporting.answers.explained import Sensitivity, Slope
from simulator.reporting.wording.advice import advice_blocks, full_advice_blocks
from simulator.scenario.changes import with_value
from simulator.scenario.reading import load
from simulator.studies.advice import advice as of_advice
from simulator.studies.advice.advice import advise
from simulator.studies.advice.candidates import Candidate, Grid, read_iterations
from simulator.studies.quality.iterations import find_iterations, find_place
from simulator.studies.quality.observations import Target
from simulator.studies.quality.study import read_study
from simulator.units import show_time

advise = in_json(advise)

FEW_CANDIDATES = replace(SMALL, methods=SMALL.methods[:3], left_out=("needy: parameters of their own",))


@pytest.fixture(scope="module")
def small():
    return advise(scenario(bandwidth=1e7), grid=SMALL, whole=False)


def test_the_ranking_is_sorted_and_as_predicted(small):
    times = [row["iteration_time_s"] for row in small["ranking"]]
    assert times == sorted(times) and [row["rank"] for row in small["ranking"]] == list(range(1, len(times) + 1))
    spec = scenario(bandwidth=1e7)
    yours = next(row for row in small["ranking"] if not row["overrides"])
    assert yours["iteration_time_s"] == run(spec).document["iteration_time_s"] and small["yours"] == yours
    assert {row["method"] for row in small["ranking"] if row["best_of_method"]} == {
        "topk 0.01", "dense", "randomk 0.01", "threshold 0.01", "gtopk 0.01", "powersgd", "qsgd",
    }  # fmt: skip
    for row in small["ranking"]:
        assert row["speed_up_over_dense"] == pytest.approx(small["dense"]["iteration_time_s"] / row["iteration_time_s"])
        low, high = row["speed_up_over_dense_interval"]
        assert low <= row["speed_up_over_dense"] <= high and row["risk"] == pytest.approx(1 / low)
    assert small["dense"]["speed_up_over_dense_interval"] == [1, 1] and small["dense"]["probability"] is None


def test_the_ranking_is_at_one_density(small):
    assert {row["density"] for row in small["ranking"] if row["density"] is not None} == {0.01}
    assert "not modelled" in small["notes"][0] and "the scenario's own" in small["notes"][0]


@pytest.mark.long
def test_a_scenario_without_a_density_says_which_was_taken():
    document = advise(scenario(sparsifier="dense"), grid=replace(SMALL, topologies=(None,), schedulers=(None,)))
    assert document["density"] == 0.01 and "the default, since the scenario has none" in document["notes"][0]
    assert document["yours"]["method"] == "dense"


def test_gathering_that_loses_is_told_why():
    spec = scenario(bandwidth=1e7, sparsifier="dense", gpu=IDEAL, cluster={"nodes": 16})
    methods = (Candidate(), Candidate({"kind": "qsgd"}), Candidate({"kind": "topk", "density": 0.2}))
    reasons = {reason["kind"]: reason for reason in advise(spec, grid=Grid(methods, (None,), (None,)))["reasons"]}
    assert reasons["bytes"]["methods"] == ["qsgd"] and reasons["build-up"]["methods"] == ["topk 0.2"]


def test_the_command_takes_trainings_with_a_target(tmp_path, small_file):
    write_study(tmp_path / "study", [{"kind": "dense"}, {"kind": "topk", "density": 0.01}])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("simulator.studies.advice.advice.candidates", lambda *_: FEW_CANDIDATES)
        trained = ("--iterations-to-target", str(tmp_path / "study"))
        rows = answered("advise", small_file, *trained, "--target", "loss 0.6", "--workers", "4")["ranking"]
        assert {row["method"] for row in rows if row["time_to_target_s"] is not None} == {"dense", "topk 0.01"}
        assert "workers from 4 to 4, the range that was run, got 64" in refused(
            "advise", small_file, *trained, "--target", "loss 0.6", "--workers", "64"
        )
    assert "--iterations-to-target" in refused("advise", small_file, "--target", "loss 0.6")


def test_wrong_iterations_are_said_so(tmp_path):
    file = tmp_path / "mine.yaml"
    with pytest.raises(InputError, match="nothing there"):
        read_iterations(str(file))
    many = r"mine\.yaml:1:1: topk: expected iterations above 0, at most 1e15, got 'many'"
    for text, said in (("topk: many\n", many), ("topkk: 5\n", "did you mean 'topk'")):
        file.write_text(text)
        with pytest.raises(InputError, match=said):
            read_iterations(str(file))
    assert "did you mean 'topk'" in refused("advise", "ring_check", "--iterations-to-target", file)
    file.write_text("topk 0.01: 2000\ndense: 1500\n")
    assert read_iterations(str(file)) == {"topk 0.01": 2000.0, "dense": 1500.0}


def test_parameter_servers_are_advised_on_among_themselves():
    spec = scenario(topology={"kind": "parameter_server", "servers": 0}, layers=LAYERS[:2])
    document = advise(spec, grid=Grid(SMALL.methods[:3], (None, {"kind": "priority", "partition": "1 MB"}), (None,)))
    assert {row["topology"] for row in document["ranking"]} == {"parameter_server sharded"}
    assert document["sensitivity"] is None
    lines = told(document)
    assert not [line for line in lines if line.startswith("What changes")] and "Limits of this answer" in lines


def test_dense_alone_is_used_as_it_is_and_nothing_is_compared():
    document = advise(scenario(sparsifier="dense"), grid=Grid((Candidate(),), (None,), (None,)))
    said = "Keep yours, dense (wfbp, ring) (Horovod): nothing at hand is expected to be faster."
    assert document["answer"] == document["summary"]["do"] == said
    takes = f"{show_time(document['dense']['iteration_time_s'])} per iteration"
    assert document["details"] == [f"Expected time: {takes} with dense (wfbp, ring)."]
    assert document["break_even"] == [] and document["sensitivity"] is None
    lines = told(document)
    assert not [line for line in lines if line.startswith("What changes")] and "Limits of this answer" in lines
    assert document["dense"] == document["yours"]


def test_without_dense_the_fastest_is_used_and_nothing_is_compared():
    document = advise(scenario(), grid=Grid((Candidate(), Candidate({"kind": "qsgd"})), (None,), (None,)))
    assert document["answer"].startswith("Keep yours, topk 0.01 (wfbp, ring) (") and document["dense"] is None
    assert document["break_even"] == document["reasons"] == []
    assert [row["speed_up_over_dense"] for row in document["ranking"]] == [None, None]


@pytest.mark.long
def test_iterations_of_methods_that_were_not_looked_at_leave_the_time_of_an_iteration():
    failing = scenario(bandwidth=1e7, cluster={"membership": {"mean_time_between_failures": 3600.0}})
    grid = Grid((Candidate(), DENSE), (None,), (None,))
    document = advise(failing, {"terngrad": 5}, grid=grid)
    assert "is in none of these times" in " ".join(lines_of(advice_blocks(of_advice.advise(failing, grid=grid)), 200))
    assert "is in none of these times" in document["notes"][-1]
    assert document["answer"].startswith("Use topk 0.01 (wfbp, ring) (")
    takes = f"{show_time(document['ranking'][0]['iteration_time_s'])} per iteration"
    assert document["details"] == [f"Expected time: {takes} with topk 0.01 (wfbp, ring)."]
    assert [row["time_to_target_s"] for row in document["ranking"]] == [None, None]


def test_a_schedule_alone_that_helps_dense_is_told():
    spec = scenario(sparsifier="dense", latency=5e-3)
    document = advise(spec, grid=Grid((Candidate(), TOPK), (None, {"kind": "sequential"}), (None,)))
    (reason,) = [reason for reason in document["reasons"] if reason["kind"] == "schedule"]
    assert reason["methods"] == ["dense"]
    assert reason["text"].startswith("Another schedule or topology alone, dense (sequential, ring), takes ")
    assert reason["text"].endswith(", with 1 call instead of 6.")


@pytest.fixture(scope="module")
def small_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("small") / "small.yaml"
    path.write_text(json.dumps(scenario(layers=LAYERS[:2], cluster={"nodes": 2}, iterations=2).resolved()))
    return str(path)


@pytest.fixture(scope="module")
def advice(small_file):
    with pytest.MonkeyPatch.context() as patch:
        rounded = Candidate({"kind": "dense"}, precision={"travels": "fp16"})
        grid = replace(FEW_CANDIDATES, methods=(*FEW_CANDIDATES.methods, rounded))
        patch.setattr("simulator.studies.advice.advice.candidates", lambda *_: grid)
        return answered("advise", small_file)


def test_every_key_is_described_and_what_is_described_occurs(advice):
    known = keys_of(MethodAdvice)
    lists = [key for key in advice if any(each.startswith(f"{key}[].") for each in known)]
    found = {f"{key}[].{name}" for key in lists for row in advice[key] for name in row}
    found |= {key for key in advice if key not in lists}
    assert found == {re.sub(r"^(\w+(?:\[\]\.\w+)?).*", r"\1", key) for key in known}
    assert all(key.what for key in known.values()) and read_answer(advice, MethodAdvice, "here").to_dict() == advice
    assert advice["break_even"][0]["method"] == "topk 0.01"  # the scenario's own comes first
    assert math.isfinite(advice["ranking"][-1]["iteration_time_s"])


def test_the_command_that_is_recommended_gives_what_was_promised(small_file, advice):
    words = shlex.split(advice["command"])
    assert words[:3] == ["sparsim", "run", small_file]
    promised = next(row for row in advice["ranking"] if row["overrides"] == advice["recommended"])
    assert answered(*words[1:])["iteration_time_s"] == pytest.approx(promised["iteration_time_s"], rel=1e-9)


def test_command_line_text_answers_first(small_file, tmp_path, monkeypatch):
    monkeypatch.setattr("simulator.studies.advice.advice.candidates", lambda *_: FEW_CANDIDATES)
    (tmp_path / "mine.yaml").write_text("dense: 1000\ntopk: 1100\n")
    said = printed("advise", small_file, "--full", "--iterations-to-target", tmp_path / "mine.yaml")
    for part in ("what to do", "sparsim run", "schedule, topology", "to target", "faster", "Reasons", "Not considered"):
        assert part in said
    assert "not modelled" in said


def test_speed_ups_are_those_over_the_rival_on_the_same_cluster(monkeypatch):
    """6, 4 and 5 s with the rival's method, schedule and topology over 2 s, over nothing, and over 10 s."""
    seen, lost = [], InputError(Problem("x", "y", "z"))
    times = lambda specs: seen.extend(specs) or [6.0, lost, 5.0, 2.0, 1.0, 10.0]  # noqa: E731
    monkeypatch.setattr("simulator.studies.advice.advice.time_batch", times)
    software = with_value(scenario(), "cluster.runtime.negotiation", 1.0)
    rival = Candidate({"kind": "dense"}, {"kind": "sequential"}, {"kind": "tree"}).of(software)
    specs = [scenario(bandwidth=bandwidth) for bandwidth in (1e6, 1e7, 1e8)]
    for own_runtime, negotiation in ((False, 0.0), (True, 1.0)):
        seen.clear()
        assert of_advice._speed_ups(rival, own_runtime, specs) == [3.0, lost, 0.5]
        assert seen[3:] == specs and [each.cluster.network for each in seen[:3]] == [s.cluster.network for s in specs]
        kinds = [(each.sparsifier.kind, each.scheduler.kind, each.topology.kind) for each in seen[:3]]
        assert kinds == [("dense", "sequential", "tree")] * 3
        assert {each.cluster.runtime.negotiation for each in seen[:3]} == {negotiation}


def test_inputs_that_turn_the_answer_are_those_at_half_or_twice_of_which_the_speed_up_crosses_1_percent(monkeypatch):
    def slope(key, half, double):
        return Slope(f"cluster.{key}", 1.0, "", 1.3, None, None, half, double, 0.0)

    inputs = [slope("nodes", 1.0, 1.5), slope("network.latency", 1.2, 1.005), slope("network.bandwidth", 1.02, None)]
    found = Sensitivity(base=1.3, inputs=inputs, top=[], without_effect=[], notes=[], answer="")
    monkeypatch.setattr(of_advice, "sensitivity", lambda *_: found)
    items = [SimpleNamespace(candidate=Candidate(), name=name) for name in ("dense", "topk")]
    made = of_advice._speed_up_sensitivity(scenario(), *items, Watch(), None)
    assert made.of == "the speed-up of topk over dense" and made.turned_by == [
        "half the number of nodes (cluster.nodes)", "twice the network latency (cluster.network.latency)"
    ]  # fmt: skip


def told(document):
    """Advice as lines of the terminal, columns one space apart."""
    advice = read_answer(document | {"command": "sparsim run mine"}, MethodAdvice, "here")
    return [" ".join(line.split()) for line in lines_of(full_advice_blocks(advice), 400)]


def test_one_worker_is_advised_in_words(tmp_path):
    path = tmp_path / "alone.yaml"
    path.write_text(json.dumps(scenario(cluster={"nodes": 1}).resolved()))
    lines = [" ".join(line.split()) for line in printed("advise", path, "--full").splitlines()]
    said = "what to do One worker exchanges nothing, so there is nothing to compress: keep the scenario as it is."
    assert said in " ".join(lines)
    assert {f"sparsim run {path}", "- 1 of 1 combinations were run.", "what changes it More than one worker."} <= {
        *lines
    }
    (row,) = [line for line in lines if line.startswith("1 topk 0.01 (yours) wfbp, ring")]
    assert row.endswith(" 1.00 - 1.00 1.00 x")
    assert not [line for line in lines if "What changes" in line or "by bandwidth" in line]


@pytest.mark.long
def test_slow_wires_ask_for_compression_and_fast_ones_do_not(small):
    assert small["answer"].startswith("Compress with") and any("fewer than" in text for text in small["details"])
    assert small["verdict"] == "yes"
    fast = advise(scenario(bandwidth=1.25e11, latency=1e-7), grid=replace(SMALL, topologies=(None,)))
    assert fast["answer"].startswith("Stay dense, wfbp over ring") and fast["recommended"].get("sparsifier") == "dense"
    kinds = {reason["kind"] for reason in fast["reasons"]}
    assert "room" in kinds and "selection" in kinds
    assert all(any(character.isdigit() for character in reason["text"]) for reason in fast["reasons"])


@pytest.mark.long
def test_iterations_to_target_turn_time_into_time_to_target(small, tmp_path):
    kind = small["ranking"][0]["sparsifier"]
    many = advise(scenario(bandwidth=1e7), {kind: 1e6, "dense": 1000}, grid=replace(SMALL, topologies=(None,)))
    assert many["ranking"][0]["method"] == "dense" and many["answer"].startswith("Stay dense")
    dense = many["ranking"][0]
    other = next(row for row in many["ranking"] if row["sparsifier"] == kind)
    assert other["speed_up_over_dense"] == pytest.approx(dense["time_to_target_s"] / other["time_to_target_s"])
    assert other["probability"] < 0.01
    assert dense["time_to_target_s"] == pytest.approx(1000 * dense["iteration_time_s"])
    without = [row for row in many["ranking"] if row["time_to_target_s"] is None]
    assert without and many["ranking"][-len(without) :] == without
    file = tmp_path / "mine.yaml"
    file.write_text("topk 0.01: 2000\ndense: 1500\n")
    assert read_iterations(str(file)) == {"topk 0.01": 2000.0, "dense": 1500.0}


@pytest.mark.long
def test_iterations_from_trainings_have_an_error_of_their_own(tmp_path):
    """What cannot be told apart by time and iterations together is said so; iterations that are given are exact."""
    methods = [{"kind": "dense"}, {"kind": "topk", "density": 0.01}, {"kind": "topk", "density": 0.012}]
    trained = read_study(str(write_study(tmp_path, methods)), Target("loss", 0.6))
    spec = scenario(bandwidth=1e7)
    measured = find_iterations(trained, spec, find_place(trained, spec))
    grid = Grid((Candidate(), *(Candidate(each) for each in (methods[0], methods[2]))), (None,), (None,))
    made = advise(spec, measured, grid)
    row = next(each for each in made["ranking"] if each["method"] == "topk 0.01")
    low, high = row["iterations_to_target_interval"]
    assert low < row["iterations_to_target"] < high
    assert set(made["iterations_to_target"]) == {"dense", "topk 0.01", "topk 0.012"}
    failing = load(spec, {"cluster.membership": {"mean_time_between_failures": "1 h"}})
    given = advise(failing, made["iterations_to_target"], grid)
    assert "is in none of these times" in given["notes"][-1]
    exact = next(each for each in given["ranking"] if each["method"] == "topk 0.01")
    assert exact["time_to_target_s"] == pytest.approx(row["time_to_target_s"])
    assert exact["iterations_to_target_interval"] == [row["iterations_to_target"]] * 2
    widths = [each["speed_up_over_dense_interval"] for each in (exact, row)]
    assert widths[1][1] / widths[1][0] > 1.1 * widths[0][1] / widths[0][0]
    assert any("small task, made" in note for note in made["notes"])
    assert "cannot be told apart" in " ".join(made["second"]["of_all"]["details"])


@pytest.mark.long
def test_waiting_for_a_gpu_that_selects_slowly_is_told():
    slow = {**CARD, "kernels": {**CARD["kernels"], "topk": {"curve": "affine", "intercept": 2e-5, "slope": 1e-7}}}
    other = {"nodes": [1], "gpu": slow, "factor": 1}
    spec = scenario(sparsifier="dense", bandwidth=1.25e9, cluster={"other_gpus": [other]})
    document = advise(spec, grid=Grid((Candidate(), TOPK), (None,), (None,)))
    (reason,) = [reason for reason in document["reasons"] if reason["kind"] == "waiting"]
    assert reason["methods"] == ["topk 0.01"]
    assert reason["text"].startswith("All workers wait for the slowest worker: it adds 2")


def test_the_ranking_in_words_has_yours_below_and_what_was_not_run(small):
    lines = told(small)
    assert "method schedule, topology iteration against dense pays risk yours" in lines
    best = next(row for row in small["ranking"] if row["method"] == "topk 0.01")
    assert best["overrides"]  # the scenario's own way with its method is not the best
    yours = f"topk 0.01 (yours) wfbp, ring {show_time(small['yours']['iteration_time_s'])} "
    place = next(i for i, line in enumerate(lines) if line.startswith(yours))
    assert lines[place - 1].startswith("7 dense")
    assert lines[place + 1].startswith("against dense: how many times faster, with the 90 % interval; pays: ")
    (looked,) = [line for line in lines if "combinations were run" in line]
    assert looked.startswith("- 63 of 63 combinations were run; 9 of them cannot work together (most often: ")
    assert "already slower" not in looked
    few = replace(SMALL, methods=SMALL.methods[:4])
    staged = told(advise(scenario(bandwidth=1e7), grid=few, exhaustive=0, whole=False))
    (looked,) = [line for line in staged if "combinations were run" in line]
    assert looked.endswith(" were not run, because their method or schedule was already slower.")


@pytest.mark.long
def test_what_turns_the_answer_is_told_only_where_something_does():
    methods = Grid(SMALL.methods[:2], (None,), (None,))
    slow, near = (told(advise(scenario(bandwidth=rate), grid=methods)) for rate in (1e7, 1e9))
    assert not [line for line in slow if "The answer changes with" in line]
    assert "The answer changes with twice the network bandwidth (cluster.network.bandwidth)" in " ".join(near)
    assert "- 2 of 2 combinations were run." in slow


@pytest.mark.long
def test_a_method_without_its_iterations_has_no_time_to_target():
    found = advise(scenario(bandwidth=1e7), {"dense": 1000}, grid=replace(SMALL, topologies=(None, {"kind": "tree"})))
    lines = told(found)
    assert "method schedule, topology to target iteration against dense pays risk yours" in lines
    (row,) = [line for line in lines if line.startswith("topk 0.01 (yours)")]
    assert f" ring - {show_time(found['yours']['iteration_time_s'])} " in row
