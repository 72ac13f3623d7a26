"""Recorded bandwidths: what a trace does to an iteration, by hand; its file, errors by line, and its end."""

import pytest
from worked_scenarios import worked

from simulator.errors import InputError
from simulator.prediction.run import run
from simulator.scenario.cluster import MAX_STEPS
from simulator.scenario.reading import load

RATE, S = 1e6, 8e6
RUN = {"scheduler": "sequential", "ignore_memory": True, "iterations": 2}
SCENARIO = worked([(2, 0.5, 0.5)], bandwidth=RATE, **RUN)
"""A second of compute, then two rounds of 4 MB each way at 1 MB/s: 8 seconds."""


@pytest.fixture
def seconds(tmp_path, monkeypatch):
    """The iteration time of the scenario with a trace of these rows, and its warnings."""
    monkeypatch.chdir(tmp_path)

    def predict(text, start=None, **changes):
        (tmp_path / "trace.csv").write_text(text)
        trace = "trace.csv" if start is None else {"file": "trace.csv", "start": start}
        document = run(load(SCENARIO | changes, {"cluster.link_trace": trace})).document
        return document["iteration_time_s"], document["warnings"]

    return predict


ROWS = "seconds,link,share\n0,node 0 NIC out,1\n3,node 0 NIC out,0.5\n7,node 0 NIC out,0\n8,node 0 NIC out,1\n"


def test_rates_are_shares_of_what_the_network_states(seconds):
    rates = ROWS.replace("share", "rate").replace("out,0.5", "out,4 Mbit/s").replace("out,1", "out,1 MB/s")
    assert seconds(rates)[0] == pytest.approx(12.0, rel=1e-9)


@pytest.mark.parametrize(
    ("start", "expected"), [(None, 12.0), (0.0, 12.0), (2.0, 1 + 4 + 1 + 6), (3.5, 1 + 2.5 + 1 + 6.75), (8.0, 9)]
)
def test_an_iteration_begins_anywhere_in_a_trace(seconds, start, expected):
    """From its start 2 MB until second 3, 2 MB until 7, nothing until 8, and the other 4 MB until 12."""
    assert seconds(ROWS, start)[0] == pytest.approx(expected, rel=1e-9)


def test_before_its_first_row_a_link_has_its_whole_bandwidth(seconds):
    assert seconds("seconds,link,share\n5,node 0 NIC out,0.5\n")[0] == pytest.approx(5 + 4 / 0.5, rel=1e-9)


def test_one_name_stands_for_several_links_and_factors_multiply(seconds):
    trace = "seconds,link,share\n0,node 0 NIC,0.5\n0,node 0,0.5\n"
    assert seconds(trace)[0] == pytest.approx(1 + 8 / 0.25, rel=1e-9)
    slow = {"cluster": SCENARIO["cluster"] | {"links": [{"link": "node 0 NIC out", "factor": 0.5}]}}
    assert seconds(trace, **slow)[0] == pytest.approx(1 + 8 / 0.125, rel=1e-9)


def test_a_trace_that_changes_nothing_is_no_trace(seconds):
    assert seconds("seconds,link,share\n0,node 0 NIC out,1\n100,node 0 NIC out,1\n") == (pytest.approx(9.0), [])


def test_a_period_of_local_steps_begins_where_the_trace_does(seconds):
    """Four steps of a second, then 8 s of exchange: at half of the rate from second 8 on."""
    diloco = {"scheduler": {"kind": "local_sgd", "inner_steps": 4}}
    time, _ = seconds("seconds,link,share\n8,node 0 NIC out,0.5\n40,node 0 NIC out,0.5\n", **diloco)
    assert 4 * time == pytest.approx(4 + 4 + 4 / 0.5, rel=1e-9)


def test_periods_that_overlap_are_refused(seconds):
    with pytest.raises(InputError, match="expected a scheduler whose exchanges end with its period, got overlapped_di"):
        seconds(ROWS, scheduler={"kind": "overlapped_diloco", "inner_steps": 4})


