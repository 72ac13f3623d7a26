"""`sparsim compare`: what changed in the input, and in the outcome, term by term."""

import json
import math

import pandas as pd
import pytest
from command_line import answered, printed, refused
from in_json import in_json
from page_parsing import Parsed
from places import ROOT

from simulator.loading.documents import MAX_BYTES
from simulator.models.timeline import BREAKDOWN
from simulator.prediction.run import run, with_responses
from simulator.reporting.answers.compared import PointPair, SingleValued, ValuesOfOne
from simulator.scenario.reading import load
from simulator.studies.compare.run_differences import compare_outcomes
from simulator.studies.compare.sweep_differences import SweepOutcome, _summarise, compare_sweeps
from simulator.studies.sweep.sweep import run_sweep
from simulator.units import show_time

compare_outcomes = in_json(compare_outcomes)

NASTY = "<script>alert(1)</script> [red]&amp;"


def invoke_run(out, *arguments):
    printed("run", *arguments, "--out", out)
    return out


def swept(out, density=(0.001, 0.01), bandwidth="10 Gbit/s", **more):
    base = load("ring_check", ("sparsifier={kind: topk, density: 0.01}",)).resolved()
    base["cluster"]["network"]["bandwidth"] = bandwidth
    vary = {"sparsifier.density": list(density), "cluster.nodes": [4, 8]} | more
    run_sweep({"name": NASTY, "base": base, "vary": vary}, out, workers=1)
    return out


def test_runs_differ_by_what_was_set_and_term_by_term():
    document = compare_outcomes("quickstart", "quickstart", (), ("sparsifier.density=0.01", "cluster.nodes=4"))
    assert document["inputs"]["changes"] == [
        {"key": "cluster.nodes", "a": 8, "b": 4, "in": "both"},
        {"key": "sparsifier.density", "a": 0.001, "b": 0.01, "in": "both"},
    ]
    first = with_responses(run(load("quickstart"))).result
    second = with_responses(run(load("quickstart", ("sparsifier.density=0.01", "cluster.nodes=4")))).result
    one, other = first.to_dict(), second.to_dict()
    figures = {row["key"]: row for row in document["figures"]}
    terms = [figures[f"breakdown_s.{term}"] for term in BREAKDOWN]
    assert [row["difference"] for row in terms] == [other["breakdown_s"][t] - one["breakdown_s"][t] for t in BREAKDOWN]
    whole = figures["iteration_time_s"]
    assert sum(row["difference"] for row in terms) == pytest.approx(whole["difference"], abs=1e-12)
    assert whole["ratio"] == other["iteration_time_s"] / one["iteration_time_s"]
    assert figures["density.build_up"]["b"] == other["density"]["build_up"]
    assert figures["traffic.total_bytes"]["a"] == one["traffic"]["total_bytes"]
    assert document["fidelity"] == {"a": one["fidelity"], "b": other["fidelity"]}
    both = document["warnings"]
    assert both["both"] + both["only_a"] != one["warnings"]  # sizes always differ, and would hide what is the same
    assert sorted(both["both"] + both["only_a"]) == sorted(first.warning_texts)
    assert sorted(both["both"] + both["only_b"]) == sorted(second.warning_texts)
    used = [(item["id"], item["in"]) for item in document["calibration"]]
    assert {name for name, where in used if where != "b"} == {item["id"] for item in one["calibration"]}


def test_a_verdict_counts_what_is_lost_where_machines_come_and_go():
    calm, elastic, starved = load("elastic", ("cluster.membership=null",)), load("elastic"), load("starved")
    lasts = run(elastic).result
    document = compare_outcomes("elastic", "elastic", ("cluster.membership=null",))
    told = "It makes no difference. With what is lost where machines come and go, an iteration takes {} with B and {} "
    times = (show_time(time) for time in (lasts.elastic.iteration_time, run(calm).result.iteration_time))
    assert document["answer"].startswith(told.format(*times) + "with A. Undisturbed: An iteration takes ")
    assert document["speed_up"] == pytest.approx(lasts.elastic.goodput)
    (goodput,) = (row for row in document["figures"] if row["key"] == "elastic.goodput")
    assert (goodput["a"], goodput["b"]) == (None, lasts.elastic.goodput)
    cause = run(starved).result.elastic.cause
    document = compare_outcomes("elastic", "starved")
    assert document["answer"].startswith(f"The training with B never ends: {cause}. Undisturbed: An iteration takes ")
    assert document["verdict"] == "no" and "speed_up" not in document


