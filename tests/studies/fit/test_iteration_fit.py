"""Constants fitted to whole iterations: found again where the rows show them, refused by name where they do not."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from command_line import invoke, printed
from places import ROOT
from validation_rows import row_of, write_row

from simulator.errors import InputError
from simulator.prediction.run import run
from simulator.scenario.changes import INFINITE
from simulator.scenario.reading import load
from simulator.studies.fit import identifiability, iteration_fit
from simulator.studies.fit.iteration_fit import IterationFit, fit_named, fit_what_is_not_measured
from simulator.studies.fit.iteration_model import Constant, IterationModel, known_constants
from simulator.studies.validate.measured_rows import measured_rows, predicted_value

GRACE = "8xv100-grace"
TOPK, NCCL = "ResNet-50, Top-k 1 %, 2 V100 on 10 GbE, MPI", "ResNet-50, dense, 2 V100 on 10 GbE, NCCL"
IB = ROOT / "scenarios" / "validation" / "resnet18-4xv100-ib"
MODELS = {"few": (4, 6_000_000), "many": (60, 200_000)}
SCENARIO = """
name: {model}, {method}, {nodes} nodes
workload: {{name: {model}, batch_size: 1, layers: [{layers}]}}
cluster:
  nodes: {nodes}
  gpu: {{name: made, kernels: {{elementwise: {{curve: affine, intercept: 5 us, slope: 15 ps}}}}}}
  network: {{kind: single_switch, bandwidth: 100 Gbit/s, latency: 5 us}}
  runtime: {{name: made, kernel_launch: 10 us}}
