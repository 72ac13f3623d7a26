"""Every paper's document is valid, and its parts are carried out, with smaller values, and written as a page."""

import re
from importlib.util import find_spec

import pytest
from command_line import invoke, printed, refused
from long_examples import few_first
from places import ROOT

from simulator.errors import InputError
from simulator.loading.finding import known_names
from simulator.reporting.figures.base import figure_of
from simulator.studies.papers import carrying_out
from simulator.studies.papers.carrying_out import carry_out
from simulator.studies.papers.claims import Claim, Finding, claim_table
from simulator.studies.papers.document import NOT_STATED, PAPERS, ComputedFigure, Statement, read_paper
from simulator.studies.papers.page import write_paper
from simulator.studies.sweep.points import GridPoints

NAMES = known_names(PAPERS)
PAGES = ROOT / "docs" / "background" / "papers"
SMALL = """
title: A paper
citation: Nobody, 2020
read: nothing
source: arXiv 0000.00000
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
      - {says: it grows, place: abstract, value: {above: 1 us}, unit: s,
         found: [{what: the time, column: iteration_time_s, take: max, show: time}]}
      - {found: [{what: workers, column: workers, take: max}], note: nothing}
"""


def write(tmp_path, text=SMALL):
    path = tmp_path / "paper.yaml"
    path.write_text(text)
    return str(path)


def test_there_is_a_document_for_each_seed():
    assert NAMES == ["deft", "exdyna", "gaussiank", "layer-wise", "micro", "partition-priority", "skip-reduce"]


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_document_has_valid_sweeps_and_figures(name):
    document = read_paper(name)
    for number, part in enumerate(document.paper.parts):
        for drawing in part.figures:
            figure_of(drawing.kind, drawing.settings)
        if part.sweep is not None:
            sweep = document.part_document(number, "sweep", dict.fromkeys(part.measured, 1.0))
            points = GridPoints(sweep, ROOT / PAPERS, strict=True)
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
            assert statement.value is None or f"| {Claim(statement, ()).stated} |" in page
    assert "**Not run" not in page
    pictures = re.findall(r"\]\((\S+\.png)\)", page)
    assert len(pictures) == sum(len(part.figures) for part in paper.parts)
    for picture in pictures:
        assert 1000 < (PAGES / name / picture).stat().st_size <= 120_000


TRAINED = ("training", "quality")
QUICK = ("layer-wise",)


@pytest.mark.parametrize("name", few_first(sorted(NAMES, key=QUICK.__contains__, reverse=True), len(QUICK)))
def test_its_parts_are_carried_out_and_written(name, tmp_path):
    document = read_paper(name, quick=True)
    plain = [part.name for part in document.paper.parts if part.study not in TRAINED]
    check_page(document, list(carry_out(document, tmp_path, plain, workers=1)), tmp_path)


@pytest.mark.torch
@pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")
@pytest.mark.parametrize("name", ["deft", "exdyna", "gaussiank", "micro", "skip-reduce"])
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
    found = [finding for result in results for claim in result.claims for finding in claim.findings]
    assert all(finding.values for finding in found)
    assert page.count(": **") == sum(len(finding.values) for finding in found)


def test_a_page_says_what_is_stated_and_what_is_found(tmp_path):
    result = invoke("reproduce", write(tmp_path), "--out", tmp_path / "out", "--workers", "1")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "out" / "page.md").read_text()
    assert "| it grows (abstract, arXiv 0000.00000) | above 1 us | the time: **" in page
    assert f"| {NOT_STATED} | {NOT_STATED} | workers: **8** | – | – |" in page
    assert (tmp_path / "out" / "one.png").stat().st_size > 5000
    assert "ring,8,workers," in (tmp_path / "out" / "one.csv").read_text()
    assert invoke("reproduce", write(tmp_path), "--out", tmp_path / "quick", "--quick", "--workers", "1").exit_code == 0
    assert f"| {NOT_STATED} | {NOT_STATED} | workers: **2** | – | – |" in (tmp_path / "quick" / "page.md").read_text()


