"""Stored results: damaged numbers are refused with their row and column, or their key."""

import copy
import json
import math

import pandas as pd
import pytest
from small_inputs import WHOLE
from small_scenarios import small_scenario

from simulator.answers import read_answer
from simulator.errors import InputError
from simulator.prediction import run_files
from simulator.prediction.result import RunResult, column_keys
from simulator.prediction.run import run
from simulator.prediction.run_files import check_table, read_json, read_result, store, traffic_table
from simulator.scenario.reading import load
from simulator.studies.storage.row_table import row_of

BAD = [-1.0, math.inf, -math.inf, "abc", "1e400"]


@pytest.fixture(scope="module")
def document():
    return json.loads(json.dumps(run(load(WHOLE)).document))


@pytest.fixture(scope="module")
def table(document):
    row = row_of(read_answer(document, RunResult, "here"))
    return pd.DataFrame([{"sparsifier.density": value, **row, "error": None} for value in (0.1, 0.2, 0.3)])


def numbers_in(value, place=()):
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers_in(inner, (*place, key))
    elif isinstance(value, float):
        yield place


def test_whole_results_are_left_as_they_are(document, table):
    assert read_result(document, "here").to_dict() == document
    checked = check_table(table, "here")
    assert list(checked.columns) == list(table.columns)
    assert checked["iteration_time_s"].equals(table["iteration_time_s"])


@pytest.mark.long
def test_every_column_of_numbers_is_checked_and_names_its_row(table):
    columns = [name for name in table.columns[1:] if pd.api.types.is_float_dtype(table[name]) and name in column_keys()]
    assert len(columns) > 20
    for name in columns:
        for value in BAD:
            damaged = table.astype({name: object})
            damaged.loc[1, name] = value
            with pytest.raises(InputError, match=f"row 2: {name}: expected a (number of 0 or more|share from 0 to 1)"):
                check_table(damaged, "here")


def test_a_point_without_an_error_has_an_iteration_time(table):
    damaged = table.copy()
    damaged.loc[2, "iteration_time_s"] = math.nan
    with pytest.raises(InputError, match=r"here: row 3: iteration_time_s: .* got nothing"):
        check_table(damaged, "here")
    damaged["error"] = damaged["error"].astype(object)
    damaged.loc[2, "error"] = "too large"
    check_table(damaged, "here")


def test_varied_keys_may_be_words_but_not_infinite(table):
    check_table(table.assign(**{"sparsifier.density": ["low", "0.1", "auto"]}), "here")
    with pytest.raises(InputError, match=r"row 1: sparsifier\.density: expected a number within 1e\+30, got inf"):
        check_table(table.assign(**{"sparsifier.density": [math.inf, 0.1, 0.2]}), "here")


def test_every_number_of_a_document_is_checked_and_named(document):
    places = [place for place in numbers_in(document) if "[" not in str(place[-1])]
    assert len(places) > 30
    for place in places:
        for value in ("abc", math.inf, math.nan, 1e40):
            damaged = copy.deepcopy(document)
            inside = damaged
            for key in place[:-1]:
                inside = inside[key]
            inside[place[-1]] = value
            with pytest.raises(InputError, match=f"here: {place[0]}"):
                read_result(damaged, "here")


def test_what_is_beyond_its_bounds_is_named(document, table):
    """No more than all elements, and nothing that figures could only draw as infinite."""
    for column, value, what in (("density.selected", 1.5, "a share from 0 to 1"), ("iteration_time_s", 1e40, "0 or")):
        damaged = table.copy()
        damaged.loc[1, column] = value
        with pytest.raises(InputError, match=f"here: row 2: {column}: expected .*{what}"):
            check_table(damaged, "here")
    damaged = copy.deepcopy(document)
    damaged["density"]["aggregated"] = 1.5
    with pytest.raises(InputError, match=r"density\.aggregated: expected a share from 0 to 1, got 1.5"):
        read_result(damaged, "here")


@pytest.mark.parametrize("key", ["breakdown_s", "traffic", "density", "fidelity", "calibration", "warnings"])
@pytest.mark.parametrize("value", [None, "abc", -1, [None], True])
def test_a_part_of_another_form_is_refused(document, key, value):
    with pytest.raises(InputError, match=f"here: {key}"):
        read_result({**document, key: value}, "here")


def stored(folder, **parts):
    """The files of a job that computes for 1 s and sends 2,400 bytes of gradients at 1 kB/s, and its prediction."""
    workload = {"layers": [{"name": "a", "numel": 600, "backward": 1.0}]}
    card, network = {"name": "card", "ideal": True}, {"bandwidth": 1e3}
    made = run(small_scenario(workload, card, network, ignore_memory=True, iterations=1, warmup=0, **parts))
    store(folder, made)
    return {path.name: path.read_text().splitlines() for path in folder.iterdir()}, made


def test_traffic_is_written_by_pairs_and_of_very_many_by_nodes(tmp_path, monkeypatch):
    files, _ = stored(tmp_path / "ring", nodes=3)
    assert sorted(files) == ["result.json", "scenario.yaml", "traffic.csv"]
    rows = ["worker 0,worker 1,3200.0", "worker 1,worker 2,3200.0", "worker 2,worker 0,3200.0"]
    assert files["traffic.csv"] == ["source,destination,bytes", *rows]
    files, made = stored(tmp_path / "server", topology={"kind": "parameter_server", "servers": 1})
    pairs = [("worker 0", "server 0"), ("worker 1", "server 0"), ("server 0", "worker 0"), ("server 0", "worker 1")]
    assert files["traffic.csv"][1:] == [f"{source},{other},2400.0" for source, other in pairs]
    for most, first in ((4, "worker 0,server 0,2400.0"), (3, "node 0,node 2,2400.0")):
        monkeypatch.setattr(run_files, "_PAIRS", most)
        assert traffic_table(made).splitlines()[1] == first
    assert sorted(stored(tmp_path / "alone", nodes=1)[0]) == ["result.json", "scenario.yaml"]


def test_rates_of_shared_links_are_written_where_they_change(tmp_path):
    """Two rounds of 1,200 bytes, of which node 0 sends 1,000 in a second, and the other 1,400 at half of its rate."""
    files, _ = stored(tmp_path, cluster={"links": [{"link": "node 0 NIC out", "factor": 0.5, "start": 2.0}]})
    assert files["links.csv"][0] == "time_s,link,bytes_per_s,utilisation"
    changes = [line.split(",") for line in files["links.csv"] if "node 0 NIC out" in line]
    found = [tuple(float(each) for each in (time, rate, share)) for time, _, rate, share in changes]
    assert found == [pytest.approx(row) for row in ((1, 1e3, 1), (2, 500, 0.5), (4.8, 0, 0))]


@pytest.mark.parametrize("text", ["[NaN]", "[Infinity]", "[-Infinity]", f"[{'9' * 400}]"])
def test_json_of_numbers_that_are_not_finite_is_no_json(text):
    with pytest.raises(InputError, match=r"here: expected JSON, got '.*(not JSON|digits)"):
        read_json(text, "here")