def test_a_whole_part_that_was_exchanged_is_told_as_one():
    told = compare_outcomes("quickstart", "quickstart", (), ("workload=workloads/vgg16-v100",))["inputs"]
    (line,) = told["told"]
    assert (line["key"], line["keys"]) == ("workload", len(told["changes"])) and len(told["changes"]) > 50


def test_stored_runs_compare_as_the_runs_themselves(tmp_path):
    for place, arguments in (("a", []), ("b", ["--set", "cluster.nodes=16"])):
        text = printed("run", "ring_check", *arguments, "--out", tmp_path / place, "--json")
        (tmp_path / f"{place}.json").write_text(text)
    live = compare_outcomes("ring_check", "ring_check", (), ("cluster.nodes=16",))
    stored = compare_outcomes(str(tmp_path / "a"), str(tmp_path / "b"))
    bare = compare_outcomes(str(tmp_path / "a.json"), str(tmp_path / "b.json"))
    for key in ("figures", "fidelity", "calibration", "warnings"):
        assert live[key] == stored[key] == bare[key]
    # What two predictions share cancels, which stored results do not tell.
    assert live["verdict"] == "no" and live["answer"].startswith("B is slower than A: ")
    assert "verdict" not in stored and stored["answer"] == bare["answer"]
    assert stored["answer"].startswith("B takes 1.08 times as long as A. An iteration takes ")
    assert live["inputs"] == stored["inputs"]
    assert not bare["inputs"]["known"]
    output = " ".join(printed("compare", tmp_path / "a.json", "ring_check").split())
    assert "Both have the same digest" in output and "are not known" in output


def row(time, digest, varied, **terms):
    cells = {f"breakdown_s.{name}": seconds for name, seconds in terms.items()}
    return {"digest": digest, "iteration_time_s": time, "error": None, "warnings": digest, **varied, **cells}


def test_sweeps_by_hand():
    """A has 4 points and B 5, of which 3 are in both: twice as long, within 1 %, and one that failed in B.

    Two points with equal values are told apart by their order.
    """
    a = [row(1.0, "a", {"n": 4, "seed": 1}, forward=1.0), row(2.0, "b", {"n": 4, "seed": 1}, forward=2.0)]
    a += [row(3.0, "c", {"n": 8, "seed": 1}, forward=3.0), row(4.0, "d", {"n": 16, "seed": 1})]
    b = [row(2.0, "A", {"n": 4}, forward=1.5, update=0.5), row(2.01, "b", {"n": 4}, forward=2.01)]
    b += [row(None, "C", {"n": 8}) | {"error": "too large"}, *(row(9.0, "x", {"n": n}) for n in (32, 64))]
    names = {"sweep": "mine", "sweep_digest": "0"}
    failing = SweepOutcome("A", [one | {"elastic.goodput": 0.5} for one in a], ("n", "seed"), names)
    assert "is in none of these times" in compare_sweeps(failing, SweepOutcome("B", b, ("n",), {})).answer
    made = compare_sweeps(SweepOutcome("A", a, ("n", "seed"), names), SweepOutcome("B", b, ("n",), {}))
    assert (made.keys, made.single_valued) == (["n"], [SingleValued("seed", "a", 1)])
    assert [(point.ratio, point.largest_term, point.same_inputs) for point in made.points] == [
        (2.0, "forward", False), (pytest.approx(1.005), "forward", True)
    ]  # fmt: skip
    assert [point.largest_difference for point in made.points] == pytest.approx([0.5, 0.01])
    changes = {item.term: (item.mean, item.least, item.most) for item in made.terms}
    assert changes == {"forward": pytest.approx((0.255, 0.01, 0.5)), "update": pytest.approx((0.25, 0.0, 0.5))}
    assert made.failed == [{"n": 8, "error_a": None, "error_b": "too large"}]
    assert (made.only_a, made.only_b) == ([{"n": 16}], [{"n": 32}, {"n": 64}])
    assert made.values == [ValuesOfOne("n", [16], [32, 64])]
    assert made.answer == (
        "Of 2 points that succeeded in both sweeps, 1 is slower in B and 1 within 1 %. "
        "B takes 1.42 times as long as A on the (geometric) mean, from 1 to 2 times."
    )
    same = compare_sweeps(SweepOutcome("A", a, ("n",), {}), SweepOutcome("A", a[:3], ("n",), {}))
    assert same.answer == "Of 3 points that succeeded in both sweeps, 3 within 1 %."
    assert same.values == [ValuesOfOne("n", [16], [])] and same.terms == []


