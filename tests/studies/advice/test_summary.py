"""The three lines of an advice, what is offered and what is named second; at most forty lines on the terminal."""

import json
import time
from types import SimpleNamespace

import pytest
from command_line import invoke
from in_json import in_json
from printed import watch_console
from small_advice import CARD, IDEAL, LAYERS, scenario

from simulator.answers import plain
from simulator.progress import Watch
from simulator.scenario.changes import with_value
from simulator.scenario.named_parts import read_runtime
from simulator.scenario.reading import load
from simulator.studies.advice import ranking
from simulator.studies.advice.advice import advise
from simulator.studies.advice.candidates import Candidate, Grid
from simulator.studies.advice.summary import reasons

advise = in_json(advise)

DDP = {"kind": "bucketed"}
RANDOMK, POWERSGD = Candidate({"kind": "randomk", "density": 1e-4}), Candidate({"kind": "powersgd"})
METHODS = Grid((Candidate(), POWERSGD, RANDOMK), (None,), (None,))


def ddp(**parts):
    """The small cluster under PyTorch DDP, dense."""
    spec = scenario(**{"sparsifier": "dense", "scheduler": DDP, "topology": "nccl", **parts})
    return with_value(spec, "cluster.runtime", read_runtime("runtimes/pytorch-ddp"))


def test_what_is_offered_comes_first_and_research_code_second():
    document = advise(ddp(bandwidth=1e6, gpu=IDEAL), grid=METHODS)
    assert document["recommended"] == {"sparsifier": "powersgd"}
    assert document["availability"]["where"] == "PyTorch DDP"
    lines = document["summary"]
    assert lines["do"].startswith("Compress with powersgd (bucketed, nccl) (PyTorch DDP).")
    assert " times faster than dense (bucketed, nccl) and pays with probability over 0.99" in lines["gain"]
    assert "With research code (sands-lab/grace): randomk 0.0001 (bucketed, nccl), " in lines["elsewhere"]
    assert "It pays as long as training needs fewer than" in lines["change"]
    assert document["second"]["method"] == "randomk 0.0001"
    assert document["second"]["of_all"]["recommended"] == {"sparsifier": {"kind": "randomk", "density": 1e-4}}
    fastest = document["ranking"][0]
    assert document["second"]["iteration_time_s"] == fastest["iteration_time_s"]
    best = next(row for row in document["ranking"] if row["method"] == "powersgd")
    assert document["second"]["speed_up"] == pytest.approx(best["iteration_time_s"] / fastest["iteration_time_s"])


def test_research_code_that_gains_nothing_is_said_to_gain_nothing():
    grid = Grid((Candidate(), Candidate({"kind": "qsgd"})), (None,), (None,))
    gain = advise(ddp(bandwidth=1e6, cluster={"nodes": 16}), grid=grid, whole=False)["summary"]["elsewhere"]
    assert "Nothing else is expected to be faster: qsgd (bucketed, nccl) (sands-lab/grace) is " in gain


def test_rows_that_are_offered_are_compared_with_dense_that_is_offered():
    grid = Grid((Candidate(), Candidate({"kind": "powersgd"})), (None, {"kind": "mg_wfbp"}), (None,))
    document = advise(ddp(latency=5e-3), grid=grid, whole=False)
    rows = [row for row in document["ranking"] if row["availability"]["status"] == "offered"]
    dense, other = (next(row for row in rows if row["method"] == name) for name in ("dense", "powersgd"))
    assert dense["against_offered_dense"] == {"speed_up": 1.0, "speed_up_interval": [1.0, 1.0], "probability": None}
    ratio = dense["iteration_time_s"] / other["iteration_time_s"]
    assert other["against_offered_dense"]["speed_up"] == pytest.approx(ratio)
    assert all(row["against_offered_dense"] is None for row in document["ranking"] if row not in rows)
    assert "mg_wfbp" not in str(document["recommended"])


def test_where_nothing_is_offered_the_first_line_says_so():
    grid = Grid((Candidate(), Candidate({"kind": "dense"})), ({"kind": "mg_wfbp"},), (None,))
    spec = ddp(sparsifier={"kind": "micro", "density": 0.01}, bandwidth=1e6, gpu=IDEAL)
    document = advise(spec, grid=grid, whole=False)
    assert document["summary"]["do"].startswith("Compress with micro 0.01 (mg_wfbp, nccl) (HKBU-HPML/MG-WFBP and kljp/")
    assert "This needs research code" in document["summary"]["do"] and document["second"] is None


def test_a_framework_without_methods_is_said_to_have_none():
    spec = with_value(ddp(bandwidth=1e6, gpu=IDEAL), "cluster.runtime", read_runtime("runtimes/horovod-0.19"))
    grid = Grid((Candidate(), Candidate({"kind": "micro", "density": 0.01})), ({"kind": "wfbp"},), (None,))
    document = advise(spec, grid=grid)
    said = "Stay dense, wfbp over nccl (Horovod). Horovod offers no method that compresses."
    assert document["summary"]["do"] == said
    assert document["verdict"] == "yes"  # with research code
    assert "With research code: Compress with micro 0.01" in document["answer"]
    assert document["border"]["method"].startswith("micro 0.01")
    assert document["border"]["bandwidth_words"] in document["summary"]["change"]


class Interrupting(Watch):
    """Presses Ctrl-C at a step."""

    def __init__(self, at):
        super().__init__()
        self.at = at

    def step(self, count=1):
        super().step(count)
        if self.at <= self.done < self.at + count:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("at", "during"), [(2, "the search"), (4, "the intervals of the ranking")])