topology: ring
sparsifier: {{kind: {method}, density: 0.01}}
scheduler: sequential
measured: {{{measured}, source: made here, used_in_fit: {fitted}}}
"""


def scenario_text(*, model="few", method="topk", nodes=2, measured="iteration_time: 1 s", fitted="true"):
    count, numel = MODELS[model]
    layers = ", ".join(f"{{name: l{i}, numel: {numel}, forward: 100 us, backward: 200 us}}" for i in range(count))
    values = {"nodes": nodes, "measured": measured, "fitted": fitted}
    return SCENARIO.format(model=model, method=method, layers=layers, **values)


def rows_of(folder, truth, cases, quantities=("iteration_time",), noise=0.0):
    """Rows whose times are those of a run with the true constants, each off by random noise."""
    random = np.random.default_rng(5)
    made = []
    for number, case in enumerate(cases):
        path = folder / f"row-{number}.yaml"
        path.write_text(scenario_text(**case))
        plain = load(path)
        exact = plain
        for name, value in truth.items():
            exact = known_constants(plain)[name].put(exact, value)
        prediction = run(exact)
        off = np.exp(noise * random.standard_normal(len(quantities)))
        times = (predicted_value(quantity, prediction) for quantity in quantities)
        words = (f"{q}: {float(t * f)!r} s" for q, t, f in zip(quantities, times, off, strict=True))
        path.write_text(scenario_text(**case, measured=", ".join(words)))
        made.append(load(path))
    return measured_rows(made)


def values_of(fit):
    return {item.constant.name: item.value for item in fit.constants}


def command(*arguments):
    return invoke("calibrate", "kernels", *arguments, "--from-iterations", "--no-figure")


@pytest.mark.long
def test_constants_are_found_again_within_their_errors_from_noisy_iterations(tmp_path):
    truth = {"kernels.topk.slope": 2e-9, "runtime.kernel_launch": 30e-6}
    cases = [{"model": model, "nodes": nodes} for model in MODELS for nodes in (2, 4, 8)]
    fit = fit_named(rows_of(tmp_path, truth, cases, noise=0.01), list(truth))
    assert not fit.refused
    for item in fit.constants:
        assert 0 < item.error < 0.2 and abs(item.value / truth[item.constant.name] - 1) <= 2 * item.error
        assert item.before != item.value
    assert fit.rms < 0.02 < max(abs(item.before) for item in fit.rows) and fit.as_dict()["set_ups"] == 2


@pytest.mark.long
def test_two_constants_that_one_model_and_density_show_only_together_are_refused_by_name(tmp_path):
    truth = {"kernels.topk.slope": 2e-9, "runtime.kernel_launch": 30e-6}
    cases = [{"model": "many"}] * 3
    with pytest.raises(InputError) as caught:
        fit_named(rows_of(tmp_path, truth, cases), list(truth))
    (problem,) = [item for item in caught.value.problems if "kernel_launch" in item.where]
    assert "with runtime.kernel_launch and kernels.topk.slope in the same way" in problem.got
    assert "would give it within" in problem.hint
    found = values_of(fit_named(rows_of(tmp_path, truth, cases, ("selection", "combine")), list(truth)))
    assert found == {name: pytest.approx(value, rel=1e-3) for name, value in truth.items()}


def test_standard_errors_by_hand():
    """One constant per row: deviation over slope; two that act alike in every row: no error is finite."""
    assert identifiability.standard_errors(np.array([[1.0, 0.0], [0.0, 2.0]]), 0.1) == pytest.approx([0.1, 0.05])
    assert identifiability.standard_errors(np.array([[1.0], [1.0], [1.0], [1.0]]), 0.1) == pytest.approx([0.05])
    alike = identifiability.standard_errors(np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 1.0]]), 0.1)
    assert np.isinf(alike[:2]).all() and np.isfinite(alike[2])


class Made(IterationModel):
    """Rows whose seconds are a function of the constants; `rate` is a bandwidth, and all others are times."""

    def __init__(self, seconds, measured, *names):
        super().__init__((), [Constant(name, "B/s" if "rate" in name else "s", 1.0) for name in names])
        self.seconds, self.measured = seconds, np.array(measured, dtype=float)

    def times_of(self, points):
        return [np.maximum(self.seconds(*point), 1e-12) for point in points]

    def without(self, place):
        gone = self.constants[place].no_cost
        names = [item.name for item in self.constants if item is not self.constants[place]]
        return Made(lambda *rest: self.seconds(*rest[:place], gone, *rest[place:]), self.measured, *names)

    def read(self):
        return np.ones(len(self.constants))


@pytest.fixture
def off_by_5_percent(monkeypatch):
    monkeypatch.setattr(identifiability, "row_deviation", lambda: 0.05)


def refused_by(model, *values):
    found = identifiability.refusals(model, np.array(values, dtype=float))
    return {item.name: (item.reason, item.measure, item.weak) for item in found}


@pytest.mark.usefixtures("off_by_5_percent")
def test_the_deviation_of_a_row_by_hand():
    """Of three rows one does not change with the constant; the model's own error counts as one more row."""
    residuals, slopes = np.array([0.1, 0.2, 0.3]), np.array([[1.0], [0.5], [0.0]])
    deviation_of = identifiability.deviation_of
    assert deviation_of(residuals, slopes) == (pytest.approx(((0.05**2 + 0.1**2 + 0.2**2) / 2) ** 0.5), 1)
    assert deviation_of(residuals[:1], slopes[:1]) == (pytest.approx(0.05), 0)
    assert deviation_of(residuals, np.zeros((3, 0))) == (pytest.approx(0.05), 0)