def test_page_is_one_file_with_all_text_escaped(tmp_path):
    scenario = tmp_path / "nasty.yaml"
    text = (ROOT / "scenarios" / "quickstart.yaml").read_text()
    scenario.write_text(text.replace("name: ResNet-50, Top-k 0.1 %, 32 GPUs on 10 GbE", f"name: '{NASTY}'"))
    out = tmp_path / "page.html"
    assert "page.html: written" in printed("compare", scenario, "quickstart", "--set-b", "sparsifier=dense", "-o", out)
    page = Parsed(out.read_text())
    assert page.wrong == [] and any(NASTY in part for part in page.pieces)
    assert not {"img", "iframe", "b"} & {tag for tag, _ in page.elements}
    places = {attributes[name] for _, attributes in page.elements for name in ("href", "src") if name in attributes}
    # The page has no icon, and a browser asks for none.
    assert {place for place in places if not place.startswith("#")} == {"data:,"}
    assert [attributes.get("id") for tag, attributes in page.elements if tag == "script"] == ["data", None]
    (policy,) = [attributes["content"] for _, attributes in page.elements if "http-equiv" in attributes]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")  # the browser runs no other script
    joined = " ".join(page.pieces)
    for words in ("exposed communication", "sparsifier.density", "link law", "extrapolated", "build-up"):
        assert words in joined
    assert answered("compare", scenario, "quickstart")["a"]["name"] == NASTY


def lines_of(*arguments):
    """What the terminal says, a blank between columns."""
    return [" ".join(line.split()) for line in printed("compare", *arguments).splitlines()]


def page_of(out, *arguments):
    """The text of the page that a comparison writes."""
    printed("compare", *arguments, "-o", out)
    page = Parsed(out.read_text())
    assert page.wrong == []
    return page


def test_nothing_is_said_of_intervals_that_overlap(tmp_path):
    """What both runs share cancels, so that they say nothing of which one is faster."""
    one = run(load("quickstart")).document
    ends = [end * 1.1 for end in one["iteration_time_interval_s"]]
    other = one | {"iteration_time_s": one["iteration_time_s"] * 1.1, "iteration_time_interval_s": ends}
    for name, document in (("a", one), ("b", other)):
        (tmp_path / f"{name}.json").write_text(json.dumps(document | {"digest": name}))
    stored = tmp_path / "a.json", tmp_path / "b.json"
    assert compare_outcomes(*map(str, stored))["intervals_overlap"]
    assert not any("intervals overlap" in line for line in lines_of(*stored))


def test_of_two_scenarios_a_verdict_is_said(tmp_path):
    arguments = ("quickstart", "quickstart", "--set-b", "cluster.gpu=gpus/rtx2080ti-pytorch2")
    document = compare_outcomes("quickstart", "quickstart", (), (arguments[-1],))
    assert document["intervals_overlap"] and document["verdict"] in ("yes", "no", "alike", "undecided")
    low, high = document["speed_up_interval"]
    assert low <= document["speed_up"] <= high
    lines = lines_of(*arguments)
    title = "What decides it" if document["verdict"] == "undecided" else "What the doubt that is left rests on"
    assert title in lines and title in page_of(tmp_path / "page.html", *arguments).pieces


def test_a_scenario_compared_with_itself_makes_no_difference():
    document = compare_outcomes("quickstart", "quickstart")
    assert (document["verdict"], document["speed_up_interval"]) == ("alike", [1.0, 1.0])
    assert document["answer"].startswith("It makes no difference. An iteration takes ")


def test_versions_that_differ_are_named(tmp_path):
    document = run(load("ring_check")).document
    for name, versions in (("a", {"sparsim": "0.0.1", "numpy": "1.26.0"}), ("b", {"sparsim": "0.0.1", "simpy": "4"})):
        more = {"versions": versions, "fidelity": document["fidelity"] | {"reason": name}}
        (tmp_path / f"{name}.json").write_text(json.dumps(document | more))
    stored = str(tmp_path / "a.json"), str(tmp_path / "b.json")
    assert [compare_outcomes(*stored)["fidelity"][side]["reason"] for side in "ab"] == ["a", "b"]
    lines = lines_of(*stored)
    assert {"numpy 1.26.0 in A, none in B.", "simpy none in A, 4 in B."} <= set(lines)
    assert not [line for line in lines if line.startswith("sparsim ")]


