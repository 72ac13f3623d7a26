"""The tables behind the figures, against values worked out by hand."""

import json
import re
from pathlib import Path
from tempfile import mkdtemp
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from figure_results import (
    ROOT,
    SOURCES,
    TIMED,
    base,
    replayed,
    run_folder,
    scenario,
    swept,
    timed,
    to_quality,
    trained,
    validation,
)
from made_trainings import DENSE, write_study

import simulator
from simulator.errors import InputError
from simulator.hardware.gpu import Gpu
from simulator.models.curves import Affine
from simulator.prediction.run import run
from simulator.prediction.run_files import traffic_table
from simulator.records import replace
from simulator.reporting.figures.base import Figure, figure_of
from simulator.reporting.figures.data.sources import (
    Source,
    of_document,
    of_table,
    open_source,
    open_sources,
    point_labels,
    select_rows,
)
from simulator.reporting.figures.style.panels import GREY, Band
from simulator.studies.compare.opponent import Opponent, compared_with

BANDWIDTH = "cluster.network.bandwidth_bytes_per_s"


def points(rows, columns):
    """A sweep's table from its cells; what was varied stands in front of the digest."""
    table = pd.DataFrame(rows, columns=columns)
    table["error"] = pd.Series([None] * len(table), dtype="string")
    return of_table(table, "hand-made")


def grid(times):
    """Iteration times by (method, workers, bandwidth) as a sweep."""
    rows = [[m, b, str((m, w, b)), w, t] for (m, w, b), t in times.items()]
    return points(rows, ["sparsifier", BANDWIDTH, "digest", "workers", "iteration_time_s"])


TIMES = {
    ("dense", 2, 1e8): 4.0, ("topk", 2, 1e8): 2.0, ("gtopk", 2, 1e8): 2.5,
    ("dense", 2, 1e9): 1.0, ("topk", 2, 1e9): 1.5, ("gtopk", 2, 1e9): 1.2,
    ("dense", 8, 1e8): 9.0, ("topk", 8, 1e8): 4.0, ("gtopk", 8, 1e8): 3.0,
    ("dense", 8, 1e9): 1.1, ("topk", 8, 1e9): 1.5, ("gtopk", 8, 1e9): 1.0,
}  # fmt: skip


def test_the_break_even_map_names_winner_and_margin():
    data = figure_of("break_even_map").data(grid(TIMES)).set_index(["workers", "bandwidth_bytes_per_s"])
    assert data.loc[2, 1e8].tolist() == ["topk", 2.0, "dense", 4.0, pytest.approx(1.0), ""]
    assert data.loc[2, 1e9].tolist() == ["dense", 1.0, "gtopk", 1.2, pytest.approx(0.2), ""]
    assert data.loc[8, 1e8].tolist() == ["gtopk", 3.0, "dense", 9.0, pytest.approx(2.0), ""]
    assert data.loc[8, 1e9].tolist() == ["gtopk", 1.0, "dense", 1.1, pytest.approx(0.1), ""]


def test_without_dense_the_margin_is_over_the_next_best():
    source = grid({key: time for key, time in TIMES.items() if key[0] != "dense"})
    data = figure_of("break_even_map").data(source).set_index(["workers", "bandwidth_bytes_per_s"])
    assert data.loc[8, 1e8].tolist() == ["gtopk", 3.0, "topk", 4.0, pytest.approx(1 / 3), ""]


def judged(verdicts):
    """The grid with a verdict for each method besides dense, by method and bandwidth."""
    source = grid(TIMES)
    places = zip(source.table["sparsifier"], source.table[BANDWIDTH], strict=True)
    source.table["verdict"] = [verdicts.get(place) for place in places]
    return figure_of("break_even_map").data(source).set_index(["workers", "bandwidth_bytes_per_s"])["verdict"]


def test_a_cell_is_decided_where_one_method_surely_pays_or_none_does():
    words = {("topk", 1e8): "undecided", ("gtopk", 1e8): "yes", ("topk", 1e9): "no", ("gtopk", 1e9): "undecided"}
    found = {1e8: "yes", 1e9: "undecided"}
    assert judged(words).to_dict() == {(workers, rate): word for workers in (2, 8) for rate, word in found.items()}
    never = {("topk", 1e8): "no", ("gtopk", 1e8): "no", ("topk", 1e9): "alike", ("gtopk", 1e9): "no"}
    assert set(judged(never)) == {"no", "alike"}


def test_bars_and_throughput_carry_the_interval_of_the_iteration():
    source = swept("workers", "bandwidth")
    table = source.table[source.table[BANDWIDTH] == source.table[BANDWIDTH].min()].reset_index(drop=True)
    data = figure_of("scaling_efficiency").data(replace(source, table=table))
    low, high = (table[f"iteration_time_interval_s.{end}"] for end in ("p5", "p95"))
    samples = table["throughput_samples_per_s"] * table["iteration_time_s"]
    assert data["throughput_p5"].tolist() == pytest.approx((samples / high).tolist())
    assert data["throughput_p95"].tolist() == pytest.approx((samples / low).tolist())
    data = figure_of("iteration_breakdown").data(replace(source, table=table.head(4)))
    bars = data.drop_duplicates("run")
    assert bars["p5_s"].tolist() == low.head(4).tolist() and bars["p95_s"].tolist() == high.head(4).tolist()
    older = replace(source, table=table.head(4).drop(columns="breakdown_s.slowdown"))  # a term that later versions have
    assert figure_of("iteration_breakdown").data(older).equals(data)


