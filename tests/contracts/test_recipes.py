"""Recipes for developers do what they say, with exactly the files that they list."""

import gzip
import json
import re

import pytest
from places import ROOT
from recipes import PAGE, apply_diff, carry_out, copy_package, differing, section
from stretched import in_interval

from simulator.prediction.run import run, with_responses
from simulator.scenario.reading import load

CARRIED_OUT = {"A doubt", "A sparsifier", "A scheduler", "A term of the breakdown", "A result key"}


def test_every_recipe_of_the_page_is_carried_out():
    assert set(re.findall(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), re.M)) == CARRIED_OUT


@pytest.mark.long
def test_a_doubt_is_in_the_interval_the_warnings_the_calibration_and_the_measurements(tmp_path):
    what, words = "pauses of the host", "pauses of the host are taken as 0"
    changed, before = carry_out("A doubt", tmp_path), with_responses(run(load("quickstart"))).document
    after = changed.result("run", "quickstart")
    assert after["iteration_time_s"] == before["iteration_time_s"]
    assert after["iteration_time_interval_s"][0] == before["iteration_time_interval_s"][0]
    assert after["iteration_time_interval_s"][1] > before["iteration_time_interval_s"][1]
    (row,) = (row for row in after["calibration"] if row not in before["calibration"])
    assert (row["what"], row["level"], row["width"], row["in_range"]) == (what, "assumed", 1.05, False)
    (text,) = (text for text in after["warnings"] if text.startswith(words))
    (size,) = (size for size in after["warning_sizes"] if size["text"].startswith(words))
    seconds = sum(before["breakdown_s"][term] for term in ("forward", "backward"))
    assert size["seconds"] == pytest.approx(seconds)
    more = in_interval(0.05 * seconds, after["iteration_time_s"])
    assert (size["less_s"], size["more_s"]) == (0, pytest.approx(more, rel=0.02))
    assert f"{100 * seconds / after['iteration_time_s']:.0f} % of this iteration" in text
    (group,) = (
        group
        for group in changed.result("explain", "quickstart")["uncertainty"]["groups"]
        if group["inputs"][0]["what"] == what
    )
    assert group["command"] == "sparsim record layers"
    assert group["high_s"] == pytest.approx(0.05 * seconds)


@pytest.mark.long
def test_a_sparsifier_is_listed_run_and_held_to_the_contracts(tmp_path):
    changed = carry_out("A sparsifier", tmp_path)
    assert re.search(r"^ *strided\b", changed.run("-m", "simulator", "list", "kinds"), re.M)
    document = changed.result("run", "quickstart", "sparsifier={kind: strided, density: 1 %}")
    assert document["density"]["target"] == pytest.approx(0.01)
    contracts = ROOT / "tests" / "contracts" / "test_sparsifier_contracts.py"
    said = changed.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "-k", "strided", contracts)
    assert re.match(r"\.{5,} ", said)


@pytest.mark.long
def test_a_scheduler_is_listed_run_simulated_and_held_to_the_contracts(tmp_path):
    changed = carry_out("A scheduler", tmp_path)
    assert re.search(r"^ *late\b", changed.run("-m", "simulator", "list", "kinds"), re.M)
    times = [
        changed.result("run", "straggler", f"scheduler={kind}", "iterations=1")["iteration_time_s"]
        for kind in ("wfbp", "{kind: late, share: 0}", "late", "{kind: late, share: 1}")
    ]
    assert times[0] == times[1] < times[2] < times[3]
    code = "import simulator; (made,) = simulator.simulation('straggler', scheduler='late', iterations=1).run()"
    assert float(changed.run("-c", f"{code}; print(made.time)")) == pytest.approx(times[2], rel=1e-12)
    contracts = ROOT / "tests" / "contracts" / "test_contracts.py"
    said = changed.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "-k", "late", contracts)
    assert re.match(r"\.{4,} ", said)


@pytest.mark.long
def test_a_term_is_in_the_breakdown_the_tables_and_the_timeline(tmp_path):
    changed, before = carry_out("A term of the breakdown", tmp_path), run(load("slow_links")).document
    after = changed.result("run", "slow_links")
    assert after["iteration_time_s"] == before["iteration_time_s"]
    terms, old = after["breakdown_s"], before["breakdown_s"]
    assert sum(terms.values()) == pytest.approx(after["iteration_time_s"], rel=1e-9)
    assert terms["outer_step"] > 0
    assert terms["outer_step"] + terms["update"] == pytest.approx(old["update"], rel=1e-9)
    assert {key: terms[key] for key in old if key != "update"} == {key: old[key] for key in old if key != "update"}
    assert re.search(r"^ *outer step +[\d.]+ us", changed.run("-m", "simulator", "run", "slow_links", "--full"), re.M)
    (term,) = (term for term in changed.result("explain", "slow_links")["terms"] if term["term"] == "outer_step")
    assert (term["label"], term["seconds"]) == ("outer step", terms["outer_step"])
    changed.run("-m", "simulator", "timeline", "slow_links", "-o", "timeline.json.gz")
    names = {
        event["name"]
        for event in json.loads(gzip.decompress((tmp_path / "timeline.json.gz").read_bytes()))["traceEvents"]
    }
    assert any(name.startswith("outer step, bucket ") for name in names)
    assert changed.result("run", "quickstart")["breakdown_s"]["outer_step"] == 0


def test_a_key_is_in_the_result_and_in_its_schema(tmp_path):
    changed, before = carry_out("A result key", tmp_path), run(load("straggler")).document
    after = changed.result("run", "straggler")
    hours = load("straggler").cluster.workers * 1e6 / before["throughput_samples_per_s"] / 3600
    assert after["gpu_hours_per_million"] == pytest.approx(hours)
    code = "import json; from simulator.answers import schema_of; from simulator.prediction.result import RunResult; "
    schema = json.loads(changed.run("-c", f"{code}print(json.dumps(schema_of(RunResult)))"))
    said = json.dumps(schema)
    assert "GPU hours for a million samples" in said
    assert "gpu_hours_per_million" in said


def test_a_recipe_that_lists_other_files_fails(tmp_path):
    page = tmp_path / "page.md"
    text = section(PAGE.read_text(encoding="utf-8"), "A doubt")
    page.write_text(
        f"## A doubt\n{text}".replace("| `simulator/prediction/doubts/workload.py` |", "| `simulator/run.py` |")
    )
    with pytest.raises(AssertionError, match="the page lists"):
        carry_out("A doubt", tmp_path / "copy", page)


def test_a_diff_that_fits_nowhere_or_at_several_places_fails(tmp_path):
    copy_package(tmp_path)
    name = "simulator/prediction/doubts/spread.py"
    for line, places in (("no such line", 0), ("    return math.inf", 0), ("from __future__ import annotations", 1)):
        diff = f"--- {name}\n@@\n {line}\n+# more\n"
        if places == 1:
            apply_diff(tmp_path, diff)
        else:
            with pytest.raises(AssertionError, match="0 places"):
                apply_diff(tmp_path, diff)
    with pytest.raises(AssertionError, match=r"has \d\d+ places"):
        apply_diff(tmp_path, f"--- {name}\n@@\n \n+# more\n")
    assert differing(tmp_path) == [name]