def test_what_is_missing_on_one_side_has_no_difference(tmp_path):
    """One worker without work takes no time: no throughput, and nothing is so many times slower than it."""
    idle = ("--set-a", "cluster.nodes=1")
    lines = lines_of("ring_check", "ring_check", *idle)
    told = "A takes no time. An iteration takes 140.7 ms with B, instead of 0 s with A. It adds 140.7 ms of exposed"
    assert told in " ".join(lines)
    assert next(line for line in lines if line.startswith("throughput")).startswith("throughput (samples/s) - ")
    assert next(line for line in lines if line.startswith("scaling efficiency")).startswith("scaling efficiency - ")
    page = page_of(tmp_path / "page.html", "ring_check", "ring_check", *idle)
    assert page.pieces[page.pieces.index("throughput (samples/s)") + 1] == "-"


def test_terms_and_parts_that_this_version_does_not_know_keep_their_names(tmp_path):
    stored = json.loads(printed("run", "quickstart", "--json"))
    stored["breakdown_s"]["other_term"] = stored["memory"]["parts_bytes"]["other_part"] = 1.0
    (tmp_path / "a.json").write_text(json.dumps(stored))
    assert "other part" in printed("compare", tmp_path / "a.json", "quickstart", "-o", tmp_path / "a.html")


def test_equal_sweeps_have_nothing_to_tell(tmp_path, places):
    lines = lines_of(places / "swept", places / "swept")
    assert "4 points have the same digest in both: nothing that the prediction depends on differs." in lines
    assert not [line for line in lines if "only one sweep" in line or "Change of each term" in line]
    assert not [line for line in lines if "largest changes" in line or " only: " in line]
    page = page_of(tmp_path / "page.html", places / "swept", places / "swept")
    assert "Points, the largest changes first (4 of 4)" in page.pieces and page.pieces.count("=") == 4
    assert not [part for part in page.pieces if part.startswith(("Values that", "Change of", "Failed", "In A only"))]


def test_sweeps_without_a_common_point_are_told_by_what_each_has(tmp_path, places):
    other = swept(tmp_path / "other", density=(0.1,))
    apart = compare_outcomes(str(places / "swept"), str(other))
    assert apart["answer"] == "The sweeps have no point in common." and apart["points"] == apart["terms"] == []
    assert apart["summary"]["joined"] == 0 and "ratio_mean" not in apart["summary"]
    lines = lines_of(places / "swept", other)
    assert {apart["answer"], "sparsifier.density 0.001, 0.01 0.1"} <= set(lines)
    joined = " ".join(line for line in lines if line)
    assert "In A only: 4 points point sparsifier.density 0.001, cluster.nodes 4 sparsifier.density 0.001, " in joined
    assert "In B only: 2 points point sparsifier.density 0.1, cluster.nodes 4 sparsifier.density 0.1, clu" in joined
    page = page_of(tmp_path / "page.html", places / "swept", other)
    assert {"In A only: 4 points", "In B only: 2 points", "Values that only one sweep has"} <= set(page.pieces)
    assert not [part for part in page.pieces if part.startswith("Points, the largest")]


def test_points_that_failed_are_counted_and_on_the_page_with_their_errors(tmp_path):
    base = load("ring_check", ("sparsifier={kind: topk, density: 0.01}",)).resolved()
    out = tmp_path / "out"
    for vary, failing in (
        ({"sparsifier": [{"kind": "gtopk", "density": 0.1}], "cluster.nodes": [3]}, "power of two"),
        ({"topology": ["ring", "double_binary_tree"], "cluster.nodes": [4]}, "expected a topology with all-gather"),
    ):
        run_sweep({"name": "failing", "base": base, "vary": vary}, out, workers=1)
        document, lines = compare_outcomes(str(out), str(out)), lines_of(out, out)
        (row,) = document["failed"]
        assert row["error_a"] == row["error_b"] and failing in row["error_a"]
        assert "1 point failed in A or in B." in lines
        if not document["points"]:
            assert document["answer"] == "1 point in common; none succeeded in both sweeps."
            assert document["answer"] in " ".join(lines)
    text = page_of(tmp_path / "page.html", out, out).pieces
    assert "Failed: 1 point" in text
    place = text.index("topology double_binary_tree, cluster.nodes 4")
    assert "expected a topology with all-gather, got double_binary_tree" in text[place + 1]


