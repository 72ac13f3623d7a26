"""The accuracy bars, on rows that no constant was fitted to; and the fits themselves, redone."""

import json
from collections import Counter
from statistics import median

import pytest
from command_line import printed, refused
from golden import FOLDER as GOLDEN
from golden import VALIDATION, changes, predictions
from places import ROOT
from validation_rows import rows_of, write_row

from simulator.reporting.wording.studies import accuracy_markdown
from simulator.scenario.reading import load
from simulator.studies.fit.identifiability import refusals
from simulator.studies.fit.iteration_model import IterationModel, distinct_scenarios, parse_constants
from simulator.studies.validate.measured_rows import ITERATION, measured_rows
from simulator.studies.validate.model_error import model_error_yaml
from simulator.studies.validate.validation import validate

FOLDER = ROOT / "scenarios" / "validation"
NAMESPACES = "tcp-namespaces"
OPEN_MPI = "open-mpi-namespaces"
SERVERS = "rtx2080ti-10gbe-ps"
QUICK = ("8xv100-grace", "p102-1gbe-gtopk", "resnet18-4xv100-ib", NAMESPACES, OPEN_MPI, "vgg16-8xv100-nvlink")
"""Set-ups whose rows are predicted in no time; the others, servers above all, are left to the long tests."""


@pytest.fixture(scope="module")
def document():
    return validate([FOLDER / name for name in QUICK])


@pytest.fixture(scope="module")
def whole(once):
    return once("validation", lambda _: validate([FOLDER]))


def rows(document, group, part=""):
    counted = (row for row in document.rows if row["group"] == group and not row["used_in_fit"])
    return [row for row in counted if part in row["scenario"]]


def mape(chosen):
    return sum(abs(row["signed_error"]) for row in chosen) / len(chosen)


def middle(chosen):
    return median(abs(row["signed_error"]) for row in chosen)


def largest(chosen):
    return max(abs(row["signed_error"]) for row in chosen)


ALL_REDUCE = "rtx2080ti-10gbe-allreduce"
BARS = [
    (ALL_REDUCE, ", BSP,", 6, mape, 0.03),
    (ALL_REDUCE, ", WFBP,", 6, mape, 0.08),
    (ALL_REDUCE, ", MG-WFBP,", 9, mape, 0.08),
    ("16xv100-10gbe-mgwfbp", "WFBP", 6, mape, 0.05),  # slowed compute as fitted to another model
    (SERVERS, "", 21, mape, 0.05),
    # BytePS's hash alone: ResNet-50 slows down with the number of servers as measured, by a sixth at most.
    (SERVERS, "ResNet-50", 7, largest, 0.03),
    # 100 Gb InfiniBand: a network and transport that no constant was fitted to.
    ("rtx2080ti-100gib-allreduce", "", 16, middle, 0.05),
    ("rtx2080ti-100gib-ps", "", 12, middle, 0.10),
    # Endpoints fitted behind 10 GbE: nothing was fitted here, and the network is described only.
    ("rtx2080ti-100gbe-tcp", "parameter server", 9, mape, 0.12),
    ("rtx2080ti-100gbe-tcp", "", 21, largest, 0.20),
]


@pytest.mark.long
@pytest.mark.parametrize("case", BARS, ids=lambda case: " ".join(map(str, case[:2])))
def test_errors_of_rows_that_nothing_was_fitted_to(whole, case):
    group, part, count, error, bar = case
    chosen = rows(whole, group, part)
    assert len(chosen) == count and error(chosen) <= bar


@pytest.mark.long
def test_median_of_every_block(whole):
    """Methods on models to which nothing was fitted have a bar of their own, as their costs hang on one GPU's code."""
    bars = {"8xv100-grace-methods": 0.15, "a100-megatron": 0.04}
    assert len(whole.groups) == 23
    for name, errors in whole.groups.items():
        if name == "8xa100-mpt-fsdp":  # all of its rows are fitted
            assert errors.n == 0
            continue
        assert errors.n >= 3
        assert errors.median_ape <= bars.get(name, 0.08), name


