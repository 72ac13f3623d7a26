"""A result by name, as a table, in one line, and in a notebook."""

import json
import math
from html.parser import HTMLParser

import pytest

import simulator
from simulator.models.timeline import TERM_LABELS
from simulator.units import show_time


@pytest.fixture(scope="module")
def result():
    return simulator.run("quickstart")


def test_every_figure_is_that_of_the_document(result):
    document = result.document
    assert result.iteration_time == document["iteration_time_s"]
    assert list(result.interval) == document["iteration_time_interval_s"]
    assert result.intervals[90] == result.interval
    assert result.throughput == pytest.approx(result.workers * 64 / result.iteration_time)
    assert math.fsum(result.breakdown.values()) == pytest.approx(result.iteration_time)
    assert result.traffic.sent_per_worker == document["traffic"]["sent_bytes_per_worker"]
    assert result.traffic.busiest_link.name == document["traffic"]["busiest_link"]["name"]
    assert result.density.build_up == pytest.approx(result.density.aggregated / result.density.selected)
    assert list(result.warnings) == document["warnings"]
    memory, made = result.memory, document["memory"]
    assert (memory.total, memory.capacity, memory.fits) == (made["total_bytes"], made["capacity_bytes"], made["fits"])
    assert memory.interval[0] <= memory.total <= memory.interval[1] and memory.parts == made["parts_bytes"]


def test_the_verdict_says_who_wins_by_how_much_and_how_sure_that_is(result):
    verdict = result.verdict
    low, high = verdict.speed_up_interval
    assert low < verdict.speed_up < high < 1 and (verdict.word, verdict.probability < 0.05) == ("no", True)
    assert verdict.speed_up == pytest.approx(verdict.opponent_time / result.iteration_time)
    assert verdict.opponent.startswith("dense as Horovod sends it")
    assert str(verdict) == result.document["comparison"]["answer"] and verdict.question.startswith("Does Top-k")


def test_the_short_form_fits_a_line_of_a_notebook(result):
    time, low, high = map(show_time, (result.iteration_time, *result.interval))
    assert repr(result).startswith(f"<Result ResNet-50, Top-k 0.1 %, 32 GPUs on 10 GbE; {time} ({low} to {high})")
    assert len(repr(result)) < 500
    assert len(repr(simulator.run("ring_check", name="long " * 500))) < 500
    assert "\n" not in repr(simulator.run("ring_check", name="two\nlines"))


def test_the_table_has_one_row_with_the_columns_of_a_sweep_and_their_units(result):
    frame = result.to_frame()
    swept = simulator.sweep("quickstart", {"cluster.nodes": [8]})
    assert len(frame) == 1 and set(swept.columns) - {"cluster.nodes", "error"} <= set(frame.columns)
    assert frame["iteration_time_s"].item() == result.iteration_time
    units = frame.attrs["units"]
    assert (units["iteration_time_s"], units["traffic.total_bytes"], units["scaling_efficiency"]) == ("s", "B", "1")
    assert "scenario" not in units


def test_a_copy_of_the_document_can_be_changed(result):
    result.to_dict()["traffic"]["total_bytes"] = 0
    assert result.traffic.total > 0 and json.loads(json.dumps(result.document)) == result.document


class Read(HTMLParser):
    """Tags, texts and attributes of a page that must be well-formed."""

    def __init__(self, html):
        super().__init__()
        self.open, self.texts, self.attributes, self.tags = [], [], [], []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_a_notebook_shows_the_bar_of_terms_and_the_answer(result):
    page = Read(result._repr_html_())
    text = " ".join(page.texts)
    assert show_time(result.iteration_time) in text and result.verdict.text in text
    assert TERM_LABELS["selection"] in text
    widths = [
        float(value.partition("width:")[2].partition("%")[0])
        for name, value in page.attributes
        if name == "style" and value.startswith("width:")
    ]
    assert math.fsum(widths) == pytest.approx(100, abs=0.05)
    assert not {"script", "style", "link", "img"} & set(page.tags)


def test_names_are_escaped_in_a_notebook():
    name = "<script>alert('x')</script>&"
    page = Read(simulator.run("ring_check", name=name)._repr_html_())
    assert "script" not in page.tags and name in " ".join(page.texts)


def test_a_run_that_takes_no_time_is_shown():
    layers = [{"name": "a", "numel": 1, "forward": 0, "backward": 0}]
    result = simulator.run("ring_check", cluster={"nodes": 1}, workload={"batch_size": 1, "layers": layers})
    assert (result.iteration_time, result.throughput, result.scaling_efficiency) == (0.0, None, None)
    Read(result._repr_html_())
    assert len(result.to_frame()) == 1