@pytest.mark.usefixtures("off_by_5_percent")
def test_a_constant_is_refused_for_what_the_rows_do_not_show_of_it():
    """`a` and `b` in sums only, one without effect, and one behind 1 s until it is longer than 2 deviations of 5 %."""
    names = "runtime.a", "runtime.c", "runtime.b"
    alike = Made(lambda a, c, b: (a + b, a + b + c, 2 * (a + b) + 3 * c), (2, 3, 7), *names)
    same = "the fitted times change with {} and {} in the same way, so that they show only both together"
    assert refused_by(alike, 1, 1, 1) == {
        "runtime.a": (same.format("runtime.a", "runtime.b"), "", False),
        "runtime.b": (same.format("runtime.b", "runtime.a"), "", False),
    }
    none = {"runtime.a": ("no fitted time changes with it", "", False)}
    assert refused_by(Made(lambda a: (1, 2), (1, 2), "runtime.a"), 1) == none
    hidden = Made(lambda a: (max(1, a),), (1,), "kernels.topk.slope")
    ((reason, measure, _),) = refused_by(hidden, 0.01).values()
    assert "sparsim record kernels" in measure and reason.startswith("over a range of its values the fitted times stay")
    assert np.exp(0.1) < float(reason.split()[-2]) < 1.11 * np.exp(0.1) and reason.endswith(" s")
    ((reason, measure, _),) = refused_by(Made(lambda rate: (max(1, 1 / rate),), (1,), "network.rate"), 100).values()
    assert reason.endswith("stay the same") and not measure
    assert refused_by(Made(lambda a: (1 + a, 1), (1, 1), "runtime.a"), 0) == {}


@pytest.mark.usefixtures("off_by_5_percent")
def test_a_constant_that_matters_less_than_rows_are_off_is_refused_weakly():
    """A thousandth of the time in rows that are off by 10 %; and what makes one row 9 % longer, with errors of 5 %."""
    little = Made(lambda a: [1 + 0.001 * a] * 3, np.exp([0.1, -0.1, 0.1]), "runtime.a")
    assert refused_by(little, 1)["runtime.a"] == (
        "10 % more of it changes no fitted time by more than 0.0095 %, and rows are off by 10 %", "", True
    )  # fmt: skip
    off = np.exp(0.05 * np.array([0, 1, -1, 1, -1, 0]))
    for least, reasons in ((1.1, ["without it the fitted times are met as well, within their errors"]), (0.9, [])):
        times = lambda a, b, least=least: [b * max(least, 0.9 + 0.3 * a)] + [b] * 5  # noqa: E731
        one = Made(times, [1.2, *[1] * 5] * off, "runtime.a", "runtime.b")
        found = refused_by(one, 1, 1)
        assert [reason.partition(";")[0] for reason, _, _ in found.values()] == reasons
        assert all(weak for _, _, weak in found.values())


@pytest.mark.usefixtures("off_by_5_percent")
def test_constants_are_chosen_by_their_effect_while_the_rows_determine_them(monkeypatch):
    """`twin` acts as `large` does; four rows give three constants at most; kernels may be off by a factor of 1000."""
    cases = {
        "runtime.large": (9, 9, 9, 9), "runtime.twin": (5, 5, 5, 5), "runtime.none": (0, 0, 0, 0),
        "kernels.topk.slope": (0, 0, 0, 5), "kernels.sort.slope": (0, 0.3, 0, 0), "runtime.one": (0, 2, 0, 0),
        "runtime.other": (0, 0, 1, 0),
    }  # fmt: skip
    shares = np.array([*cases.values()]).T
    model = Made(lambda *values: shares @ np.array(values), shares.sum(axis=1), *cases)
    monkeypatch.setattr(identifiability, "_not_measured", lambda _: model.constants)
    monkeypatch.setattr(identifiability, "IterationModel", lambda *_: model)
    plan = SimpleNamespace(work=SimpleNamespace(kernels={"topk"}))
    monkeypatch.setattr(identifiability, "plan_of", lambda _: plan)
    row = SimpleNamespace(scenario=SimpleNamespace(cluster=SimpleNamespace(gpu=SimpleNamespace(width=lambda _: 1e3))))
    chosen, refused = identifiability.choose_constants([row] * 4)
    assert [item.name for item in chosen] == ["kernels.topk.slope", "runtime.large", "runtime.one"]
    told = {item.name.partition(".")[2]: item.reason for item in refused}
    assert told == {
        "sort.slope": "it changes the fitted times by less than they are off",
        "twin": "the fitted times cannot tell it from kernels.topk.slope and runtime.large",
        "other": "4 fitted times give 3 constants, and others matter more",
        "none": "no fitted time changes with it",
    }
    assert [item.name for item in identifiability.choose_constants([row])[0]] == ["kernels.topk.slope"]


