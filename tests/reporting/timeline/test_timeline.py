"""Timelines: the file against the rules of the Trace Event format, and its numbers against the result."""

import gzip
import json
from collections import defaultdict
from itertools import pairwise

import pytest
from command_line import printed, refused
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT

from simulator.errors import InputError
from simulator.models.timeline import BREAKDOWN, covered_time
from simulator.prediction.run import run
from simulator.reporting.timeline.timeline import cut_points, sum_intervals, timeline, trace_bytes
from simulator.scenario.reading import load

SCENARIOS = sorted(path.stem for path in (ROOT / "scenarios").glob("*.yaml"))
LARGE = {"quickstart", "priority_p3", "failover", "ps_colocated", "two_jobs", "partitioned_topk", "ps_incast"}
NEEDED = {"X": {"name", "ts", "dur"}, "C": {"name", "ts", "args"}, "M": {"name", "args"}}
NEEDED |= {"s": {"name", "cat", "id", "ts"}, "f": {"name", "cat", "id", "ts", "bp"}}


def parsed(content):
    """Events by kind, once they keep to the format: known kinds and keys, times, names of all tracks, paired arrows."""
    assert content == gzip.compress(gzip.decompress(content), mtime=0)
    document = json.loads(gzip.decompress(content), parse_constant=pytest.fail)
    events = defaultdict(list)
    for event in document["traceEvents"]:
        assert NEEDED[event["ph"]] <= set(event), event
        assert isinstance(event["pid"], int)
        assert event["ph"] == "C" or "tid" in event or event["name"].startswith("process_")
        if event["ph"] != "M":
            assert isinstance(event["ts"], int | float) and event["ts"] >= 0
        events[event["ph"]].append(event)
    names = {(item["pid"], item.get("tid")): item["args"]["name"] for item in events["M"] if "name" in item["args"]}
    assert {item["name"] for item in events["M"]} <= {
        "process_name", "process_sort_index", "thread_name", "thread_sort_index",
    }  # fmt: skip
    tracks = defaultdict(list)
    for item in events["X"]:
        assert item["dur"] >= 0
        tracks[item["pid"], item["tid"]].append(item)
    assert all((pid, tid) in names and (pid, None) in names for pid, tid in tracks)
    assert len({tid for _, tid in tracks}) == len(tracks)
    for slices in tracks.values():
        for before, after in pairwise(slices):
            assert before["ts"] + before["dur"] <= after["ts"]
            assert int(before["ts"] * 1e3) + int(before["dur"] * 1e3) <= int(after["ts"] * 1e3), "in nanoseconds"
    _check_arrows(events, tracks, names)
    at = defaultdict(float)
    for item in events["C"]:
        assert item["ts"] >= at[item["pid"], item["name"]]
        assert all(isinstance(value, int | float) for value in item["args"].values())
        at[item["pid"], item["name"]] = item["ts"]
    return document, events, tracks, names


