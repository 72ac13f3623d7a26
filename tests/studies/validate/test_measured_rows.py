"""Measured quantities: what may be stated, what is compared, and what is refused."""

import re

import pytest
from command_line import printed
from places import ROOT

from simulator.errors import InputError
from simulator.files import as_yaml
from simulator.prediction.measured import measured_values
from simulator.prediction.run import run
from simulator.reporting.figures.data.sources import of_document
from simulator.reporting.page.pages.study_pages import validation_page
from simulator.scenario.reading import load
from simulator.studies.validate import measured_rows as of_rows
from simulator.studies.validate.measured_rows import measured_rows, predicted_value
from simulator.studies.validate.validation import validate

SOURCE = {"source": "made here"}
TOPK = ("sparsifier={kind: topk, density: 0.01}", "cluster.gpu=gpus/v100")


def scenario(keys=TOPK, **measured):
    """A scenario of 8 workers that measured so much."""
    made = load("ring_check", keys)
    return type(made).model_validate(made.resolved() | {"measured": SOURCE | measured})


def write(path, **measured):
    """The same as a file."""
    path.write_text(as_yaml(load("ring_check", TOPK).resolved() | {"measured": SOURCE | measured}))
    return path


def test_a_throughput_is_an_iteration_time():
    made = scenario(throughput="128 samples/s")
    batch, workers = made.workload.batch_size, made.cluster.workers
    seconds = batch * workers / 128
    assert measured_values(made) == {"throughput": seconds}
    (row,) = measured_rows([made])
    assert (row.quantity, row.seconds) == ("iteration_time", seconds)


def test_a_throughput_that_is_predicted_exactly_has_no_error_and_counts_with_whole_iterations(tmp_path):
    per_second = run(scenario()).document["throughput_samples_per_s"]
    write(tmp_path / "right.yaml", throughput=f"{per_second!r} samples/s")
    write(tmp_path / "half.yaml", throughput=f"{per_second / 2!r} samples/s")
    document = validate([tmp_path])
    errors = sorted(row["signed_error"] for row in document.rows)
    assert errors == pytest.approx([-0.5, 0], abs=1e-12)  # too fast: less time than was measured
    assert {row["quantity"] for row in document.rows} == {"throughput"} and document.iterations.n == 2
    assert all(row["intervals"] and row["baseline_signed_error"] is not None for row in document.rows)


def test_a_phase_of_0_has_no_row_and_the_rows_beside_it_say_so():
    (row,) = validate(scenarios=[scenario(iteration_time=0.2, communication_exposed=0)]).rows
    assert any("exposed_communication was measured as 0 and has no row" in each for each in row["warnings"])
    with pytest.raises(InputError, match="none is to 0"):
        validate(scenarios=[scenario(exposed_communication=0)])


def test_time_and_throughput_of_one_run_are_one_row():
    made = scenario(iteration_time="1 s", throughput=f"{8 / 1.009} samples/s")
    assert measured_values(made) == {"iteration_time": 1.0}
    assert [row.quantity for row in measured_rows([made])] == ["iteration_time"]


def test_time_and_throughput_that_disagree_are_refused_with_both(tmp_path):
    path = write(tmp_path / "a.yaml", iteration_time="1 s", throughput=f"{8 / 1.02} samples/s")
    with pytest.raises(InputError) as caught:
        validate([path])
    text = str(caught.value)
    assert text.startswith(f"{path}: measured: expected an iteration time within 1 % of 1.02 s, got 1 s: ")
    assert "1 sample on each of 8 workers in that time" in text


def test_exposed_communication_and_communication_differ_by_what_is_hidden():
    layers = "[{name: a, numel: 10000000, backward: 1 ms}, {name: b, numel: 10000000, backward: 9 ms}]"
    made = run(scenario((f"workload.layers={layers}", "scheduler=wfbp")))
    document = made.document
    exposed, whole = (predicted_value(name, made) for name in ("exposed_communication", "communication"))
    assert exposed == document["breakdown_s"]["communication_exposed"]
    assert whole == document["communication_total_s"] and 0 < exposed < whole


def test_a_timer_around_an_exchange_includes_waiting_for_the_slowest_worker():
    made = run(scenario(("cluster.stragglers.jitter=0.2", "workload.layers.0.backward=100 ms")))
    idle = made.document["breakdown_s"]["idle"]
    assert idle > 0 and predicted_value("communication", made) == made.document["communication_total_s"] + idle


def test_a_timer_around_a_pass_includes_what_slows_it_down():
    """b is exchanged for longer than a's 9 ms, of which 1.5 times as many pass."""
    layers = "[{name: a, numel: 10000000, backward: 9 ms}, {name: b, numel: 10000000, backward: 1 ms}]"
    made = run(scenario((f"workload.layers={layers}", "scheduler=wfbp", "cluster.runtime={compute_slowdown: 0.5}")))
    terms = made.document["breakdown_s"]
    assert (terms["backward"], terms["slowdown"]) == (pytest.approx(0.01), pytest.approx(0.0045))
    assert predicted_value("backward", made) == pytest.approx(0.0145)