def test_without_a_paper_all_are_listed():
    text = " ".join(printed("reproduce").split())
    assert all(f"{name}: {read_paper(name).paper.title}" in text for name in NAMES)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("unit: s,", "", "expected the unit of the first of `found`: s, got none"),
        ("value: {above: 1 us}", "value: much", "expected a number, or comparisons: above, at_least, below, at_most"),
        ("value: {above: 1 us}", "value: {over: 1}", "expected a number, or comparisons"),
        ("source: arXiv 0000.00000", "", "expected this key, got nothing"),
        ("place: abstract, ", "", "expected the `place` in the paper where this is said, got nothing"),
        ("    sweep:\n", "    swep:\n", "expected a known key, got 'swep': did you mean 'sweep'?"),
        ("vary: {cluster.nodes: [2, 4, 8]}", "vary: {}", "expected keys to `vary` or to `zip`"),
        ("[2, 4, 8]", "[2, 4, nodes]", "expected a whole number, got 'nodes'"),
        ("column: workers", "column: wrkers", "expected a column of the rows, got 'wrkers'"),
        ("take: max, show", "take: most, show", "expected one of"),
        ("kind: lines", "kind: line", "expected a kind of figure, got 'line'"),
        ("quantity: iteration_time_s", "quantity: iteration", "for figure lines columns of numbers"),
        ("name: one", "name: One thing", "parts.0.name"),
        ("parts:", "kernels: {a: {}}\nkernel: b\nparts:", "expected a `kernel` of the paper's software: a, got b"),
        ("{says: it", "{by_kernel: true, says: it", "expected `kernels` of a paper with figures by kernel, got none"),
    ],
)
def test_a_wrong_document_is_refused_with_its_place(tmp_path, old, new, words):
    assert old in SMALL
    said = refused("reproduce", write(tmp_path, SMALL.replace(old, new)), "--out", tmp_path / "out", "--workers", "1")
    assert words in said and "Traceback" not in said


def test_an_unknown_part_and_an_unknown_paper_are_refused(tmp_path):
    with pytest.raises(InputError, match="a part of the paper, got 'two': valid: one"):
        list(carry_out(read_paper(write(tmp_path)), tmp_path, ["two"]))
    with pytest.raises(InputError, match=r"no paper named 'gausiank'.*did you mean 'gaussiank'"):
        read_paper("gausiank")


KERNELS = """kernels: {old: {cluster.gpu: gpus/v100}, new: {cluster.gpu: gpus/v100-pytorch2}}
kernel: old
"""
FLIP = (
    SMALL.replace("parts:", f"{KERNELS}parts:").split("    sweep:")[0]
    + """    sweep:
      base:
        workload: {name: one vector, batch_size: 1, layers: [{name: vector, numel: 16777216}], optimiser: sgd}
        cluster: {nodes: 2, gpu: gpus/v100, network: networks/10gbe-tcp, runtime: runtimes/pytorch-1.5}
        topology: ring
        sparsifier: dense
        scheduler: sequential
      intervals: none
      vary:
        cluster.gpu: [gpus/v100, gpus/v100-pytorch2]
        sparsifier: [{kind: topk, density: 0.1 %}, {kind: gaussiank, density: 0.1 %}]
    states:
      - says: GaussianK is faster
        place: abstract
        value: {above: 1}
        unit: times
        by_kernel: true
        found:
          - what: Top-k over GaussianK
            column: breakdown_s.selection
            where: {sparsifier: topk}
            over: {sparsifier: gaussiank}
            show: times
          - {what: fastest, column: sparsifier, lowest: breakdown_s.selection, show: text}
"""
)