def test_an_interruption_leaves_the_ranking_so_far(at, during):
    watch = Interrupting(at)
    document = advise(ddp(), grid=METHODS, watch=watch)
    assert document["interrupted"] == watch.interrupted == during and len(document["ranking"]) == min(at, 3)
    assert document["summary"]["do"] and document["sensitivity"] is None
    assert document["break_even"] == []
    json.dumps(plain(document), allow_nan=False)


def test_the_answer_is_the_same_from_any_number_of_processes():
    one, two = (advise(ddp(layers=LAYERS[:2], gpu=CARD), grid=METHODS, processes=count) for count in (1, 2))
    assert json.dumps(plain(one)) == json.dumps(plain(two))


def test_an_interruption_before_the_first_result_leaves_nothing(monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("simulator.studies.advice.search.evaluate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        advise(ddp(), grid=METHODS, processes=1)


def test_the_command_prints_the_ranking_so_far(tmp_path, monkeypatch):
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps(ddp(layers=LAYERS[:2], gpu=CARD).resolved()))
    monkeypatch.setattr("simulator.studies.advice.advice.candidates", lambda *_: METHODS)
    plain = ranking.evaluate
    calls = []

    def once(scenarios, intervals="first_order"):
        calls.append(intervals)
        if calls.count("full") == 2:
            raise KeyboardInterrupt
        return plain(scenarios, intervals)

    monkeypatch.setattr(ranking, "evaluate", once)
    result = invoke("advise", path, "--processes", "1")
    assert result.exit_code == 130 and "Interrupted during the intervals of the ranking" in result.stdout
    assert "what to do" in result.stdout and "interrupted during the intervals" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.long
def test_advice_on_the_quickstart_is_25_lines_of_a_hundred_columns(monkeypatch):
    watched = watch_console(monkeypatch)
    began = time.process_time()
    result = invoke("advise", "quickstart")
    assert time.process_time() - began < 15
    lines = result.output.splitlines()
    assert len(lines) <= 25
    watched.check(result.output)
    table = lines[next(i for i, line in enumerate(lines) if line.startswith("method (schedule, topology)")) :]
    assert "Horovod" in table[1]
    document = advise(load("quickstart"))
    assert document["recommended"]["sparsifier"] == "dense" and document["availability"]["status"] == "offered"
    assert document["availability"]["lines"][-1].endswith("compression=hvd.Compression.fp16)")


def best(method, time, sent=8e6, calls=5, target=1.0, **breakdown):
    """The best combination of a method, as far as reasons read it; what is not stated is as with dense."""
    parts = {"selection": 0.0, "combine": 0.0, "communication_exposed": 0.4, "idle": 0.0, "slowdown": 0.1} | breakdown
    densities = SimpleNamespace(target=target, build_up=2.0, selected=0.25, aggregated=0.5)
    row = SimpleNamespace(method=method, breakdown=parts, sent_per_worker=sent)
    return SimpleNamespace(row=row, name=f"{method} (wfbp)", time=time, calls=calls, densities=densities)


def test_methods_are_slower_for_the_term_in_which_they_lose_most():
    """Each of which loses in another one; eight in selection, of which the six that lose least are named."""
    selecting = (4, 2, 8, 3, 1, 7, 5, 6)
    others = [
        best("fast", 0.6, selection=0.03, combine=0.02, communication_exposed=0.05),
        best("alike", 1.0099, communication_exposed=0.41),
        *(best(f"select {part}", 1.1, selection=part / 10, combine=0.05) for part in selecting),
        best("add", 1.1, combine=0.2, selection=0.1),
        best("small", 1.1, sent=4e6, calls=7, communication_exposed=0.6),
        best("spread", 1.1, sent=9e6, target=0.1, communication_exposed=0.7, idle=0.2),
        best("gather", 1.1, sent=1e7, communication_exposed=0.9),
        best("wait", 1.1, idle=0.5, communication_exposed=0.6),
    ]
    told = reasons(16, best("dense", 1.0), others, best("dense", 1.5, calls=9))
    kinds = ["room", "less communication", "selection", "combine", "start-up", "build-up", "bytes", "waiting"]
    assert [reason.kind for reason in told] == [*kinds, "schedule"]
    assert told[2].methods == [f"select {part}" for part in selecting] and told[0].methods == ["dense"]
    losses = ", ".join(f"{part}00 ms with select {part}" for part in range(1, 7))
    for reason, parts in zip(told, (
        ("400 ms of exposed communication and 100 ms of slowdown", "in an iteration of 1 s (50.0 %)"),
        ("fast reduces exposed communication from 400 ms to 50 ms and adds 50 ms of selection and combine",),
        ("at most 400 ms", f"It adds {losses}, and more with 2 other methods."),
        ("from 16 workers", "it adds 200 ms with add."),
        ("by 200 ms with small.", "each worker sends 4 MB in 7 calls with small, 8 MB in 5 with dense"),
        ("by 300 ms with spread.", "each selects 0.25 of the gradient, all together 0.5, and each sends 9 MB"),
        ("by 500 ms with gather.", "sends 10 MB with gather, 8 MB with dense"),
        ("it adds 500 ms with wait.",),
        ("dense (wfbp), takes 1 s instead of 1.5 s, with 5 calls instead of 9.",),
    ), strict=True):  # fmt: skip
        assert all(part in reason.text for part in parts), reason.text
    assert reasons(16, None, others, None) == [] and reasons(1, best("dense", 1.0), others, None)[0].methods == []
    assert len(reasons(16, best("dense", 1.0), [], best("topk", 1.5))) == 1