def test_what_the_rows_ask_none_of_costs_nothing_and_is_no_limit():
    """Rows faster than without the cost, and than at any rate; met at 2 s and 4 B/s; and at a cost of hours."""
    for measured, found in (((0.5, 0.5), (0.0, INFINITE)), ((3.0, 1.25), (2.0, 4.0)), ((20_001, 1.25), (2e4, 4.0))):
        model = Made(lambda a, rate: (1 + a, 1 + 1 / rate), measured, "runtime.a", "network.rate")
        assert model.solve() == pytest.approx(found, rel=1e-3)
        assert model.solve(np.array([1.0, 1.0])) == pytest.approx(found, rel=1e-3)


def test_what_the_fit_does_not_determine_is_given_back_and_the_others_are_fitted_again(monkeypatch):
    a, b, c = (Constant(f"runtime.{name}", "s", 1.0) for name in "abc")
    early, late = identifiability.Refusal("runtime.early", "before"), identifiability.Refusal(b.name, "after")
    monkeypatch.setattr(iteration_fit, "choose_constants", lambda _: ([a, b, c], [early]))
    tried = []

    def fit(_, constants, watch):
        tried.append(constants)
        return IterationFit((), (), (late,) if b in constants else (), ())

    monkeypatch.setattr(iteration_fit, "fit_constants", fit)
    assert fit_what_is_not_measured([]).refused == (early, late) and tried == [[a, b, c], [a, c]]


def test_one_row_gives_one_constant_exactly_and_no_error(tmp_path):
    fit = fit_named(rows_of(tmp_path, {"kernels.topk.slope": 2e-9}, [{}]), ["kernels.topk"])
    (item,) = fit.constants
    assert item.value == pytest.approx(2e-9, rel=1e-5) and item.error is None
    assert item.if_rows_are_off == pytest.approx(identifiability.row_deviation() / 0.6, rel=0.5)
    assert "only a repeat or a further row tells" in fit.notes[0]


def test_a_kernel_behind_its_launches_is_refused_with_the_limit_that_the_rows_give():
    """62 tensors and five launches for each: of the scan, ResNet-18 shows only that it is shorter than these."""
    rows = measured_rows([load(IB / "threshold.yaml")], ("selection",))
    launches = 5 * 18.2e-6 * 62
    with pytest.raises(InputError, match="over a range of its values the fitted times stay the same; they say"):
        fit_named(rows, ["kernels.threshold_scan"])
    limit = float(str(_refusal(rows, "kernels.threshold_scan")).partition("at most ")[2].split()[0])
    assert launches - 62 * 9.5e-6 < limit * load(IB / "threshold.yaml").workload.numel < 1.5 * launches


def test_values_with_which_a_scenario_cannot_work_are_passed_over():
    """A launch of 10 ms would make the optimiser longer than the whole measured step of one GPU."""
    assert "they say that it is at most" in str(_refusal(measured_rows([row_of(GRACE, TOPK)]), "runtime.kernel_launch"))


def _refusal(rows, name):
    with pytest.raises(InputError) as caught:
        fit_named(rows, [name])
    return caught.value


def test_a_cost_that_the_rows_ask_nothing_of_is_at_its_bound(tmp_path):
    """The rows are faster than without any negotiation."""
    rows = rows_of(tmp_path, {"network.bandwidth": 1e11}, [{"nodes": nodes} for nodes in (2, 4)])
    fit = fit_named(rows, ["runtime.negotiation"])
    assert values_of(fit) == {"runtime.negotiation": 0.0}
    assert "the fitted times ask for none of it; at most" in fit.notes[0] and fit.constants[0].at_most > 0