def _check_arrows(events, tracks, names):
    """Every arrow leaves a slice of a compute stream and enters a later collective of the same bucket and worker."""
    ends = {item["id"]: item for item in events["f"]}
    assert len(ends) == len(events["f"]) and {item["id"] for item in events["s"]} == set(ends)
    assert len(events["s"]) == len(ends)
    starts = {place: {item["ts"]: item for item in slices} for place, slices in tracks.items()}
    for source in events["s"]:
        target = ends[source["id"]]
        assert source["pid"] == target["pid"] and source["ts"] <= target["ts"]
        assert names[source["pid"], source["tid"]] == "compute"
        assert names[target["pid"], target["tid"]].startswith("communication")
        left, entered = (starts[item["pid"], item["tid"]][item["ts"]] for item in (source, target))
        assert left["dur"] > 0 and left["ts"] + left["dur"] <= entered["ts"] * (1 + 1e-12)
        assert source["name"] == f"gradient of bucket {entered['args']['bucket']}"
        assert entered["cat"] == "communication"


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long if n in LARGE else ()) for n in SCENARIOS])
def test_slices_sum_to_the_breakdown(name):
    """All workers, all iterations: the file's seconds of each term are those of the result, and so are its bytes."""
    scenario = load(name, ("iterations=2",))
    prediction = run(scenario, keep_iterations=True)
    document, count, alike = prediction.document, scenario.cluster.workers, len(prediction.iteration.computed()) == 1
    _, events, tracks, names = parsed(trace_bytes(timeline(scenario, [0] if alike else range(count), [0, 1])))
    seconds, busy = defaultdict(float), defaultdict(list)
    for place, slices in tracks.items():
        for item in slices:
            seconds[names[place] if names[place] == "iterations" else item["cat"]] += item["dur"] / 1e6
            slowed = item.get("args", {}).get("slowed_by_communication_s", 0.0)
            seconds[item["cat"]] -= slowed
            seconds["slowdown"] += slowed
            if item["cat"] in ("communication", "waiting for links"):
                busy[place[0]].append((item["ts"] / 1e6, (item["ts"] + item["dur"]) / 1e6))
    steps = prediction.plan.steps
    drawn = 2 * (1 if alike else count) * steps
    for term in BREAKDOWN:
        assert seconds[term] / drawn == pytest.approx(document["breakdown_s"][term], rel=1e-9, abs=1e-9)
    assert seconds["iterations"] / 2 / steps == pytest.approx(document["iteration_time_s"], rel=1e-9)
    covered, carried = document["communication_total_s"], document["traffic"]["total_bytes"]
    if (inside := prediction.plan.inside) is not None:  # what sites do inside is drawn as far as compute waits for it
        covered -= inside.step.communication_total + inside.gathers.seconds.sum() / steps
        carried = prediction.plan.setup.groups * prediction.plan.prices.traffic.sent.sum()
    assert all(covered_time(each, 0, 1e9) / 2 / steps == pytest.approx(covered) for each in busy.values())
    sent = [item for slices in tracks.values() for item in slices if "bytes_sent_by_all" in item.get("args", {})]
    assert sum(item["args"]["bytes_sent_by_all"] for item in sent) / drawn == pytest.approx(carried, rel=1e-9)
    flight = [(item["ts"], item["args"]["bytes"]) for item in events["C"] if item["name"] == "in flight"]
    area = sum((after[0] - before[0]) * before[1] for before, after in pairwise(flight)) * drawn / steps / 2
    assert area == pytest.approx(sum(item["dur"] * item["args"]["bytes_sent_by_all"] for item in sent), rel=1e-9)


def _exchanges(overrides=()):
    made = timeline(load("ps_incast", ("iterations=1", *overrides)), [0])
    return [item for track, slices in made.tracks.items() if track[1].startswith("communication") for item in slices]


def test_push_pull_and_the_wait_for_links_before_them_are_apart():
    """With one server at 10 Gbit/s, 8 pushes of a part at once take turns, and a push that finds it busy waits."""
    slices = _exchanges()
    assert {item.name.partition(",")[0] for item in slices} == {"Push", "Pull", "waiting for links"}
    spans = run(load("ps_incast", ("iterations=1",)), keep_iterations=True).iteration.spans()
    queued = [span for span in spans if span.stream == "communication" and span.sending > span.start]
    waits = [item for item in slices if item.category == "waiting for links"]
    assert len(waits) == len(queued) > 10
    waited = sum(span.sending - span.start for span in queued)
    assert sum(item.end - item.start for item in waits) == pytest.approx(waited)
    followed = {(item.name.rpartition(" ")[2], item.start) for item in slices if item.category == "communication"}
    assert {(item.name.rpartition(" ")[2], item.end) for item in waits} <= followed
    assert not any("bytes_sent_by_all" in item.details for item in waits)


def test_workers_at_their_own_pace_push_and_pull_all_bytes():
    jitter = ("cluster.stragglers={jitter: 10 %}",)
    slices = _exchanges(jitter)
    assert {item.name.partition(",")[0] for item in slices} == {"Push and pull", "waiting for links"}
    document = run(load("ps_incast", ("iterations=1", *jitter))).document
    sent = sum(item.details.get("bytes_sent_by_all", 0.0) for item in slices)
    assert sent == pytest.approx(document["traffic"]["total_bytes"], rel=1e-9)


@pytest.mark.parametrize(
    "name", ["quickstart", "ps_incast", "ring_check", "oversubscription", "priority_bytescheduler"]
)
def test_counters_of_links_carry_the_bytes_of_the_result(name):
    scenario = load(name, ("iterations=1",))
    document = run(scenario).document
    made = timeline(scenario, links=1)
    link = document["traffic"]["busiest_link"]
    ((name, points),) = [(name, points) for name, series, points in made.counters() if series == ("utilisation",)]
    assert name.startswith(link["name"])
    held_for = [(after[0] - before[0]) * before[1][0] for before, after in pairwise(points)]
    assert sum(held_for) / document["iteration_time_s"] == pytest.approx(link["utilisation"], rel=1e-9)