@pytest.mark.long
def test_the_map_of_a_real_sweep_is_its_fastest_points():
    source = swept("workers", "bandwidth")
    data = figure_of("break_even_map").data(source)
    fastest = source.table.groupby([BANDWIDTH, "workers"])["iteration_time_s"].min()
    shown = data.set_index(["bandwidth_bytes_per_s", "workers"])["iteration_time_s"]
    assert shown.to_dict() == fastest.to_dict() and data["winner"].nunique() > 1


def test_dense_is_one_level_in_a_density_sweep_and_the_others_are_as_swept():
    data = figure_of("density_sweep").data(swept("density"))
    assert data["method"].value_counts().to_dict() == {"topk": 3, "gtopk": 3, "dense": 1}
    row = data[(data["method"] == "topk") & (data["density"] == 0.1)].iloc[0]
    document = run(scenario("sparsifier.density=0.1")).document
    assert row["iteration_time_s"] == document["iteration_time_s"]
    assert [row["p5_s"], row["p95_s"]] == document["iteration_time_interval_s"]
    assert row["sent_bytes"] == document["traffic"]["sent_bytes_per_worker"]
    assert data[data["method"] == "dense"]["density"].tolist() == [1.0]


def test_scaling_holds_throughput_against_as_many_single_gpus():
    data = figure_of("scaling_efficiency").data(swept("workers"))
    alone = data[data["workers"] == 1]["throughput_samples_per_s"].max()
    assert data["ideal_samples_per_s"].to_numpy() == pytest.approx((alone * data["workers"]).to_numpy())
    reached = data["throughput_samples_per_s"] / data["ideal_samples_per_s"]
    assert reached.tolist() == pytest.approx(data["efficiency"].tolist())
    assert data[data["workers"] == 1]["efficiency"].tolist() == pytest.approx([1.0] * 3)


def test_the_bars_are_the_runs_terms_and_a_comparison_gives_both_sides():
    here, dense = run(scenario()), run(scenario("sparsifier=dense"))
    result = compared_with(Opponent(dense.scenario), here, dense)
    result = replace(result, comparison=replace(result.comparison, baseline="dense"))
    document, other = result.to_dict(), dense.document
    data = figure_of("iteration_breakdown").data(of_document(document, "run"))
    assert data["run"].unique().tolist() == ["small", "dense"]
    exposed = data.set_index(["run", "phase"])["time_s"]["dense", "communication_exposed"]
    assert exposed == other["breakdown_s"]["communication_exposed"]
    sums = data.groupby("run")["time_s"].sum()
    assert sums["small"] == pytest.approx(document["iteration_time_s"])
    assert sums["dense"] == pytest.approx(other["iteration_time_s"])


def test_runs_of_one_name_get_bars_of_their_own():
    sources = Source("a", "run", run(scenario()).result, others=(Source("b", "run", run(scenario()).result),))
    assert figure_of("iteration_breakdown").data(sources)["run"].unique().tolist() == ["small [1]", "small [2]"]


def test_accuracy_shows_one_quantity():
    def row(quantity, measured, predicted, fitted=False):
        names = ("group", "scenario", "quantity", "measured", "predicted", "signed_error", "used_in_fit")
        values = ("g", "s", quantity, measured, predicted, predicted / measured - 1, fitted)
        return dict(zip(names, values, strict=True)) | {"unit": "" if quantity.startswith("density") else "s"}

    rows = [row("iteration_time", 2.0, 1.5), row("iteration_time", 1.0, 1.0, True), row("forward", 1.0, 3.0)]
    rows += [row("density_selected", 0.1, 0.2)]
    source = of_document({"rows": rows, "groups": {}, "overall": {}}, "validation")
    shown = figure_of("measured_predicted").data(source)[["measured_s", "predicted_s", "signed_error"]]
    assert shown.to_numpy().tolist() == [[2.0, 1.5, -0.25], [1.0, 1.0, 0.0]]
    assert figure_of("measured_predicted", {"quantity": "forward"}).data(source)["predicted_s"].tolist() == [3.0]
    with pytest.raises(InputError, match="rows of quantity update, got none: there are forward, iteration_time"):
        figure_of("measured_predicted", {"quantity": "update"}).data(source)


def test_residuals_are_curve_over_measured():
    data = figure_of("cost_curves").data(timed())
    measured = data[data["measured_s"].notna()]
    assert len(measured) == 6 and measured["residual"].tolist() == pytest.approx([1 / TIMED - 1] * 6)
    assert data[data["measured_s"].isna()].groupby("kernel").size().min() >= 60


