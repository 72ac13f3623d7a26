"""Rows that were measured on a known truth: what is judged and fitted of them, and places that hold nothing."""

import math

import pytest
from command_line import answered, invoke, printed
from places import ROOT

from simulator.errors import InputError
from simulator.files import as_yaml
from simulator.prediction.doubts.own_error import model_error
from simulator.prediction.run import run
from simulator.reporting.wording.studies import accuracy_markdown
from simulator.scenario.reading import load
from simulator.studies.validate.measured_rows import measured_files
from simulator.studies.validate.model_error import model_error_yaml
from simulator.studies.validate.validation import validate

FOLDER = ROOT / "scenarios" / "validation"


def measured(path, name, keys=(), seconds=None, truth=(), **marks):
    """A row that measured so many seconds, or those that a run of it with the keys of `truth` takes."""
    seconds = run(load("ring_check", (*keys, *truth))).document["iteration_time_s"] if seconds is None else seconds
    row = load("ring_check", keys).resolved() | {"name": name}
    row["measured"] = {"iteration_time": f"{seconds!r} s", "source": "made here", **marks}
    path.parent.mkdir(exist_ok=True)
    path.write_text(as_yaml(row))
    return seconds


@pytest.fixture(scope="module")
def rows_of_2_ms(tmp_path_factory):
    """Rows measured on software that negotiates 2 ms, which their scenarios do not say."""
    folder = tmp_path_factory.mktemp("rows") / "set-up"
    for nodes in (2, 4, 8):
        keys = (f"cluster.nodes={nodes}",)
        truth = ("cluster.runtime.negotiation=2 ms",)
        measured(folder / f"row-{nodes}.yaml", f"{nodes} nodes", keys, truth=truth, used_in_fit=True)
    return folder


def test_the_command_finds_the_term_that_the_rows_were_made_with(rows_of_2_ms):
    command = ("calibrate", "runtime", rows_of_2_ms, "--term", "negotiation")
    fit = answered(*command)
    (constant,) = fit["constants"]
    assert (constant["name"], constant["value"]) == ("runtime.negotiation", pytest.approx(2e-3, rel=1e-4))
    assert [row["scenario"] for row in fit["rows"] if row["left_out"] is not None] == ["2 nodes", "4 nodes", "8 nodes"]
    assert fit["rms"] == pytest.approx(0, abs=1e-5) and fit["held_out_mape"] == pytest.approx(0, abs=1e-5)
    words = " ".join(printed(*command).split())
    assert "runtime.negotiation" in words and "2 ms" in words
    assert all(f"{nodes} nodes" in words for nodes in (2, 4, 8))


def test_rows_of_a_table_are_fitted_like_files(rows_of_2_ms, tmp_path):
    """The template is passed over, since nothing was measured on it."""
    template = load("ring_check").resolved() | {"measured": {"source": "made here"}}
    (tmp_path / "template.yaml").write_text(as_yaml(template))
    lines = ["template,name,cluster.nodes,measured.iteration_time,measured.used_in_fit"]
    for nodes in (2, 4, 8):
        seconds = load(rows_of_2_ms / f"row-{nodes}.yaml").measured.iteration_time
        lines.append(f"template.yaml,{nodes} nodes,{nodes},{seconds!r} s,true")
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    options = ("--term", "negotiation", "--json")
    made, files = (answered("calibrate", "runtime", place, *options) for place in (tmp_path, rows_of_2_ms))
    assert made["constants"] == files["constants"]
    kept = ("scenario", "measured", "before", "after", "left_out")
    assert [[row[key] for key in kept] for row in made["rows"]] == [[row[key] for key in kept] for row in files["rows"]]


def test_as_many_terms_as_rows_leave_none_to_hold_out(rows_of_2_ms):
    fit = answered(*("calibrate", "runtime", rows_of_2_ms / "row-2.yaml", "--term", "negotiation"))
    assert ([row["left_out"] for row in fit["rows"]], fit["held_out_mape"]) == ([None], None)


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        (
            ("negotation",),
            "expected kernels.NAME, runtime.NAME or network.NAME, got runtime.negotation: "
            "did you mean 'runtime.negotiation'?",
        ),
        (
            ("negotiation", "cycle_time", "kernel_launch", "gather_overhead"),
            "expected at least 4 rows to fit, got 3: mark rows with `measured: {used_in_fit: true}`",
        ),
    ],
)
def test_what_cannot_be_fitted_is_said(rows_of_2_ms, terms, message):
    result = invoke("calibrate", "runtime", rows_of_2_ms, *(word for term in terms for word in ("--term", term)))
    assert (result.exit_code, result.stderr) == (2, f"calibrate: {message}\n")


