"""Every paper's document is valid, and its parts are carried out, with smaller values, and written as a page."""

import re
from importlib.util import find_spec

import pytest
from click.testing import CliRunner
from places import ROOT

from simulator.cli import main
from simulator.errors import InputError
from simulator.loading.finding import known_names
from simulator.reporting.figures.base import figure_of
from simulator.studies.papers.carrying_out import carry_out
from simulator.studies.papers.document import NOT_STATED, PAPERS, read_paper
from simulator.studies.papers.page import write_paper
from simulator.studies.sweep.points import GridPoints

NAMES = known_names(PAPERS)
PAGES = ROOT / "docs" / "background" / "papers"
SMALL = """
title: A paper
citation: Nobody, 2020
read: nothing
parts:
  - name: one
    shows: one thing
    sweep:
      base: ring_check
      intervals: none
      vary: {cluster.nodes: [2, 4, 8]}
    quick: {sweep: {vary: {cluster.nodes: [2]}}}
    figures: [{kind: lines, settings: {quantity: iteration_time_s}, names: {as in the base: ring}}]
    states:
      - {says: it grows, place: abstract, found: [{what: the time, column: iteration_time_s, take: max, show: time}]}
      - {found: [{what: workers, column: workers, take: max}], note: nothing}
"""


def write(tmp_path, text=SMALL):
    path = tmp_path / "paper.yaml"
    path.write_text(text)
    return str(path)


def test_there_is_a_document_for_each_seed():
    assert NAMES == ["exdyna", "gaussiank", "layer-wise", "partition-priority", "skip-reduce"]


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_document_has_valid_sweeps_and_figures(name):
    document = read_paper(name)
    for number, part in enumerate(document.paper.parts):
        for drawing in part.figures:
            figure_of(drawing.kind, drawing.settings)
        if part.sweep is not None:
            points = GridPoints(document.part_document(number, "sweep"), ROOT / PAPERS, strict=True)
            for point in points.grid.numbers()[:: max(1, len(points.grid.numbers()) // 8)]:
                points.scenario(point)  # raises for one that is not valid


@pytest.mark.parametrize("name", NAMES)
def test_its_page_in_the_documentation_has_every_part_and_statement(name):
    page = " ".join((PAGES / name / "page.md").read_text(encoding="utf-8").split())
    paper = read_paper(name).paper
    for part in paper.parts:
        assert part.shows in page
        for statement in part.states:
            assert f"| {' '.join(statement.says.split())}" in page, statement.says
            assert " ".join(statement.note.split()) in page
            assert all(f"{' '.join(found.what.split())}: **" in page for found in statement.found)
    pictures = re.findall(r"\]\((\S+\.png)\)", page)
    assert len(pictures) == sum(len(part.figures) for part in paper.parts)
    for picture in pictures:
        assert 1000 < (PAGES / name / picture).stat().st_size <= 120_000


TRAINED = ("training", "quality")
SLOW = ("partition-priority",)
"""Papers whose messages are followed one by one, which takes half a minute even with smaller values."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long if name in SLOW else ()) for name in NAMES])
def test_its_parts_are_carried_out_and_written(name, tmp_path):
    document = read_paper(name, quick=True)
    plain = [part.name for part in document.paper.parts if part.study not in TRAINED]
    results = list(carry_out(document, tmp_path, plain, workers=1))
    check_page(document, results, tmp_path)


@pytest.mark.torch
@pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")
@pytest.mark.parametrize("name", ["exdyna", "gaussiank", "skip-reduce"])
def test_its_trainings_are_carried_out_and_written(name, tmp_path):
    document = read_paper(name, quick=True)
    trained = [part.name for part in document.paper.parts if part.study in TRAINED]
    results = list(carry_out(document, tmp_path, trained, workers=1))
    check_page(document, results, tmp_path)
    curves = results[0].rows
    assert set(curves["seed"]) == {0, 1} and curves["loss"].notna().all()
    assert len(list((tmp_path / trained[0]).glob("*/curve.csv"))) == 2 * curves["method"].nunique()


def check_page(document, results, tmp_path):
    """Write the page of some parts: it has every figure and every value, and nothing that is not a number."""
    page = write_paper(document, results, tmp_path, "a command").read_text(encoding="utf-8")
    assert page.count("](") == sum(len(result.part.figures) for result in results)
    assert not re.search(r"\b(nan|inf)\b", page)
    found = [answer for result in results for answer in result.answers]
    assert all(answer.values for answer in found)
    assert page.count(": **") == sum(len(answer.values) for answer in found)


def test_a_page_says_what_is_stated_and_what_is_found(tmp_path):
    result = CliRunner().invoke(main, ["reproduce", write(tmp_path), "--out", str(tmp_path / "out"), "--workers", "1"])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "out" / "page.md").read_text()
    assert "| it grows (abstract) | the time: **" in page
    assert f"| {NOT_STATED} | workers: **8** |" in page
    assert (tmp_path / "out" / "one.png").stat().st_size > 5000
    assert "ring,8,workers," in (tmp_path / "out" / "one.csv").read_text()
    again = CliRunner().invoke(
        main, ["reproduce", write(tmp_path), "--out", str(tmp_path / "quick"), "--quick", "--workers", "1"]
    )
    assert again.exit_code == 0
    assert f"| {NOT_STATED} | workers: **2** |" in (tmp_path / "quick" / "page.md").read_text()


def test_without_a_paper_all_are_listed():
    text = " ".join(CliRunner().invoke(main, ["reproduce"]).output.split())
    assert all(f"{name}: {read_paper(name).paper.title}" in text for name in NAMES)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("place: abstract, ", "", "expected the `place` in the paper where this is said, got nothing"),
        ("    sweep:\n", "    swep:\n", "expected a known key, got 'swep': did you mean 'sweep'?"),
        ("vary: {cluster.nodes: [2, 4, 8]}", "vary: {}", "expected keys to `vary` or to `zip`"),
        ("[2, 4, 8]", "[2, 4, nodes]", "expected a whole number, got 'nodes'"),
        ("column: workers", "column: wrkers", "expected a column of the rows, got 'wrkers'"),
        ("take: max, show", "take: most, show", "expected one of"),
        ("kind: lines", "kind: line", "expected a kind of figure, got 'line'"),
        ("quantity: iteration_time_s", "quantity: iteration", "for figure lines columns of numbers"),
        ("name: one", "name: One thing", "parts.0.name"),
    ],
)
def test_a_wrong_document_is_refused_with_its_place(tmp_path, old, new, words):
    assert old in SMALL
    result = CliRunner().invoke(
        main, ["reproduce", write(tmp_path, SMALL.replace(old, new)), "--out", str(tmp_path / "out"), "--workers", "1"]
    )
    assert result.exit_code == 2, result.output
    assert words in result.output and "Traceback" not in result.output


def test_an_unknown_part_and_an_unknown_paper_are_refused(tmp_path):
    with pytest.raises(InputError, match="a part of the paper, got 'two': valid: one"):
        list(carry_out(read_paper(write(tmp_path)), tmp_path, ["two"]))
    with pytest.raises(InputError, match=r"no paper named 'gausiank'.*did you mean 'gaussiank'"):
        read_paper("gausiank")


def test_a_point_that_fails_is_named(tmp_path):
    grid = "sparsifier: [skip_reduce, dense], topology: [parameter_server]"
    text = SMALL.replace("cluster.nodes: [2, 4, 8]", grid)
    with pytest.raises(InputError, match="a sweep without points that fail, got 1 that fail: "):
        list(carry_out(read_paper(write(tmp_path, text)), tmp_path, workers=1))