def test_recorded_timings_stand_at_the_size_and_density_that_they_are_priced_by():
    points = (
        ("topk", 66, None, None, 2**16, TIMED),  # the first of the two densities
        ("topk", 655, None, None, 2**16, 2 * TIMED),
        ("gather", 66, None, "random", 66, TIMED),  # priced by its indices
        ("gather", 66, None, "sorted", 66, 9.0),
        ("scatter_add", 66, 10, "random", 660, 3 * TIMED),  # ten lists of them: the second density
        ("elementwise", None, None, None, 2**16, TIMED),
    )
    names = ["kernel", "k", "contributions", "order"]
    rows = [{**dict(zip(names, point, strict=False)), "median_s": point[5] * point[4] * 1e-9} for point in points]
    timings = of_table(pd.DataFrame(rows).assign(elements=2**16, dtype="fp32"), "timings")
    gpu = Gpu(name="one nanosecond each", kernels={point[0]: Affine(slope=1e-9) for point in points})
    source = Source("gpu", "gpu", gpu, others=(timings,))
    sizes = {"topk": 2**16, "gather": 66, "scatter_add": 660, "elementwise": 2**16}
    for density, topk in ((0.001, TIMED), (0.01, 2 * TIMED)):
        data = figure_of("cost_curves", {"density": density}).data(source)
        shown = data[data["measured_s"].notna()].set_index("kernel")
        assert shown["elements"].to_dict() == sizes
        expected = {"topk": topk, "gather": TIMED, "scatter_add": 3 * TIMED, "elementwise": TIMED}
        assert (shown["measured_s"] / shown["curve_s"]).to_dict() == pytest.approx(expected)


def test_timings_that_do_not_say_their_type_all_count():
    data = figure_of("cost_curves").data(timings_of("topk"))
    assert data["residual"].dropna().tolist() == pytest.approx([1 / TIMED - 1])
    with pytest.raises(InputError, match="in fp32, got none"):
        figure_of("cost_curves").data(timings_of("topk", dtype=["fp16"]))
    half = figure_of("cost_curves", {"dtype": "fp16"}).data(timings_of("topk", dtype=["fp16"]))
    assert len(half["residual"].dropna()) == 1


@pytest.mark.long
def test_padding_and_imbalance_are_those_of_the_replay():
    data = figure_of("padding_imbalance").data(replayed())
    assert (data["padding"] >= data["imbalance"] * (1 - 1e-12)).all()
    assert (data["smallest"] <= 1 + 1e-12).all() and (data["imbalance"] >= 1 - 1e-12).all()
    assert data[data["workers"] == 1][["padding", "imbalance", "smallest"]].to_numpy() == pytest.approx(1.0)
    topk = data[data["method"].str.startswith("topk")]
    assert topk[["padding", "imbalance", "smallest"]].to_numpy() == pytest.approx(1.0)
    uneven = data[data["method"].str.startswith("gaussiank") & (data["workers"] == 4)]
    # Where the counts of a sample differ no more than the sample explains, they count as equal.
    assert (uneven["padding"] >= 1).all() and uneven["padding"].mean() > 1.2
    n, mean = 4, 1.0  # the others select what is left of the mean: the largest is at most n - (n - 1) smallest
    assert (uneven["imbalance"] <= n * mean - (n - 1) * uneven["smallest"] + 1e-9).all()


def test_links_that_carry_the_same_share_a_lane(tmp_path):
    (tmp_path / "links.csv").write_text(
        "time_s,link,bytes_per_s,utilisation\n"
        "0.0,a,50,0.5\n1.0,a,0,0.0\n3.0,a,100,1.0\n4.0,a,0,0.0\n"
        "0.0,b,50,0.5\n1.0,b,0,0.0\n3.0,b,100,1.0\n4.0,b,0,0.0\n"
        "2.0,c,100,1.0\n4.0,c,0,0.0\n"
    )
    source = Source("run", "run", {"breakdown_s": {}}, folder=tmp_path)
    data = figure_of("link_utilisation").data(source)
    assert data.to_numpy().tolist() == [
        ["c", 1, 2.0, 4.0, 100, 1.0],  # carries for 2 s what a carries for 1.5
        ["a", 2, 0.0, 1.0, 50, 0.5], ["a", 2, 1.0, 3.0, 0, 0.0], ["a", 2, 3.0, 4.0, 100, 1.0],
    ]  # fmt: skip
    assert figure_of("link_utilisation", {"links": 1}).data(source)["link"].unique().tolist() == ["c"]


def matrix(folder):
    return figure_of("traffic_matrix").data(open_source(str(folder)))


def test_a_ring_sends_twice_all_but_one_part_to_the_next():
    data = matrix(run_folder("sparsifier=dense"))
    pairs = [(f"worker {i}", f"worker {(i + 1) % 4}") for i in range(4)]
    assert [(row.source, row.destination) for row in data.itertuples()] == pairs
    assert data["bytes"].tolist() == pytest.approx([2 * 3 / 4 * (4 * 500_000)] * 4)