def test_changes_of_all_points_are_summed_up_as_ratios():
    """A half, as long within 1 %, twice and 16 times as long: 2 in the geometric mean, and in the middle sqrt(2)."""
    rest = dict.fromkeys(("ratio", "largest_term", "largest_difference"))
    rest |= {"digests": [], "errors": [], "fidelity_differs": False}
    times = [(2.0, 4.0), (2.0, 1.0), (1.0, 1.0), (0.5, 8.0)]
    points = [
        PointPair(key={}, a=a, b=b, same_inputs=a == b, warnings_differ=a == 0.5, **rest)
        for a, b in [*times, (None, 1.0)]
    ]
    made = _summarise(points[:4], points)
    assert (made.joined, made.came_out, made.same_inputs, made.warnings_differ) == (5, 4, 1, 1)
    assert (made.faster, made.slower, made.alike) == (1, 2, 1)
    ratios = (made.ratio_min, made.ratio_median, made.ratio_mean, made.ratio_max)
    assert ratios == pytest.approx((0.5, math.sqrt(2), 2, 16))
    assert _summarise([], points[4:]).ratio_mean is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("empty ring_check", "a folder with neither result.json nor results.parquet"),
        ("broken.json ring_check", "broken.json:1:2: expected JSON, got Expecting property name"),
        ("other.json ring_check", "other.json: expected a result of `sparsim run`, got another JSON document"),
        ("stored ring_check --set-a seed=1", "a stored result cannot be changed"),
        ("ring_chek ring_check", "did you mean 'ring_check'?"),
        ("ring_check ring_check -o page.txt", "expected a name that ends in .html, got 'page.txt'"),
        ("ring_check swept", "expected two runs or two sweeps, got the run ring_check and the sweep swept"),
        ("binary.json ring_check", "binary.json: expected UTF-8 text, got byte 0, which is not"),
        ("deep.json ring_check", "deep.json: expected JSON, got 'maximum recursion depth exceeded"),
        ("large.json ring_check", f"large.json: expected at most {MAX_BYTES} bytes, got {MAX_BYTES + 1} bytes"),
        ("listed ring_check", "listed/scenario.yaml:1:1: expected a scenario: a mapping, got [1]"),
        ("shards swept", "these are shards: run the same sweep without --shard to join them"),
        ("torn swept", "torn/results.parquet: expected a Parquet table, got "),
        ("unmanifested swept", "unmanifested/manifest.json: expected a readable file, got No such file"),
        ("columns swept", "columns/results.parquet: expected results of `sparsim sweep`, got columns ['a']"),
        ("warmups seeds", "expected sweeps that vary a common key, got warmup in warmups, and seed in seeds"),
        ("swept wider", "wider: sparsifier.granularity: expected keys that vary in both sweeps, got 2 values"),
    ],
)
def test_what_cannot_be_compared_is_said(arguments, message, places, monkeypatch):
    monkeypatch.chdir(places)
    assert message in refused("compare", *arguments.split())


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    made = tmp_path_factory.mktemp("places")
    (made / "empty").mkdir()
    (made / "broken.json").write_text("{")
    (made / "other.json").write_text("[]")
    (made / "binary.json").write_bytes(b"\xff\xfe{}")
    (made / "deep.json").write_text("[" * 100_000)
    (made / "large.json").write_bytes(b" " * (MAX_BYTES + 1))
    invoke_run(made / "listed", "ring_check").joinpath("scenario.yaml").write_text("[1]\n")
    (made / "stored").mkdir()
    swept(made / "swept")
    for name in ("shards", "torn", "unmanifested", "columns"):
        (made / name).mkdir()
    (made / "shards" / "results-1of2.parquet").write_bytes(b"")
    (made / "torn" / "results.parquet").write_bytes((made / "swept" / "results.parquet").read_bytes()[:-20])
    (made / "unmanifested" / "results.parquet").write_bytes((made / "swept" / "results.parquet").read_bytes())
    pd.DataFrame({"a": [1]}).to_parquet(made / "columns" / "results.parquet")
    (made / "columns" / "manifest.json").write_text("{}")
    for key in ("seed", "warmup"):
        run_sweep({"base": "ring_check", "vary": {key: [1]}}, made / f"{key}s", workers=1)
    swept(made / "wider", **{"sparsifier.granularity": ["layer", "model"]})
    return made