def test_phases_and_the_wait_for_the_slowest_selection_are_predicted(document):
    (wait,) = [row for row in rows(document, "vgg16-8xv100-nvlink") if row["quantity"] == "communication"]
    for row in (wait, *rows(document, "resnet18-4xv100-ib")):
        assert abs(row["signed_error"]) <= (0.05 if row["quantity"] == "iteration_time" else 0.10), row


@pytest.mark.long
def test_order_of_bsp_and_wfbp_is_right_where_they_differ(whole):
    found = {row["scenario"]: row for row in whole.rows if row["group"] == "rtx2080ti-10gbe-allreduce"}
    compared = 0
    for name, bsp in found.items():
        if ", BSP," not in name:
            continue
        wfbp = found[name.replace("BSP", "WFBP")]
        if abs(wfbp["measured"] / bsp["measured"] - 1) > 0.03:
            compared += 1
            assert (wfbp["predicted"] < bsp["predicted"]) == (wfbp["measured"] < bsp["measured"]), name
    assert compared >= 6
    large = found["BERT-Large, WFBP, all-reduce, 32 GPUs on 10 GbE"]
    assert large["predicted"] > found["BERT-Large, BSP, all-reduce, 32 GPUs on 10 GbE"]["predicted"]


def test_gtopk_s_host_cost_per_element_holds_for_two_more_models(document):
    """Fitted to VGG-16 only; models of a 55th and four times its size."""
    chosen = [row for row in rows(document, "p102-1gbe-gtopk") if "VGG" not in row["scenario"]]
    assert len(chosen) == 24
    errors = sorted(abs(row["signed_error"]) for row in chosen)
    assert sum(error <= 0.10 for error in errors) >= 16 and (errors[11] + errors[12]) / 2 <= 0.07
    assert max(abs(row["signed_error"]) for row in chosen if ", gTop-k" in row["scenario"]) <= 0.125


def test_collectives_over_shaped_links(document):
    """Link rate, bucket and ping-pong alone: 2 % from 1 MiB up, 5 % at 256 KiB."""
    chosen = [row for row in rows(document, NAMESPACES) if row["quantity"] == "collective"]
    assert len(chosen) >= 40
    for row in chosen:
        assert abs(row["signed_error"]) <= (0.05 if ", 256 KiB," in row["scenario"] else 0.02), row


def test_open_mpi_over_shaped_links(document):
    """The median of all rows is within 3 %, and that of 1 MiB and more within 1 %; of these, 95 % are within 10 %."""
    errors = {row["scenario"]: abs(row["signed_error"]) for row in rows(document, OPEN_MPI)}
    large = sorted(error for name, error in errors.items() if ", 64 KiB," not in name and ", 256 KiB," not in name)
    assert (len(errors), len(large)) == (210, 126) and median(errors.values()) <= 0.03 and median(large) <= 0.01
    assert large[int(0.95 * len(large))] <= 0.10


def test_eager_and_rendezvous_explain_all_reduce_over_open_mpi(document):
    """Bytes over the busiest link, which is what a ring promises, miss all-reduce by a third."""
    chosen = rows(document, OPEN_MPI, "all_reduce")
    assert median(abs(row["baseline_signed_error"]) for row in chosen) >= 0.3
    assert median(abs(row["signed_error"]) for row in chosen) <= 0.07


def test_training_over_shaped_links_and_where_topk_stops_to_pay(document):
    chosen = {row["scenario"]: row for row in rows(document, NAMESPACES, "Small CNN")}
    assert len(chosen) == 6
    for rate in ("100 Mbit/s", "500 Mbit/s", "unshaped"):
        dense = chosen[f"Small CNN in numpy, dense, 2 ranks, {rate}"]
        topk = chosen[f"Small CNN in numpy, Top-k 1 %, 2 ranks, {rate}"]
        for kind in ("measured", "predicted"):
            assert (topk[kind] < dense[kind]) == (rate != "unshaped")
        if rate != "unshaped":
            assert abs(dense["signed_error"]) <= 0.04
            assert abs(topk["signed_error"]) <= 0.12