def test_a_server_takes_and_gives_every_gradient():
    data = matrix(run_folder("sparsifier=dense", "topology=parameter_server"))
    assert (data["source"].str.startswith("server") != data["destination"].str.startswith("server")).all()
    pushed = data[data["destination"].str.startswith("server")].groupby("source")["bytes"].sum()
    assert pushed.tolist() == pytest.approx([4 * 500_000] * 4)


@pytest.mark.parametrize("topology", ["ring", "nccl", "hierarchical", "double_binary_tree", "parameter_server"])
@pytest.mark.parametrize("sparsifier", ["dense", "topk", "oktopk", "gtopk", "zen", "omnireduce"])
def test_the_rows_of_the_matrix_sum_to_what_a_run_says_was_sent(topology, sparsifier):
    overrides = [f"topology={topology}", "cluster.gpus_per_node=2", f"sparsifier={{kind: {sparsifier}, density: 0.01}}"]
    if sparsifier == "dense":
        overrides[-1] = "sparsifier=dense"
    try:
        prediction = run(scenario(*overrides))
    except InputError:
        pytest.skip("this method has no form on this topology")
    sent = prediction.plan.prices.traffic.sent
    assert prediction.plan.traffic_between().sum(axis=1) == pytest.approx(sent, rel=1e-9)
    assert not prediction.plan.traffic_between().diagonal().any()
    assert sent.sum() > 0


def test_many_pairs_are_told_by_node(monkeypatch):
    from simulator.prediction import run_files

    monkeypatch.setattr(run_files, "_PAIRS", 8)
    prediction = run(scenario("cluster.gpus_per_node=4", "sparsifier=dense"))
    lines = [line.split(",") for line in traffic_table(prediction).splitlines()[1:]]
    assert {name for line in lines for name in line[:2]} == {f"node {i}" for i in range(4)}
    assert sum(float(line[2]) for line in lines) == pytest.approx(prediction.document["traffic"]["total_bytes"])


def test_one_worker_has_no_traffic_to_show():
    folder = run_folder("cluster.nodes=1")
    assert not (folder / "traffic.csv").exists()
    with pytest.raises(InputError, match=r"a run with traffic\.csv in its folder"):
        matrix(folder)


def timings_of(kernel, **more):
    """A GPU with a curve for Top-k, and timings of one kernel beside it."""
    table = pd.DataFrame({"kernel": [kernel], "elements": [2**16], "median_s": [TIMED * 2**16 * 1e-9], **more})
    gpu = Gpu(name="one nanosecond each", kernels={"topk": Affine(slope=1e-9)})
    return Source("gpu", "gpu", gpu, others=(of_table(table, "timings"),))


def beside(name, text):
    """A run with one file in its folder."""
    folder = Path(mkdtemp())
    (folder / name).write_text(text)
    return Source("run", "run", {"breakdown_s": {}}, folder=folder)


def without(column, source):
    return replace(source, table=source.table.drop(columns=column))


def failed_only():
    """A sweep of which no point came out."""
    return of_table(swept("workers").table.assign(error="broken"), "sweep")


def run_and_validation():
    return replace(open_source(str(run_folder())), others=(validation(),))


LINKS = "time_s,link,bytes_per_s,utilisation"


@pytest.mark.parametrize(
    ("kind", "source", "words"),
    [
        ("density_sweep", lambda: swept("workers"), "at least two values of sparsifier.density"),
        ("density_sweep", lambda: open_source(str(run_folder())), "a sweep"),
        ("scaling_efficiency", lambda: swept("density"), "at least two numbers of workers"),
        ("scaling_efficiency", lambda: swept("workers", "bandwidth"), f"several, which differ in {BANDWIDTH}: choose"),
        ("density_sweep", lambda: swept("density", "workers"), "which differ in cluster.nodes: choose with"),
        ("break_even_map", lambda: swept("workers"), "a sweep over other keys"),
        ("break_even_map", lambda: grid({k: t for k, t in TIMES.items() if k[0] == "topk"}), "at least two methods"),
        ("measured_predicted", lambda: swept("workers"), "a validation"),
        ("link_utilisation", lambda: open_source(str(run_folder())), "a run with links.csv in its folder, got none"),
        ("iteration_breakdown", lambda: swept("workers", "bandwidth"), "at most 16 runs, got 48"),
        ("cost_curves", lambda: open_source("gpus/ideal"), "a GPU with curves"),
        ("build_up", lambda: open_source(str(run_folder())), "a build-up study"),
        ("cost_curves", lambda: open_sources(["gpus/v100", "gpus/a100"]), "got 2 GPUs among 2 sources"),
        ("cost_curves", lambda: timings_of("sorting"), "timings of topk in fp32, got none in timings"),
        ("density_sweep", lambda: replace(swept("density"), others=(swept("density"),)), "one source, got 2 sources"),
        ("iteration_breakdown", failed_only, "at least one value to show, got none"),
        ("iteration_breakdown", lambda: grid(TIMES), "columns breakdown_s.*, got none"),
        ("iteration_breakdown", run_and_validation, "runs or sweeps only, got validation"),
        ("scaling_efficiency", lambda: without("digest", swept("workers")), "a column digest, got none"),
        ("traffic_matrix", lambda: beside("traffic.csv", "a,b\n1,2\n"), "traffic.csv with source, destination, bytes"),
        ("link_utilisation", lambda: beside("links.csv", "link,b\n1,2\n"), "bytes_per_s, utilisation, got link, b"),
        ("link_utilisation", lambda: beside("links.csv", f"{LINKS}\n"), "a link that carries something, got none"),
    ],
)
def test_what_a_source_does_not_hold_is_said(kind, source, words):
    with pytest.raises(InputError) as caught:
        figure_of(kind).data(source())
    assert f"for figure {kind} " in str(caught.value) and words in str(caught.value)
    assert str(caught.value).count("\n") == 0