def test_without_names_what_matters_and_was_not_measured_is_fitted(tmp_path):
    """Top-k has no curve here and takes most of the time; what hardly matters is left, and said so."""
    cases = [{"model": model, "nodes": nodes} for model in MODELS for nodes in (2, 8)]
    fit = fit_what_is_not_measured(rows_of(tmp_path, {"kernels.topk.slope": 2e-9}, cases, noise=0.003))
    found = values_of(fit)
    assert found["kernels.topk.slope"] == pytest.approx(2e-9, rel=0.05)
    refused = {item.name for item in fit.refused}
    assert "kernels.scatter_add.slope" in refused and not refused & set(found)


def test_the_shipped_slope_of_topk_under_tensorflow_is_fitted_again_and_written(tmp_path):
    out = tmp_path / "gpu.yaml"
    row = write_row(tmp_path / "topk-2.yaml", GRACE, TOPK)
    result = command(row, "--constants", "kernels.topk", "--out", out, "--json")
    assert result.exit_code == 0, result.output
    shipped = row_of(GRACE, TOPK).cluster.gpu
    (item,) = json.loads(result.stdout)["constants"]
    assert item["name"] == "kernels.topk.slope"
    assert item["value"] == pytest.approx(shipped.kernels["topk"].slope, rel=2e-3)
    written = load(row, (f"cluster.gpu={out}",)).cluster.gpu
    assert written.kernels["topk"].slope == pytest.approx(item["value"], rel=1e-4)
    assert written.kernels["topk"].range == (64, 2359296) and written.kernels["topk"].derived
    assert "topk-2.yaml" in out.read_text()
    assert "Fitted to whole iterations: kernels.topk.slope" in " ".join(out.read_text().split())
    assert written.kernels["elementwise"] == shipped.kernels["elementwise"]


def test_a_cost_of_a_runtime_is_the_one_that_calibrate_runtime_gives(tmp_path):
    row = write_row(tmp_path / "row.yaml", GRACE, NCCL)
    out = tmp_path / "runtime.yaml"
    made = command(row, "--constants", "runtime.compute_slowdown", "--out", out, "--json")
    (item,) = json.loads(made.stdout)["constants"]
    other = invoke("calibrate", "runtime", row, "--term", "compute_slowdown", "--json")
    assert item == json.loads(other.stdout)["constants"][0]
    written = load(row, (f"cluster.runtime={out}",))
    assert run(written).document["iteration_time_s"] == pytest.approx(written.measured.iteration_time, rel=1e-3)
    assert written.cluster.runtime.held_out_mape is None