def test_densities_are_those_of_the_buckets():
    scenario = load("quickstart", ("iterations=1",))
    _, _, tracks, _ = parsed(trace_bytes(timeline(scenario, [5])))
    exchanges = [item["args"] for slices in tracks.values() for item in slices if item["cat"] == "communication"]
    buckets = {item["bucket"]: item for item in exchanges}
    elements = sum(item["elements"] for item in buckets.values())
    density = run(scenario).document["density"]
    for key in ("selected", "aggregated"):
        mean = sum(item[f"{key}_density"] * item["elements"] for item in buckets.values()) / elements
        assert mean == pytest.approx(density[key], rel=1e-9)


def test_by_default_the_first_and_last_iteration_of_telling_workers():
    made = timeline(load("straggler"))
    computed = run(load("straggler")).iteration.computed()
    assert set(made.about["workers_drawn"]) == {0, int(computed.argmin()), int(computed.argmax())}
    made = timeline(load("quickstart", ("iterations=5",)))
    assert list(made.about["iterations_drawn_s"]) == [0, 4]
    labels = [item.name for item in next(iter(made.tracks.values()))]
    assert labels == ["iteration 0", "iterations 1 to 3, not drawn", "iteration 4"]
    assert list(timeline(load("ring_check")).about["workers_drawn"]) == [0]


@pytest.mark.long
@pytest.mark.parametrize("nodes", [64, 16384])
def test_a_large_cluster_is_bounded(nodes):
    content = trace_bytes(timeline(load("quickstart", (f"cluster.nodes={nodes}", "iterations=2", "warmup=0"))))
    assert len(content) < 500_000 and len({item["pid"] for item in parsed(content)[1]["X"]}) <= 4


def test_a_wait_of_days_leaves_times_that_readers_can_add_up():
    """After 1e6 s a time in microseconds is known to 1e-4 of them; slices still do not reach into each other."""
    _, events, *_ = parsed(trace_bytes(timeline(load("quickstart", ("workload.input_time=1e6 s",)), [0], [0, 1])))
    assert max(item["ts"] for item in events["X"]) > 1e12


def test_too_many_slices_are_refused(monkeypatch):
    monkeypatch.setattr("simulator.reporting.timeline.timeline.MOST_SLICES", 100)
    with pytest.raises(InputError, match="at most 100 slices, got more: choose fewer workers"):
        timeline(load("straggler"), range(16))


def test_command_writes_the_same_bytes_twice_and_says_what_is_wrong(tmp_path):
    first, second, plain = (tmp_path / name for name in ("a.json.gz", "b.json.gz", "c.json"))
    for path in (first, second, plain):
        said = printed("timeline", "mixed_gpus", "-o", path, "--workers", "0,3", "--iterations", "0")
        assert "2 of 16 workers" in said.replace("\n", " ")
    assert first.read_bytes() == second.read_bytes() and gzip.decompress(first.read_bytes()) == plain.read_bytes()
    said = printed("timeline", "mixed_gpus", "-o", plain, "--workers", "all", "--iterations", "all")
    assert "16 of 16 workers" in said.replace("\n", " ")
    for arguments, message in (
        (["ring_check", "-o", "x.txt"], "--out: expected a name that ends in .json.gz or .json, got 'x.txt'"),
        (["ring_check", "-o", first, "--workers", "8"], "--workers: expected numbers from 0 to 7, got 8"),
        (["ring_check", "-o", first, "--workers", "one"], "expected numbers such as 0,3, or all, got 'one'"),
        (["ring_check", "-o", first, "--iterations", "-1"], "expected numbers such as 0,3, or all, got '-1'"),
    ):
        assert message in refused("timeline", *arguments)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20), st.integers(1, 9)), max_size=20))
def test_stepwise_keeps_the_area(intervals):
    points = sum_intervals([(start, start + length, value) for start, length, value in intervals], 100)
    area = sum((after[0] - before[0]) * before[1][0] for before, after in pairwise(points))
    assert area == sum(length * value for _, length, value in intervals)
    assert points[-1][1] == (0,)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=300), st.floats(0.5, 20))
def test_thinned_counters_keep_the_area(values, end):
    import numpy as np

    from simulator.reporting.timeline import timeline as counters

    times = np.linspace(-1.0, 15.0, len(values))
    kept = counters.MOST
    full = cut_points(times, np.array(values), end)
    try:
        counters.MOST = 16
        thin = cut_points(times, np.array(values), end)
    finally:
        counters.MOST = kept
    areas = [sum((after[0] - before[0]) * before[1][0] for before, after in pairwise(each)) for each in (full, thin)]
    assert areas[1] == pytest.approx(areas[0], abs=1e-9)
    assert len(thin) <= 17 + 1