def test_rows_of_a_sweep_are_chosen_by_value_with_or_without_units():
    source = swept("workers", "bandwidth")
    for wanted in ({BANDWIDTH: 1.25e9}, {"cluster.network.bandwidth": "10 Gbit/s"}):
        table = select_rows(source, wanted).table
        assert table[BANDWIDTH].unique().tolist() == [1.25e9] and len(table) == len(source.table) / 4
    assert len(select_rows(source, {"sparsifier": "dense", "workers": 8}).table) == 4
    figure_of("scaling_efficiency").data(select_rows(source, {"cluster.network.bandwidth": "10 Gbit/s"}))
    for wanted, words in (
        ({"cluster.node": 4}, "did you mean"),
        ({"workers": 5}, "there are 1, 2, 4, 8"),
        ({"workers": "many"}, "--where workers: expected a value that is in the sweep, got 'many': there are 1, 2, 4"),
    ):
        with pytest.raises(InputError, match=words):
            select_rows(source, wanted)
    with pytest.raises(InputError, match="expected a sweep"):
        select_rows(open_source(str(run_folder())), {"workers": 5})


def test_failed_points_are_left_out():
    vary = {"sparsifier": ["dense", "signsgd"], "cluster.nodes": [2, 3]}
    from simulator.studies.sweep.sweep import sweep

    table = sweep({"base": base(), "vary": vary}, workers=1)
    table.loc[0, ["error", "iteration_time_s"]] = ["broken", np.nan]
    assert len(of_table(table, "sweep").table) == len(table) - 1


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        ("iteration_breakdown", {"breakdown_s": {}}),
        ("iteration_breakdown", {"scenario": "a", "breakdown_s": 3}),
        ("measured_predicted", {"rows": [{"quantity": "iteration_time"}], "groups": {}, "overall": {}}),
        ("measured_predicted", {"rows": 3, "groups": {}, "overall": {}}),
        ("build_up", [{"build_up": 1}]),
    ],
)
def test_damaged_results_are_an_input_error(kind, document):
    with pytest.raises(InputError, match="damaged"):
        figure_of(kind).data(of_document(document, "damaged"))


def test_a_sweep_without_the_columns_of_a_figure_is_an_input_error():
    for kind, source in (("scaling_efficiency", swept("workers")), ("density_sweep", swept("density"))):
        kept = source.table[["sparsifier", "digest", "workers", "iteration_time_s", "density.target"]]
        with pytest.raises(InputError, match="as sparsim writes them"):
            figure_of(kind).data(of_table(kept, "cut"))


def test_results_are_told_apart_by_what_they_hold(tmp_path):
    for name, text in {"a.json": "{", "b.json": "[]", "c.csv": "a,b\n1,2\n", "d.parquet": "no", "e.json": "3"}.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=name):
            open_source(str(tmp_path / name))
    (tmp_path / "run.json").write_text(json.dumps(run(scenario()).document))
    assert open_source(str(tmp_path / "run.json")).kind == "run"
    assert open_source("traces/resnet-digits").kind == "trace" and open_source("gpus/v100").kind == "gpu"
    with pytest.raises(InputError, match="a folder without results"):
        open_source(str(tmp_path))
    assert open_source(str(ROOT / "configs" / "traces" / "resnet-digits")).kind == "trace"
    (tmp_path / "points.jsonl").write_text("")
    with pytest.raises(InputError, match="a sweep that is not finished: the same `sparsim sweep` command finishes it"):
        open_source(str(tmp_path))
    for command, place in (("sweep", "sweeps/density_sweep"), ("run", "quickstart")):
        with pytest.raises(InputError, match=rf"sparsim {command} .* --out DIR"):
            open_source(f"scenarios/{place}.yaml")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"", "a.csv: expected a CSV table, got 'No columns to parse from file'"),
        ("a.json", b'{"\xff": 1}', "a.json: expected UTF-8 text, got byte 2, which is not"),
        ("gpu.yaml", b"name: mine\nmemory_bandwidth: 900\n", "gpu.yaml:2:1: memory_bandwidth: expected a bandwidth"),
        ("gpu.yaml", b"name: mine\nideal: true\nkernel: {}\n", "gpu.yaml:3:1: kernel: expected a known key, got"),
    ],
)
def test_files_that_cannot_be_read_are_said_with_their_place(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=re.escape(words)):
        open_source(str(tmp_path / name))