@pytest.mark.long
def test_fitted_rows_say_so_and_are_not_counted_and_others_are_better_than_the_trivial_sum(whole):
    fitted = [row for row in whole.rows if row["used_in_fit"]]
    eight = [
        row
        for row in whole.rows
        if " 8 GPUs on 10 GbE" in row["scenario"] and "MG-WFBP" not in row["scenario"]
        if "ByteScheduler, parameter" not in row["scenario"]
    ]
    assert len(eight) == 15 and all(row["used_in_fit"] for row in eight)
    assert whole.overall.n == len(whole.rows) - len(fitted)
    overlapped = rows(whole, ALL_REDUCE, "WFBP,")
    assert mape(overlapped) < sum(abs(row["baseline_signed_error"]) for row in overlapped) / len(overlapped)


SLOW_FITS = [
    ("rtx2080ti-10gbe-allreduce", "horovod-0.19-pytorch-1.4", "negotiation"),
    ("rtx2080ti-10gbe-allreduce", "bytescheduler-horovod-0.19", "forward_hook"),
    (SERVERS, "byteps-0.2-pytorch-1.4", "endpoint_bandwidth"),
    ("16xv100-10gbe-mgwfbp", "horovod-v100-10gbe", "compute_slowdown"),
    ("p102-1gbe-gtopk", "gtopksgd-mpi-dense", "exchange_element"),
    ("p102-1gbe-gtopk", "gtopksgd-mpi-gtopk", "exchange_element"),
]
FITS = [
    *(pytest.param(*fit, marks=pytest.mark.long) for fit in SLOW_FITS),
    ("p102-1gbe-gtopk", "gtopksgd-mpi-topk", "exchange_element"),
]


@pytest.mark.parametrize(("group", "runtime", "term"), FITS)
def test_runtime_terms_are_what_the_fit_gives(group, runtime, term):
    shipped = load("ring_check", (f"cluster.runtime=runtimes/{runtime}",)).cluster.runtime
    scenarios = [item for item in rows_of(group).values() if item.cluster.runtime == shipped]
    rows = [row for row in measured_rows(scenarios) if row.fitted and row.quantity == ITERATION]
    model = IterationModel(rows, parse_constants([f"runtime.{term}"], distinct_scenarios(rows)))
    values = model.solve()
    assert not list(refusals(model, values))
    assert getattr(scenarios[0].cluster.runtime, term) == pytest.approx(values[0], rel=0.02)
    assert {row.scenario.name for row in rows} == {s.name for s in scenarios if s.measured.used_in_fit}


def test_no_prediction_has_moved(document):
    lines = changes(VALIDATION, json.loads((GOLDEN / f"{VALIDATION}.json").read_text()) | predictions(document))
    assert not lines, "\n".join([*lines, "if this is meant: python tests/golden.py --accept"])


@pytest.mark.long
def test_no_prediction_at_all_has_moved(whole):
    assert not changes(VALIDATION, predictions(whole))


TABLE = ROOT / "docs" / "background" / "evidence.md"


def test_rows_of_the_published_table_are_what_validate_prints(document):
    printed = accuracy_markdown(document).splitlines()
    sums = 3  # of rows of all set-ups, some of which are left to the long tests
    assert len(printed) == 2 + len(document.groups) + sums
    assert set(printed[:-sums]) <= set(TABLE.read_text().splitlines())


@pytest.mark.long
def test_the_published_table_is_what_validate_prints_and_the_readme_sums_it_up(whole):
    assert accuracy_markdown(whole) in TABLE.read_text()
    errors, signs = whole.iterations, whole.signs_summary.overall
    assert (
        f"{errors.n} measured iterations are predicted {100 * errors.mape:.1f} % off in the mean and "
        f"{100 * errors.median_ape:.1f} % in the median, and {100 * errors.coverage_90:.1f} % of them lie in their "
        f"90 % intervals; of {signs.n} measured signs (does compression pay?) {signs.decided} are decided, "
        f"{signs.decided_right} of them rightly."
    ) in " ".join((ROOT / "README.md").read_text().split())