def test_a_table_is_as_good_as_files_and_constants_of_two_owners_are_two_configs(tmp_path):
    truth = {"kernels.topk.slope": 2e-9, "runtime.negotiation": 5e-3}
    cases = [{"model": "few", "nodes": nodes} for nodes in (2, 4, 8)]
    rows = rows_of(tmp_path, truth, cases, ("iteration_time", "selection"))
    lines = [
        f"row-0.yaml,{whole.scenario.cluster.nodes},{whole.seconds!r} s,{selection.seconds!r} s"
        for whole, selection in zip(rows[::2], rows[1::2], strict=True)
    ]
    table = tmp_path / "measured.csv"
    table.write_text("\n".join(["template,cluster.nodes,measured.iteration_time,measured.selection", *lines]) + "\n")
    out = tmp_path / "mine.yaml"
    options = [word for name in truth for word in ("--constants", name)]
    options += ["--fit-to", "iteration_time", "--fit-to", "selection"]
    result = command(table, *options, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    found = {item["name"]: item["value"] for item in json.loads(result.stdout)["constants"]}
    assert found == {name: pytest.approx(value, rel=1e-3) for name, value in truth.items()}
    gpu, runtime = (yaml.safe_load((tmp_path / f"mine.{owner}.yaml").read_text()) for owner in ("gpu", "runtime"))
    assert gpu["kernels"]["topk"]["slope"] == "2 ns"
    assert runtime["negotiation"] == "5 ms"
    assert not out.exists()
    shown = command(tmp_path / "row-0.yaml", "--constants", "kernels.topk", "--out", out).stdout
    assert "kernels.topk.slope" in shown and "few, topk, 2 nodes" in shown


def test_everything_that_is_wrong_is_said_at_once(tmp_path):
    (tmp_path / "bad.yaml").write_text(scenario_text() + "sed: 3\n")
    (tmp_path / "good.yaml").write_text(scenario_text(fitted="false"))
    table = tmp_path / "t.csv"
    table.write_text("template,cluster.nodes,measured.iteration_time\ngood.yaml,2,12\nnowhere,2,1 s\n")
    names = ("--constants", "kernels.topl", "--constants", "runtime.host_elements", "--fit-to", "iteration")
    result = command(tmp_path, "quickstart", table, tmp_path / "none.yaml", *names, "--out", tmp_path / "x.yaml")
    assert result.exit_code == 2
    for words in (
        "sed: expected a known key", "quickstart.yaml: expected a scenario with `measured:`, got none", "t.csv:2: ",
        "t.csv:3: ", "none.yaml: expected a scenario file or a folder of them", "got runtime.host_elements",
        "got kernels.topl: did you mean 'kernels.topk'?",
        "--fit-to: expected a measured time, got iteration: did you mean 'iteration_time'?",
    ):  # fmt: skip
        assert words in result.stderr, words
    assert not (tmp_path / "x.yaml").exists()
    alone = command(tmp_path / "good.yaml", "--constants", "kernels.topk", "--out", tmp_path / "x.yaml")
    assert "measured times to fit to, got none of 1: mark rows" in alone.stderr
    row = write_row(tmp_path / "row.yaml", GRACE, TOPK)
    two = command(row, IB, "--constants", "kernels.topk", "--fit-to", "iteration_time",
                  "--out", tmp_path / "x.yaml")  # fmt: skip
    assert "expected rows of one GPU, got 2" in two.stderr


def test_set_ups_that_ask_for_different_values_are_not_averaged(tmp_path):
    """Two models on which top-k takes 0.2 and 8 ns per element: one constant for both would hold for neither."""
    rows = []
    for model, seconds in (("few", 2e-10), ("many", 8e-9)):
        folder = tmp_path / model
        folder.mkdir()
        rows += rows_of(folder, {"kernels.topk.slope": seconds}, [{"model": model, "nodes": n} for n in (2, 4)])
    with pytest.raises(InputError, match="when set-ups are left out: they ask for different values"):
        fit_named(rows, ["kernels.topk"])


def test_calibrate_runtime_notes_a_cost_that_set_ups_do_not_agree_on(tmp_path):
    """It is fitted all the same, since nothing is written; only what no row shows is refused."""
    for model, seconds in (("few", 20e-6), ("many", 900e-6)):
        folder = tmp_path / model
        folder.mkdir()
        rows_of(folder, {"runtime.kernel_launch": seconds}, [{"model": model, "nodes": n} for n in (2, 4)])
    text = printed("calibrate", "runtime", tmp_path, "--term", "kernel_launch")
    assert "note: runtime.kernel_launch is hardly determined: it moves by" in " ".join(text.split())
    assert "not fitted" not in text


def test_where_nothing_is_left_to_fit_every_constant_says_why(tmp_path):
    """ResNet-18's optimiser alone: kernels of the selection do not change it."""
    row = load(IB / "threshold.yaml")
    bare = row.model_copy(update={"measured": row.measured.model_copy(update={"used_in_fit": ("forward",)})})
    with pytest.raises(InputError) as caught:
        fit_what_is_not_measured(measured_rows([bare]))
    assert len(caught.value.problems) >= 3
    assert all("no fitted time changes with it" in item.got for item in caught.value.problems)