def test_a_claim_that_flips_on_a_newer_kernel(tmp_path):
    document = read_paper(write(tmp_path, FLIP))
    (result,) = carry_out(document, tmp_path / "out", workers=1)
    (claim,) = result.claims
    old, new = claim.findings
    assert (old.kernel, claim.inside(old), old.values[1][1]) == ("old", True, "gaussiank 0.1 %")
    assert (new.kernel, claim.inside(new), new.values[1][1]) == ("new", False, "topk 0.1 %")
    assert claim.ratio(old) == old.ours > 20 and claim.ratio(new) == new.ours < 1
    assert claim.survives(document.paper) == "no longer"
    page = write_paper(document, [result], tmp_path / "out", "a command").read_text()
    assert "| above 1 times | old | Top-k over GaussianK: **" in page and "fastest: **topk 0.1 %** |" in page
    (row,) = claim_table([("one", document.paper, result.claims)]).text_rows()
    assert [cell.split(", ")[-1] for cell in row[3:]] == ["inside", "outside", "no longer"]


@pytest.mark.parametrize(
    ("value", "ours", "ratio", "inside"),
    [
        (2.0, 2.01, 1.005, True),
        (2.0, 2.03, 1.015, False),
        (0, 0.0, None, True),
        ({"at_most": 1.58}, 1.58, 1.0, True),
        ({"above": 1, "at_most": 4}, 5.0, 1.25, False),
        ({"above": 1, "at_most": 4}, 0.5, 0.5, False),
        ({"below": "50 %"}, 0.4, 0.8, True),
    ],
)
def test_a_figure_is_inside_or_outside_of_what_is_stated(value, ours, ratio, inside):
    found = ComputedFigure(what="it", column="x", show="times")
    claim = Claim(Statement(says="s", place="p", value=value, unit="times", found=(found,)), ())
    finding = Finding("", ((found, ours),))
    assert claim.ratio(finding) == (ratio if ratio is None else pytest.approx(ratio))
    assert claim.inside(finding) is inside