def test_rows_of_a_folder_in_a_table_in_markdown_and_as_a_model_error(tmp_path):
    """A row that is right, one that is measured 10 % above, and a file beside them without a measurement."""
    right = measured(tmp_path / "a" / "right.yaml", "right")
    measured(tmp_path / "a" / "fitted.yaml", "fitted", used_in_fit=True)
    (tmp_path / "a" / "bare.yaml").write_text(as_yaml(load("ring_check").resolved()))
    measured(tmp_path / "b" / "above.yaml", "above", seconds=right / 0.9)
    made = validate([tmp_path])
    signed = {row["scenario"]: row["signed_error"] for row in made.rows}
    assert signed == {"right": 0, "fitted": 0, "above": pytest.approx(-0.1)}
    assert made.overall.n == 2 and made.overall.mape == pytest.approx(0.05)
    assert answered("validate", tmp_path)["overall"] == made.overall.to_dict()
    assert "above" in printed("validate", tmp_path)
    assert printed("validate", tmp_path, "--markdown") == accuracy_markdown(made) + "\n"
    assert printed("validate", tmp_path, "--model-error") == model_error_yaml(made.rows, made.signs)
    assert "rows: 2\n" in model_error_yaml(made.rows, made.signs)
    assert [row["group"] for row in validate([tmp_path / "b" / "above.yaml"]).rows] == ["b"]


def test_without_the_models_own_error_intervals_rest_on_what_is_stated(tmp_path, monkeypatch):
    measured(tmp_path / "a" / "right.yaml", "right", ("cluster.gpu=gpus/v100",))  # an ideal GPU has no such error
    (whole,) = validate([tmp_path]).rows
    own = model_error().errors
    monkeypatch.setattr("simulator.prediction.doubts.own_error.FILE", "nowhere.yaml")
    model_error.cache_clear()
    try:
        (bare,) = validate([tmp_path]).rows
    finally:
        model_error.cache_clear()
    assert bare["parts"] == whole["parts"]
    assert math.log(bare["intervals"]["90"][1] / bare["predicted"]) == pytest.approx(bare["parts"]["above"])
    parts = (math.log1p(share * (own.width - 1)) for share in bare["parts"]["shares"].values())
    longer = math.hypot(bare["parts"]["above"], *parts)
    stretched = math.log(whole["intervals"]["90"][1] / whole["predicted"])
    assert stretched == pytest.approx(own.stretch[90] * longer)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("ring_check", "ring_check: expected at least one scenario with `measured:`, got none"),
        ("nowhere", "nowhere: expected a scenario file or a folder of them, got nothing there"),
    ],
)
def test_places_without_measurements_are_said_so(place, message):
    result = invoke("validate", place)
    assert (result.exit_code, result.stderr) == (2, f"{message}\n")


def test_without_a_place_the_shipped_rows_are_taken_from_any_directory(tmp_path, monkeypatch):
    there = {path.relative_to(FOLDER) for path in measured_files([FOLDER])}
    assert len([path for path in there if path.suffix == ".yaml"]) > 30
    assert any(path.suffix == ".csv" for path in there)
    for folder in (ROOT, tmp_path):
        monkeypatch.chdir(folder)
        assert {path.absolute().relative_to(FOLDER) for path in measured_files([])} == there


def test_every_problem_of_every_file_is_said_at_once(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text((ROOT / "scenarios" / "ring_check.yaml").read_text() + "sed: 3\n")
    (tmp_path / "collectives.csv").write_text("x\n")
    (tmp_path / "other.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError) as caught:
        validate([tmp_path, tmp_path / "other.csv"])
    lines = str(caught.value).splitlines()
    assert [line.partition(":")[0].removeprefix(f"{tmp_path}/") for line in lines] == [
        "a.yaml", "b.yaml", "collectives.csv", "other.csv",
    ]  # fmt: skip
    assert lines[0].endswith("sed: expected a known key, got 'sed': did you mean 'seed'?")
    assert "expected UTF-8 text, got byte 0" in lines[3]