def test_results_of_every_form_are_drawn_from_memory_and_by_name():
    folder = run_folder()
    by_name = simulator.draw("traffic_matrix", str(folder))
    assert by_name.data.equals(simulator.draw("traffic_matrix", folder).data)
    assert by_name.data.equals(matrix(folder))
    assert simulator.draw("build_up", replayed().document).data.equals(figure_of("build_up").data(replayed()))
    drawn = simulator.draw("measured_predicted", validation().document, quantity="forward").data
    assert drawn.equals(figure_of("measured_predicted", {"quantity": "forward"}).data(validation()))


def test_a_figure_that_makes_other_columns_than_it_says_is_a_mistake_of_its_own():
    """What a plug-in declares is what is written beside its picture."""

    class Wrong(Figure):
        takes = ("run",)
        columns: ClassVar[dict[str, str]] = {"a": "something"}

        def collect(self, source):
            return pd.DataFrame({"b": [1]})

    with pytest.raises(TypeError, match=r"columns \['b'\], declared \['a'\]"):
        Wrong().data(open_source(str(run_folder())))


@pytest.mark.parametrize(
    ("columns", "labels"),
    [
        ({"sparsifier.density": [0.01, 0.1]}, ["1 %", "10 %"]),
        ({"cluster.network.latency_s": [1e-5, 2e-5]}, ["latency 10 us", "latency 20 us"]),
        ({BANDWIDTH: [1.25e8, 1.25e9]}, ["1 Gbit/s", "10 Gbit/s"]),
        ({"scheduler.partition_bytes": [1e5, np.nan]}, ["partition 100 kB", "no partition"]),
        ({"cluster.nodes": [2, 4]}, ["nodes 2", "nodes 4"]),
        ({"topology": ["ring", '{"kind": "tree"']}, ["ring", '{"kind": "tree"']),  # a cell that somebody has cut
        ({"sparsifier": ['{"kind": "topk", "density": "1 %"}', "dense"]}, ["topk 1 %", "dense"]),
        ({"cluster.nodes": [4, 4]}, ["0", "1"]),  # nothing that tells them apart
    ],
)
def test_bars_of_a_sweep_are_called_after_what_was_varied(columns, labels):
    assert point_labels(pd.DataFrame({**columns, "digest": ["a", "b"]})) == labels


def test_results_in_memory_are_drawn_as_those_on_disk_are():
    prediction, stored = run(scenario()), open_source(str(run_folder()))
    for kind in ("iteration_breakdown", "traffic_matrix"):
        drawn = simulator.draw(kind, prediction)
        assert drawn.data.equals(figure_of(kind).data(stored))
    assert drawn._repr_png_().startswith(b"\x89PNG")
    table = swept("workers", "bandwidth").table
    one = simulator.draw("scaling_efficiency", table, where={"cluster.network.bandwidth": "10 Gbit/s"})
    assert one.data["workers"].nunique() == table["workers"].nunique()
    assert simulator.draw("iteration_breakdown", prediction, prediction).data["run"].nunique() == 2
    with pytest.raises(TypeError, match="at least one result"):
        simulator.draw("traffic_matrix")
    with pytest.raises(InputError, match="a kind of figure"):
        simulator.draw("traffic_matrices", prediction)


def test_lines_of_the_scaling_figure_are_of_any_key_that_was_varied():
    topologies = ["ring", {"kind": "parameter_server", "servers": 1}]
    table = simulator.sweep({"base": base(), "vary": {"topology": topologies, "cluster.nodes": [1, 2, 4]}}, workers=1)
    data = simulator.draw("scaling_efficiency", table, by="topology").data
    assert data.groupby("method").size().to_dict() == {"ring": 3, "parameter_server servers 1": 3}
    with pytest.raises(InputError, match="several, which differ in topology"):
        simulator.draw("scaling_efficiency", table)
    with pytest.raises(InputError, match="a key that was varied"):
        simulator.draw("scaling_efficiency", table, by="scheduler")


def test_a_point_without_the_key_that_varies_is_called_that():
    table = simulator.sweep({"base": base(), "vary": {"scheduler.partition": [None, "100 kB"]}}, workers=1)
    names = simulator.draw("iteration_breakdown", table).data["run"].unique()
    assert list(names) == ["no partition", "partition 100 kB"]


def test_convergence_is_the_median_over_seeds_with_the_lowest_and_the_highest():
    data = figure_of("convergence").data(open_source(str(trained())))
    assert set(data["quantity"]) == {"loss", "accuracy"}
    assert set(data["method"]) == {"dense", "topk 0.01", "randomk 0.1"} and (data["seeds"] == 3).all()
    assert (data["low"] <= data["middle"]).all() and (data["middle"] <= data["high"]).all()
    late = data[data["quantity"] == "loss"].groupby("method").tail(1).set_index("method")["middle"]
    assert late["dense"] < late["topk 0.01"] < late["randomk 0.1"]