def test_a_sweep_that_fails_stops_neither_other_parts_nor_other_papers(tmp_path, monkeypatch):
    """Its page and its row say so, and the command ends with an error when all is written."""
    failing = "[2, 4, 8], sparsifier: [dense, {kind: gtopk, density: 0.01}], topology: [ring, parameter_server]"
    second = SMALL.partition("parts:\n")[2].replace("name: one", "name: two")
    texts = {"bad.yaml": SMALL.replace("[2, 4, 8]", failing) + second, "good.yaml": SMALL, "wrong.yaml": "title: 1"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("simulator.cli.papers.known_names", lambda folder: list(texts))
    message = refused("reproduce", "--out", "out", "--workers", "1")
    assert message.count("expected a sweep without points that fail, got 3 that fail") == 1
    assert "wrong.yaml" in message and "Traceback" not in message
    page = (tmp_path / "out/bad.yaml/page.md").read_text()
    assert page.count(":9:5: expected a sweep without points that fail, got 3 that fail") == 1
    assert "| it grows (abstract, arXiv 0000.00000) | above 1 us | failed | – | – |" in page
    assert (tmp_path / "out/bad.yaml/two.png").exists() and not (tmp_path / "out/bad.yaml/one.png").exists()
    rows = [line.split(" | ") for line in (tmp_path / "out/claims.md").read_text().splitlines() if "it grows" in line]
    assert [(row[0], row[-1]) for row in rows] == [
        ("| bad", "failed |"),
        ("| bad", "inside, not by kernel |"),
        ("| good", "inside, not by kernel |"),
    ]


def test_figures_of_a_method_that_has_not_settled_say_so(tmp_path):
    document = read_paper(write(tmp_path, SMALL.partition("    sweep:")[0] + """
    build_up: {trace: traces/resnet-digits, workers: [4], methods: [{kind: topk, density: 0.01}]}
    states: [{says: much, place: p, value: {above: 1}, unit: times, found: [{what: K, column: build_up, show: times}]}]
"""))  # fmt: skip
    results = list(carry_out(document, tmp_path))
    assert "times** (has not settled) |" in write_paper(document, results, tmp_path, "a command").read_text()
    (row,) = claim_table([("paper", document.paper, results[0].claims)]).rows
    assert row[3].endswith("times, inside, has not settled")


def test_figures_of_one_part_stand_in_another(tmp_path):
    more = """
  - name: two
    shows: another
    measured: {latency: {part: one, what: workers, column: workers, take: max}}
    sweep: {base: ring_check, intervals: none, vary: {cluster.nodes: [$latency, 2]}}
    states: [{found: [{what: workers, column: workers, take: max}]}]
"""
    results = list(carry_out(read_paper(write(tmp_path, SMALL + more)), tmp_path / "out", ["two"], workers=1))
    assert [result.part.name for result in results] == ["two"] and set(results[0].rows["workers"]) == {8, 2}


def test_exdynas_parts_have_one_padding():
    parts = {part.name: part for part in read_paper("exdyna").paper.parts}
    assert parts["breakdown"].measured == parts["scaling"].measured
    assert {figure.part for figure in parts["breakdown"].measured.values()} == {"balance"}
    for name in ("breakdown", "scaling"):
        taken = [each.get("padding") for each in parts[name].sweep["vary"]["sparsifier"] if isinstance(each, dict)]
        assert [each for each in taken if each] == ["$threshold", "$micro", "$exdyna"]


def without_pytorch(name):
    return None if name in carrying_out.TRAINING_MODULES else find_spec(name)


TRAINS = (
    SMALL
    + """
  - name: trains
    shows: a training
    training: {base: {task: mlp-digits, workers: 2, iterations: 5}, vary: {seed: [0]}}
    figures: [{kind: convergence}]
    states: [{says: it learns, place: abstract, value: {above: 0.9}, unit: share,
              found: [{what: accuracy, column: metric, show: share}]}]
"""
)


def test_a_page_is_written_without_pytorch_and_says_what_it_lacks(tmp_path, monkeypatch):
    monkeypatch.setattr(carrying_out, "find_spec", without_pytorch)
    path, out = write(tmp_path, TRAINS), tmp_path / "out"
    said = printed("reproduce", path, "--out", out, "--workers", "1")
    assert said.index("trains is left out") < said.index("one: one thing"), "before work begins"
    page = (out / "page.md").read_text()
    lacks = '**Not run: it trains, which needs PyTorch and scikit-learn: pip install "'
    assert page.index("the time: **") < page.index(lacks)
    assert "| it learns (abstract, arXiv 0000.00000) | above 90 % | not run | – | – |" in page
    assert 'pip install "sparsim[train]"' in refused("reproduce", path, "--part", "trains", "--out", out)


@pytest.mark.parametrize("name", few_first(["skip-reduce", "deft", "exdyna", "gaussiank", "micro"]))
def test_shipped_trainings_are_those_of_the_document(name, tmp_path, monkeypatch):
    monkeypatch.setattr(carrying_out, "find_spec", without_pytorch)
    (result,) = carry_out(read_paper(name), tmp_path, ["convergence"], workers=1)
    assert set(result.rows["seed"]) == {0, 1, 2} and result.rows["loss"].notna().all()
    assert all(claim.findings for claim in result.claims)


def test_shipped_trainings_of_other_options_are_not_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(carrying_out, "find_spec", without_pytorch)
    with pytest.raises(InputError, match=r"--part convergence: it trains, which needs PyTorch and scikit-learn"):
        list(carry_out(read_paper("micro", quick=True), tmp_path, ["convergence"]))


def test_a_damaged_file_of_trainings_is_named(tmp_path):
    (tmp_path / "bad.zip").write_bytes(b"PK no")
    text = TRAINS.replace("    figures: [{kind: conv", "    shipped: bad.zip\n    figures: [{kind: conv")
    with pytest.raises(InputError, match=r"bad\.zip: expected a ZIP file of trainings"):
        list(carry_out(read_paper(write(tmp_path, text)), tmp_path / "out", ["trains"]))