def test_what_comes_after_the_trace_is_warned_of(seconds):
    """3.6 MB at nine tenths of the rate until second 5, the other 4.4 MB at the whole rate."""
    _, warnings = seconds("seconds,link,share\n0,node 0 NIC out,0.9\n5,node 0 NIC out,1\n")
    (found,) = [text for text in warnings if "recorded" in text]
    assert found.startswith("an iteration lasts 9.4 s, but the recorded bandwidths end after 5 s; the last of them")
    assert not [text for text in seconds(f"{ROWS}100,node 0 NIC out,1\n")[1] if "recorded" in text]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("seconds,link\n0,node 0\n", "trace.csv:2: expected a column share or a column rate, got neither"),
        (
            "seconds,link,share,rate\n0,node 0,1,1\n",
            "trace.csv:2: expected a column share or a column rate, got share an",
        ),
        ("seconds,share\n0,1\n", "trace.csv:1: expected the columns seconds, link, got 'seconds, share'"),
        ("seconds,link,share\n", "trace.csv: expected at least one row, got none"),
        ("", "trace.csv:1: expected the columns seconds, link, got an empty file"),
        ("seconds,link,share\n0,node 0,1.5\n", "trace.csv:2: share: expected a share from 0 to 1, got '1.5'"),
        ("seconds,link,share\n0,node 0,1e-9\n", "trace.csv:2: share: expected a share from 0 to 1, got '1e-9'"),
        ("seconds,link,share\n0,node 0,nan\n", "trace.csv:2: share: expected a share from 0 to 1, got 'nan'"),
        ("seconds,link,share\n-1,node 0,1\n", "trace.csv:2: seconds: expected seconds, 0 or more, got '-1'"),
        ("seconds,link,share\n0,,1\n", "trace.csv:2: link: expected the name of a link, got ''"),
        (
            "seconds,link,rate\n0,node 0,5\n",
            "trace.csv:2: rate: expected a rate with its unit, such as 187.5 Mbit/s, or 0",
        ),
        ("seconds,link,share\n1,node 0,1\n1,node 0,1\n", "trace.csv:3: seconds: expected more than 1, the time before"),
        ("seconds,link,share\n0,node 0\n", "trace.csv:2: expected 3 cells, got 2"),
        ("seconds,link,share\n0,nide 0,1\n", "expected a link of this fabric, got nide 0"),
        (
            "seconds,link,rate\n0,node 0,2 MB/s\n",
            "expected at most 8 Mbit/s on node 0 NIC out, got 16 Mbit/s: the network",
        ),
        ("seconds,link,share\n0,node 0,0\n", "expected every exchange to end, got workers that wait for"),
        ("seconds,link,share\n" + "0,node 0,1\n" * (MAX_STEPS + 1), "expected more than 0, the time before"),
    ],
)
def test_a_trace_that_cannot_be_is_refused_with_its_line(seconds, rows, said):
    with pytest.raises(InputError) as caught:
        seconds(rows)
    assert said in str(caught.value)


@pytest.mark.long
def test_a_long_trace_is_read_and_one_that_is_too_long_is_refused(seconds):
    rows = [f"{second},node 0 NIC out,{0.5 + 0.25 * (second % 2)}" for second in range(MAX_STEPS + 1)]
    time, _ = seconds("\n".join(["seconds,link,share", *rows[:-1]]))
    assert time == pytest.approx(1 + 8 / 0.625, rel=0.1)
    with pytest.raises(InputError, match="expected at most 100,000 rows, got more"):
        seconds("\n".join(["seconds,link,share", *rows]))


NAMED = "expected the name of a CSV file with recorded bandwidths, in the folder of the scenario or the current one"


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        ("absent.csv", f"{NAMED}, got 'absent.csv'"),
        ({"file": "trace.csv", "start": 9.0}, "expected a `start` within the trace, at most 8 s, got 9 s"),
        ({"file": 3}, f"{NAMED}, got 3"),
        (5, "cluster.link_trace: expected a mapping"),
        ({"links": [{"link": "node 0", "seconds": [1], "share": []}]}, "expected a share, or a rate, for each time"),
        (
            {"links": [{"link": "node 0", "seconds": [2, 1], "share": [1, 1]}]},
            "expected times that rise, got 2 s, then 1",
        ),
    ],
)
def test_a_trace_is_refused_where_it_is_named(tmp_path, monkeypatch, trace, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace.csv").write_text(ROWS)
    with pytest.raises(InputError) as caught:
        load(SCENARIO, {"cluster.link_trace": trace})
    assert said in str(caught.value)


def test_a_trace_needs_flows_and_is_written_out_in_the_resolved_scenario(seconds, tmp_path):
    seconds(ROWS)
    spec = load(SCENARIO, {"cluster.link_trace": "trace.csv"})
    assert load(spec.resolved()).cluster.link_trace == spec.cluster.link_trace
    with pytest.raises(InputError, match="node 0 NIC out changes while messages are under way"):
        seconds(ROWS, fidelity="fold")