def test_convergence_asks_which_trainings_where_there_are_several(tmp_path):
    folder = write_study(tmp_path, [DENSE], seeds=1, workers=(2, 4))
    with pytest.raises(InputError, match=r"trainings of one workers, got 2, 4: choose with --set workers=4"):
        figure_of("convergence").data(open_source(str(folder)))
    assert set(figure_of("convergence", {"workers": 2}).data(open_source(str(folder)))["method"]) == {"dense"}


def test_time_to_quality_is_iterations_times_their_time():
    data = figure_of("time_to_quality").data(to_quality())
    assert data["time_s"].tolist() == pytest.approx((data["iterations"] * data["iteration_time_s"]).tolist())
    ends = data[data["row"] == "target"].set_index("method")
    assert (ends["p5_s"] < ends["time_s"]).all() and (ends["time_s"] < ends["p95_s"]).all()
    # The curve passes the target where the method is said to reach it.
    for method, end in ends.iterrows():
        curve = data[(data["row"] == "curve") & (data["method"] == method)]
        assert curve[curve["middle"] <= 0.5]["iterations"].min() == pytest.approx(end["iterations"], rel=0.1)


def test_lines_have_one_name_for_each_method_and_the_key_that_is_asked_for():
    data = figure_of("lines", {"quantity": "scaling_efficiency"}).data(swept("workers"))
    assert set(data["line"]) == {"topk 1 %", "gtopk 1 %", "dense"} and set(data["over"]) == {1, 2, 4, 8}
    assert data["key"].unique().tolist() == ["workers"] and len(data) == 12
    times = figure_of("lines", {"quantity": "iteration_time"}).data(swept("workers"))  # without its unit
    pd.testing.assert_frame_equal(times, figure_of("lines").data(swept("workers")))
    with pytest.raises(InputError, match="for figure lines columns of numbers, got 'digest'"):
        figure_of("lines", {"quantity": "digest"}).data(swept("workers"))


def test_bandwidths_are_drawn_in_bits():
    key = "cluster.network.bandwidth_bytes_per_s"
    columns = {"line": "dense", "over": [1.25e8, 1.25e9], "key": key, "value": 1.0, "quantity": "iteration_time_s"}
    (panel,) = figure_of("lines", {"over": key}).compose(pd.DataFrame(columns)).panels
    assert panel.x.label == "network bandwidth (bit/s)" and [*panel.marks[0].x] == [1e9, 1e10]


def test_bars_are_grouped_by_the_last_part_of_a_name():
    rows = [
        ["workloads/one-v100", "dense", "a", 2, 1.0],
        ["workloads/one-v100", "topk", "b", 2, 0.5],
        ['{"trace": "workloads/two", "batch_size": 8}', "dense", "c", 2, 3.0],
    ]
    source = points(rows, ["workload", "sparsifier", "digest", "workers", "iteration_time_s"])
    data = figure_of("grouped_bars", {"over": "workload", "quantity": "iteration_time_s"}).data(source)
    bars = [["one-v100", "dense", 1.0], ["one-v100", "topk", 0.5], ["two", "dense", 3.0]]
    assert data[["group", "bar", "value"]].to_numpy().tolist() == bars
    with pytest.raises(InputError, match="columns of the sweep, got 'nothing'"):
        figure_of("grouped_bars", {"quantity": "nothing"}).data(source)


def test_the_map_can_name_combinations_of_all_that_varies():
    rows = [
        ["dense", scheduler, bandwidth, f"{scheduler}{workers}{bandwidth}", workers, time]
        for (scheduler, workers, bandwidth), time in {
            ("wfbp", 2, 1e8): 2.0, ("priority", 2, 1e8): 1.0, ("wfbp", 2, 1e9): 1.0, ("priority", 2, 1e9): 1.5,
            ("wfbp", 8, 1e8): 4.0, ("priority", 8, 1e8): 3.0, ("wfbp", 8, 1e9): 2.0, ("priority", 8, 1e9): 2.5,
        }.items()
    ]  # fmt: skip
    source = points(rows, ["sparsifier", "scheduler", BANDWIDTH, "digest", "workers", "iteration_time_s"])
    data = figure_of("break_even_map", {"by": "combination"}).data(source)
    data = data.set_index(["workers", "bandwidth_bytes_per_s"])
    assert data.loc[2, 1e8].tolist()[:2] == ["dense, priority", 1.0]
    assert data.loc[8, 1e9].tolist()[:4] == ["dense, wfbp", 2.0, "dense, priority", 2.5]


@pytest.mark.parametrize(
    ("kind", "told"), [("build_up", {1, 4}), ("padding_imbalance", {1, 4}), ("over_iterations", {4})]
)
def test_figures_name_the_methods_that_have_not_settled(kind, told):
    """On some number of workers that the figure shows; `over_iterations` shows the most."""
    for moving in (1, 4):
        rows = [{**row, "unsettled": "it moves" if row["workers"] == moving else ""} for row in replayed().document]
        names = set(figure_of(kind).data(of_document(rows, "build-up"))["method"])
        assert all(name.endswith(" (has not settled)") == (moving in told) for name in names)