def test_densities_say_which(tmp_path):
    prediction = run(scenario())
    for name in ("selected", "aggregated"):
        assert predicted_value(f"density_{name}", prediction) == prediction.document["density"][name]
    write(tmp_path / "a.yaml", density_selected="1 %", density_aggregated=0.02, iteration_time="1 s", update="0 s")
    document = validate([tmp_path])
    rows = {row["quantity"]: row for row in document.rows}
    assert set(rows) == {"iteration_time", "density_selected", "density_aggregated"}  # a time of 0 has no error
    assert rows["density_aggregated"]["measured"] == 0.02 and [rows[name]["unit"] for name in rows] == ["s", "", ""]
    assert document.iterations.n == 1
    assert [row.quantity for row in measured_rows([scenario(density_selected=0.01, forward="1 s")])] == ["forward"]
    titles = [table.title for table in validation_page(of_document(document.to_dict(), "a validation")).tables]
    assert {"Every measured time", "Every measured density"} <= set(titles)
    said = printed("validate", tmp_path)
    assert "density aggregated" in said and " 2 % " in said


def test_rows_of_a_folder_are_read_in_order_and_what_was_not_measured_is_passed_over(tmp_path):
    """Numbers count as numbers, after words; tables come last. A file that is named has to have measured something."""
    for name in ("row-10", "row-2", "row-a", "row"):
        write(tmp_path / f"{name}.yaml", iteration_time="1 s")
    (tmp_path / "bare.yaml").write_text(as_yaml(load("ring_check").resolved()))
    (tmp_path / "rows.csv").write_text("template,measured.source,measured.update\nbare.yaml,here,1 s\n")
    names = [path.name for path in of_rows.measured_files([tmp_path])]
    assert names == ["bare.yaml", "row.yaml", "row-a.yaml", "row-2.yaml", "row-10.yaml", "rows.csv"]
    made = of_rows.read_measured([tmp_path])
    assert list(made.digests) == names[1:] and len(made.samples) == 5 and not made.problems
    assert made.digests["row.yaml"] == of_rows.digest(tmp_path / "row.yaml")
    (problem,) = of_rows.read_measured([tmp_path / "bare.yaml"]).problems
    assert "state what was measured" in problem.hint
    (tmp_path / "empty").mkdir()
    (problem,) = of_rows.read_measured([tmp_path / "empty"]).problems
    assert problem.expected == "at least one scenario with `measured:`"


def test_a_mark_names_what_was_fitted():
    made = scenario(throughput="10 samples/s", forward="1 s", used_in_fit=["throughput"])
    assert {row.quantity: row.fitted for row in measured_rows([made])} == {"iteration_time": True, "forward": False}
    made = scenario(throughput="10 samples/s", forward="1 s", used_in_fit=True)
    assert {row.quantity: row.fitted for row in measured_rows([made])} == {"iteration_time": True, "forward": False}


@pytest.mark.parametrize(
    ("measured", "message"),
    [
        ({"throughput": "0 samples/s"}, "measured.throughput: expected a throughput above 0"),
        ({"throughput": 12}, "measured.throughput: expected a throughput with its unit, such as 1505.7 samples/s"),
        ({"throughput": "3 s"}, "measured.throughput: expected a throughput in one of samples/s"),
        ({"iteration_time": "0 s"}, "measured.iteration_time: expected a time above 0"),
        ({"density_selected": 1.5}, "measured.density_selected: expected at most 1"),
        ({"density_aggregated": 0}, "measured.density_aggregated: expected a fraction above 0"),
        ({"exposed_communication": "-1 ms"}, "measured.exposed_communication: expected at least 0"),
        ({"density": 0.01}, "did you mean 'density_selected'?"),
        (
            {"forward": "1 s", "used_in_fit": ["backward"]},
            "measured: expected `used_in_fit` to name quantities that are stated, got backward: valid: forward",
        ),
    ],
)
def test_nonsense_is_refused_with_its_place(tmp_path, measured, message):
    with pytest.raises(InputError, match=re.escape(message)):
        validate([write(tmp_path / "a.yaml", **measured)])


def test_a_contradiction_in_a_table_names_its_line(tmp_path):
    (tmp_path / "template.yaml").write_text((ROOT / "scenarios" / "ring_check.yaml").read_text())
    lines = ["template,measured.source,measured.iteration_time,measured.throughput"]
    lines += ["template.yaml,here,1 s,", "template.yaml,here,1 s,1 samples/s"]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError) as caught:
        validate([tmp_path])
    (problem,) = caught.value.problems
    assert problem.where == f"{tmp_path / 'rows.csv'}:3: measured" and problem.hint
