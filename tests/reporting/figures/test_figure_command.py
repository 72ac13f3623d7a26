"""`sparsim report --figure`, and the figures of the sweeps that ship."""

import json

import pandas as pd
import pytest
from command_line import answered, printed, refused
from figure_results import ROOT, run_folder

from simulator.loading.documents import read_document
from simulator.reporting.figures.base import figures

SHIPPED = {"density_sweep": "density_sweep", "worker_sweep": "scaling_efficiency", "break_even_map": "break_even_map"}


def test_the_list_has_every_figure_with_its_question():
    listed = answered("list", "figures")["figures"]
    assert [item["kind"] for item in listed] == sorted(figures())
    text = " ".join(printed("list", "figures").split())
    assert all(f"{item['kind']}: {item['question']}" in text for item in listed)


@pytest.mark.parametrize("suffix", ["png", "svg", pytest.param("pdf", marks=pytest.mark.long)])
def test_a_picture_comes_with_its_table(tmp_path, suffix):
    out = tmp_path / "new" / f"bars.{suffix}"
    printed("report", "--figure", "iteration_breakdown", run_folder(), "-o", out)
    assert out.stat().st_size > 5000
    table = pd.read_csv(out.with_suffix(".csv"))
    document = json.loads((run_folder() / "result.json").read_text())
    assert table["time_s"].sum() == pytest.approx(document["iteration_time_s"])


def test_json_is_read_from_standard_input(tmp_path):
    text = (run_folder() / "result.json").read_text()
    printed("report", "--figure", "iteration_breakdown", "-", "-o", tmp_path / "a.svg", input=text)
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("bars",), "expected a kind of figure, got 'bars'"),
        (("iteration_breakdwn",), "did you mean 'iteration_breakdown'?"),
        (("link_utilisation", "--set", "links=0"), "links: expected at least 1, got 0"),
        (("link_utilisation", "--set", "link=3"), "did you mean 'links'?"),
        (("iteration_breakdown", "--set", "x"), "--set x: expected key=value, got 'x'"),
        (("density_sweep",), "a sweep"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, arguments, words):
    kind, *more = arguments
    said = refused("report", "--figure", kind, run_folder(), *more, "-o", tmp_path / "a.png")
    assert words in said and said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_another_format_and_a_missing_source_are_refused(tmp_path):
    bars = ("report", "--figure", "iteration_breakdown")
    assert ".png, .svg, .pdf" in refused(*bars, run_folder(), "-o", tmp_path / "a.jpg")
    assert "nothing of that name" in refused(*bars, tmp_path / "none", "-o", tmp_path / "a.png")
    refused(*bars)


def test_a_place_that_cannot_be_written_is_said_with_its_path(tmp_path):
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "a.png"
    said = refused("report", "--figure", "iteration_breakdown", run_folder(), "-o", out)
    assert said.startswith(f"{out}: expected a place that can be written, got ") and said.count("\n") == 1


def thinned(sweep):
    """A sweep file with at most 3 values a key: what it varies, not how finely."""
    for values in (sweep["vary"], *sweep.get("zip", [])):
        for key, given in values.items():
            if key != "sparsifier":
                values[key] = given | {"points": 3} if isinstance(given, dict) else [given[0], given[3], given[5]]
    return sweep


@pytest.mark.long
@pytest.mark.parametrize("name", SHIPPED)
def test_the_figures_of_the_shipped_sweeps_come_out_of_them(name, tmp_path):
    """From fewer points of each; all of them are evaluated in `test_sweep`."""
    from simulator.files import as_yaml

    (tmp_path / "thin.yaml").write_text(as_yaml(thinned(read_document(ROOT / f"scenarios/sweeps/{name}.yaml").data)))
    printed("sweep", tmp_path / "thin.yaml", "--out", tmp_path / "out", "--workers", 1)
    printed("report", "--figure", SHIPPED[name], tmp_path / "out", "-o", tmp_path / "figure.svg")
    assert len(pd.read_csv(tmp_path / "figure.csv")) >= 9