def test_a_replay_over_iterations_has_its_bounds_beside_it():
    data = figure_of("over_iterations").data(replayed())
    assert set(data["quantity"]) == {"energy_kept", "top_k_bound", "random_k_bound"}
    data["method"] = data["method"].str.removesuffix(" (has not settled)")
    rows = pd.DataFrame(replayed().document)
    last = rows[(rows["workers"] == 4) & (rows["method"] == "topk 0.01 layer")].iloc[-1]
    shown = data[(data["method"] == "topk 0.01 layer") & (data["iteration"] == last["iteration"])]
    expected = {name: last[name] for name in ("energy_kept", "top_k_bound", "random_k_bound")}
    assert dict(zip(shown["quantity"], shown["value"], strict=True)) == pytest.approx(expected)
    assert last["top_k_bound"] == pytest.approx(1 - (1 - last["random_k_bound"]) ** 2)


PANELS = """
iteration_breakdown: iteration time, time, from 0; , number
scaling_efficiency: workers, number; scaling efficiency, percent, from 0; workers; efficiency
+ workers, number; throughput (samples/s), number, log; workers; throughput_samples_per_s; throughput_p5 throughput_p95
density_sweep: density, percent, log; iteration time, time, from 0; density; iteration_time_s; p5_s p95_s
+ density, percent, log; sent per worker and iteration, bytes, log; density; sent_bytes
build_up: workers, number; aggregated density, percent, log
+ iteration, count; , percent, from 0
+ iteration, count; , percent, from 0
padding_imbalance: workers, number; padding (sent / selected), number
+ iteration, count; , number
+ iteration, count; , number
break_even_map: network bandwidth (bit/s), number; workers, number
measured_predicted: measured iteration time, time, log; predicted iteration time, time, log; measured_s; predicted_s
+ predicted / measured − 1, percent; , number
cost_curves: elements, size, log; time of one call, time, log; elements; curve_s measured_s
+ elements, size, log; curve / measured − 1, percent; elements; residual
link_utilisation: time since the first iteration began, time, from 0; , number
lines: workers, number; iteration time, time, log; over; value
grouped_bars: , number; scaling efficiency, share, from 0
over_iterations: iteration, count; energy kept, percent, log; iteration; value
gradient_distribution:gradient plus residual (standard deviations), number; share of the elements in a bin, percent, log
traffic_matrix: receiver, number; sender, number
convergence: iterations, number, from 0; loss, number, log; iteration; middle; low high
+ iterations, number, from 0; accuracy, number; iteration; middle; low high
time_to_quality: time on this cluster, time, from 0; loss, number; time_s; middle; low high
+ time to the target, time, from 0; , number
+ time of an iteration, time, from 0; iterations to the target, number, from 0; iteration_time_s; iterations
"""
"""The axes of each panel, and the columns of the points that are drawn, and of both ends of a band."""
PANELS = {
    kind: [line.split("; ") for line in lines.split("\n+ ")]
    for kind, lines in re.findall(r"^(\w+): *(.*(?:\n\+ .*)*)", PANELS, re.M)
}


def describe_axis(axis):
    return ", ".join([axis.label, axis.kind, *["log"] * bool(axis.log), *["from 0"] * (axis.low == 0)])


def rows_of(data, *names):
    return {*data[[*names]].dropna().itertuples(index=False, name=None)}


@pytest.mark.parametrize("kind", PANELS)
def test_panels_show_columns_of_the_table_on_the_axes_that_belong_to_them(kind):
    data = figure_of(kind).data(SOURCES[kind]())
    drawn, wanted = set(), set()
    for panel, (x_axis, y_axis, *columns) in zip(figure_of(kind).compose(data).panels, PANELS[kind], strict=True):
        assert (describe_axis(panel.x), describe_axis(panel.y)) == (x_axis, y_axis)
        x, y, ends, *_ = *columns, *[""] * (3 - len(columns))
        known = set().union(*(rows_of(data, x, name) for name in y.split()))
        for mark in (mark for mark in panel.marks if [*mark.x] != [None]):  # which is for the legend
            places = re.findall(r"customdata.(\d)", " ".join(getattr(mark, "said", ())))
            assert not places or [len(row) for row in mark.told] == [int(max(places)) + 1] * len(mark.x)
            assert panel.x.low is None or panel.x.low <= min(mark.x)
            assert panel.x.high is None or max(mark.x) <= panel.x.high or "row" in data  # curves go on beyond it
            if y and isinstance(mark, Band):
                assert {*zip(mark.x, mark.low, mark.high, strict=True)} <= rows_of(data, x, *ends.split())
            elif y and mark.colour != GREY and not mark.level:
                points = {point for point in zip(mark.x, mark.y, strict=True) if point[1] == point[1]}
                assert points <= known
                drawn |= points
        wanted |= set() if " " in y else known
    assert not [point for point in wanted - drawn if point[0] != 1] or "row" in data  # a density of 1 is a level