@pytest.mark.long
def test_intervals_hold_what_they_say(whole):
    """Leave-one-set-up-out: the model's own error and the distribution of errors are those of the other set-ups."""
    iterations = whole.iterations
    assert 0.85 <= iterations.coverage_90 <= 0.95 and 0.40 <= iterations.coverage_50 <= 0.60
    judged = [row for row in whole.rows if row["intervals"] and not row["used_in_fit"]]
    large = {name for name, count in Counter(row["group"] for row in judged).items() if count >= 10}
    held = sorted(whole.groups[name].coverage_90 for name in large)
    assert len(held) >= 8 and held[0] >= 0.74 and held[1] >= 0.80
    assert whole.on_measured.half_width <= 0.12 and whole.on_measured.n >= 90


@pytest.mark.long
def test_where_a_verdict_is_sure_it_is_right(whole):
    overall = whole.signs_summary.overall
    assert overall.decided_share >= 0.60 and overall.decided_right_share >= 0.95


@pytest.mark.long
def test_the_models_own_error_is_what_the_rows_give(whole):
    assert (ROOT / "configs" / "model_error.yaml").read_text() == model_error_yaml(whole.rows, whole.signs)


def test_a_model_error_needs_two_set_ups():
    assert "two set-ups" in refused("validate", FOLDER / "vgg16-8xv100-nvlink", "--model-error")


def words(*arguments):
    """What `sparsim validate` prints, a blank between columns."""
    arguments = ["validate", *map(str, arguments)]
    return [" ".join(line.split()) for line in printed(*arguments, env={"COLUMNS": "200"}).splitlines()]


def test_every_row_and_the_errors_by_set_up_are_printed(document):
    place = FOLDER / "resnet18-4xv100-ib"
    lines = words(place)
    name = "ResNet-18 on CIFAR-10, Top-k 0.1 %, 4 V100 on InfiniBand"
    first = next(place for place, line in enumerate(lines) if line.startswith(f"{name} iteration time "))
    whole, rest = lines[first], lines[first:]  # the name stands in the first row of a scenario
    forward, selection = (next(line for line in rest if line.startswith(start)) for start in ("forward ", "selection "))
    row = next(row for row in document.rows if row["scenario"] == name and row["quantity"] == "iteration_time")
    assert whole.startswith(f"{name} iteration time 236.9 ms ")
    assert whole.endswith(f"{100 * row['signed_error']:+.1f} % {100 * row['baseline_signed_error']:+.1f} %")
    assert forward.endswith(" % - fitted")
    assert selection.count("%") == 1  # the error: no trivial sum, not fitted
    errors = document.groups["resnet18-4xv100-ib"]
    start = f"resnet18-4xv100-ib {errors.n} {100 * errors.mape:.1f} % {100 * errors.baseline_mape:.1f} % "
    signs, line = (line for line in lines if line.startswith("resnet18-4xv100-ib "))
    assert signs == "resnet18-4xv100-ib 2 0 0 2 2 100.0 %"
    assert line.startswith(start) and f"{100 * errors.bias:+.1f} %" in line
    assert lines[-1].startswith("overall ")


def test_a_set_up_of_fitted_rows_alone_has_no_errors(tmp_path):
    (tmp_path / "fitted").mkdir()
    name = "VGG-16 on CIFAR-10, dense, 4 P102-100 on 1 GbE"
    place = write_row(tmp_path / "fitted" / "row.yaml", "p102-1gbe-gtopk", name)
    lines = words(place)
    assert "fitted 0" + 9 * " -" in lines and "whole iterations 0" + 9 * " -" in lines
    assert "| overall | 0 |" + 9 * " - |" in words(place, "--markdown")