def test_sweeps_are_joined_on_what_varies(tmp_path):
    a = swept(tmp_path / "a")
    b = swept(tmp_path / "b", density=(0.01, 0.1), bandwidth="1 Gbit/s", **{"sparsifier.granularity": ["layer"]})
    document = compare_outcomes(str(a), str(b))
    assert document["keys"] == ["sparsifier.density", "cluster.nodes"]
    assert [document[side]["place"] for side in ("a", "b")] == [str(a), str(b)]
    assert [item["key"] for item in document["single_valued"]] == ["sparsifier.granularity"]
    assert document["values"] == [{"key": "sparsifier.density", "only_a": [0.001], "only_b": [0.1]}]
    assert [point["key"]["sparsifier.density"] for point in document["points"]] == [0.01, 0.01]
    assert {item["sparsifier.density"] for item in document["only_a"]} == {0.001}
    assert {item["sparsifier.density"] for item in document["only_b"]} == {0.1}
    base = ("sparsifier={kind: topk, density: 0.01}",)
    for point in document["points"]:
        nodes = f"cluster.nodes={point['key']['cluster.nodes']}"
        slow = run(load("ring_check", (*base, nodes, "cluster.network.bandwidth=1 Gbit/s"))).document
        fast = run(load("ring_check", (*base, nodes, "cluster.network.bandwidth=10 Gbit/s"))).document
        assert (point["a_s"], point["b_s"]) == (fast["iteration_time_s"], slow["iteration_time_s"])
        assert point["largest_term"] == "communication_exposed"
    ratios = [point["ratio"] for point in document["points"]]
    assert ratios == sorted(ratios, reverse=True)
    back = [point["ratio"] for point in compare_outcomes(str(b), str(a))["points"]]
    assert back == [pytest.approx(1 / ratio) for ratio in ratios]  # the largest change first, either way
    assert document["summary"]["slower"] == 2
    same = compare_outcomes(str(a), str(a))
    assert same["summary"]["same_inputs"] == same["summary"]["alike"] == len(same["points"]) == 4
    output = printed("compare", a, b, "-o", tmp_path / "page.html")
    assert "2 are slower in B" in " ".join(output.split()) and NASTY in output


def test_a_stored_run_without_its_scenario_is_compared_by_its_figures(tmp_path):
    whole, bare = (invoke_run(tmp_path / name, "ring_check") for name in ("whole", "bare"))
    (bare / "scenario.yaml").unlink()
    document = compare_outcomes(str(whole), str(bare))
    assert not document["inputs"]["known"]
    assert {row["difference"] for row in document["figures"] if row["key"].startswith("breakdown_s")} == {0}


@pytest.mark.long
def test_a_whole_part_in_words_and_all_its_keys_on_the_page(tmp_path):
    arguments = ["quickstart", "quickstart", "--set-b", "workload=workloads/vgg16-v100"]
    count = len(compare_outcomes("quickstart", "quickstart", (), (arguments[-1],))["inputs"]["changes"])
    assert f"workload resnet50-v100 vgg16-v100 ({count} keys differ)" in lines_of(*arguments)
    assert f"500 of {count} keys" in page_of(tmp_path / "page.html", *arguments).pieces
    terms = ("negotiation", "cycle_time", "collective_launch", "gather_overhead", "message_overhead", "kernel_launch")
    software = [part for term in (*terms, "host_element") for part in ("--set-b", f"cluster.runtime.{term}=1 us")]
    assert "cluster.runtime 7 keys differ" in lines_of("ring_check", "ring_check", *software)
    assert "All 7 keys" in page_of(tmp_path / "page.html", "ring_check", "ring_check", *software).pieces


def test_a_page_of_stored_documents_says_that_their_inputs_are_not_known(tmp_path):
    for name, nodes in (("a", 4), ("b", 8)):
        document = run(load("ring_check", (f"cluster.nodes={nodes}",))).document
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    page = page_of(tmp_path / "page.html", tmp_path / "a.json", tmp_path / "b.json")
    assert "Inputs that differ" not in page.pieces and "Results" in page.pieces
    assert [part for part in page.pieces if "are not known" in part]
