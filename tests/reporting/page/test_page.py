"""The report: one file with everything in it, the figures' numbers, no foreign markup, the same bytes every time."""

import base64
import builtins
import gzip
import hashlib
import json
import re

import pytest
from command_line import invoke, printed, refused
from figure_results import ROOT, SCENARIO, SOURCES, base, replayed, run_folder, swept, to_quality, validation
from page_parsing import Parsed
from plotly import graph_objects

from simulator.answers import plain, to_document
from simulator.cli.reports import open_results
from simulator.errors import InputError
from simulator.records import replace
from simulator.reporting.figures.base import figure_of
from simulator.reporting.figures.data.sources import of_document, of_table, open_source
from simulator.reporting.page import charts
from simulator.reporting.page.charts import MARKUPS, sweep_charts
from simulator.reporting.page.drawings import Bar, draw_term_bars
from simulator.reporting.page.making import html_of, page_of, write_page
from simulator.reporting.page.plots import draw_in_page
from simulator.studies.sweep.sweep import run_sweep, sweep
from simulator.units import show_bandwidth, show_bytes, show_probability, show_time

EVIL = "</script><img src=x onerror=alert(1)>\"' onmouseover=alert(2) <b>$x$</b> <!--"
SHOWN = {
    "scaling_efficiency": "efficiency", "density_sweep": "iteration_time_s", "padding_imbalance": "padding",
    "break_even_map": "iteration_time_s", "measured_predicted": "predicted_s", "cost_curves": "curve_s",
}  # fmt: skip
"""A column of each figure whose values stand in its drawing one by one (build-up draws means)."""


def leaves(value):
    """What a plot consists of."""
    if isinstance(value, dict | list | tuple):
        return [leaf for item in (value.values() if isinstance(value, dict) else value) for leaf in leaves(item)]
    return [value]


def numbers(value):
    """Every number in a plot."""
    return {leaf for leaf in leaves(value) if isinstance(leaf, int | float)}


def resolved(value):
    """A plot as the page hands it to the library: with colours in place of names."""
    if isinstance(value, dict):
        return {key: resolved(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [resolved(item) for item in value]
    return "#123456" if isinstance(value, str) and value.startswith(("color-mix(", "light-dark(")) else value


@pytest.fixture(scope="module")
def sources():
    return {
        "run": open_source(str(run_folder("topology=parameter_server"))),
        "sweep": swept("workers", "bandwidth"),
        "validation": validation(),
        "build_up": replayed(),
        "gpu": open_source("gpus/v100"),
        "quality": to_quality(),
    }


@pytest.fixture(scope="module")
def pages(sources):
    return {kind: html_of(page_of(source)) for kind, source in sources.items()}


PICTURED = ("break_even_map", "density_sweep")
ZOOMED = (*SHOWN, "build_up", "time_to_quality")


@pytest.mark.parametrize(
    "kind", [kind if kind in PICTURED else pytest.param(kind, marks=pytest.mark.long) for kind in ZOOMED]
)
def test_every_figure_of_a_page_has_a_drawing_of_its_own_table_that_the_library_takes(kind):
    member = figure_of(kind)
    data = member.data(SOURCES[kind]())
    plot = draw_in_page(member.compose(data))
    graph_objects.Figure(resolved(plot)).to_json()  # raises for what the library does not know
    if kind == "padding_imbalance":
        data = data[data["workers"] == data["workers"].max()]
    if kind == "cost_curves":
        assert {float(f"{value:.6g}") for value in data["measured_s"].dropna()} <= numbers(plot["data"])
        data = data[data["measured_s"].isna()]
    if kind in SHOWN:
        held = numbers(plot["data"])
        shown = {float(f"{value:.6g}") for value in data[SHOWN[kind]]}
        assert shown <= held, sorted(shown - held)[:5]
    titles = [value["title"]["text"] for key, value in plot["layout"].items() if key.startswith("xaxis")]
    assert titles[0]
    assert len(titles) == 1 or any(titles[1:])  # panels of one axis in several parts have its title once


def markup_of(kind, data):
    (panel,) = figure_of(kind).compose(data).panels
    return MARKUPS[kind](panel, *panel.marks)


@pytest.mark.parametrize("kind", sorted(MARKUPS))
def test_figures_without_a_script_say_every_value_of_their_table(kind):
    data = figure_of(kind).data(open_source(str(run_folder("topology=parameter_server"))))
    drawn = Parsed(markup_of(kind, data))
    assert drawn.wrong == []
    said = drawn.text("title")
    if kind == "traffic_matrix":
        wanted = [show_bytes(nbytes) for nbytes in data["bytes"].unique()]
    else:
        wanted = [show_bandwidth(rate) for rate in data["bytes_per_s"] if rate]
    assert [text for text in wanted if not any(text in title for title in said)] == []
    for tag, held in drawn.elements:
        assert "style" not in held, tag  # a page may forbid it


def test_bars_say_the_seconds_of_every_term_and_are_escaped():
    drawn = Parsed(draw_term_bars([Bar("<b>evil</b>", {"forward": 0.25, "data_loading": 0.5}, (0.5, 1.0))]))
    assert drawn.wrong == [] and not drawn.all("b")
    assert "forward pass: 250 ms, 33.3 % of the iteration" in drawn.text("title")
    assert "waiting for data: 500 ms, 66.7 % of the iteration" in drawn.text("title")
    assert "90 % interval: 500 ms to 1 s" in drawn.text("title")


def test_traffic_that_is_the_same_everywhere_has_no_matrix():
    even = figure_of("traffic_matrix").data(open_source(str(run_folder())))
    assert even["bytes"].nunique() == 1 and markup_of("traffic_matrix", even) is None
    assert markup_of("traffic_matrix", even.assign(bytes=even["bytes"] * [2, *[1] * (len(even) - 1)])) is not None


def test_build_up_is_drawn_as_the_mean_over_the_settled_iterations():
    data = figure_of("build_up").data(replayed())
    held = numbers(draw_in_page(figure_of("build_up").compose(data))["data"])
    assert not data["priced"].all()
    for mean in data[data["priced"]].groupby(["method", "workers"])["aggregated"].mean():
        assert float(f"{mean:.6g}") in held


@pytest.mark.parametrize("kind", ["run", "sweep", "validation", "build_up", "gpu", "quality"])
def test_a_page_is_whole_and_loads_nothing(pages, kind):
    page = Parsed(pages[kind])
    assert page.wrong == [] and len(page.all("h1")) == 1 and page.data()["charts"]
    zoomed = [chart for chart in page.data()["charts"] if chart["views"]]
    assert len([held for held, _ in page.all("div") if "data-chart" in held]) == len(zoomed)
    sections = [held for held, _ in page.all("section") if str(held.get("id")).startswith("chart-")]
    assert len(sections) == len(page.data()["charts"])
    anchors = [held["id"] for _, held in page.elements if "id" in held]
    assert len(anchors) == len(set(anchors))
    for tag, held in page.elements:
        assert tag not in ("iframe", "object", "embed", "img", "base", "form")
        for name in ("src", "href", "srcset", "action"):
            assert held.get(name) in (None, "data:,") or held[name].removeprefix("#") in anchors
        assert not [name for name in held if name.startswith("on")]
    (policy,) = [held["content"] for held, _ in page.all("meta") if held.get("http-equiv")]
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "script-src 'unsafe" not in policy
    packed = [text for held, text in page.all("script") if held.get("id") == "library"]
    library = [gzip.decompress(base64.b64decode(text)) for text in packed]
    assert len(library) == (1 if zoomed or page.data()["points"] else 0)
    for script in (*library, *(text.encode() for held, text in page.all("script") if not held)):
        assert base64.b64encode(hashlib.sha256(script).digest()).decode() in policy
    assert "Where this comes from" in page.text("h2")


def test_the_page_of_a_run_states_what_the_run_states(pages, sources):
    document, text = sources["run"].document.to_dict(), " ".join(Parsed(pages["run"]).text("body"))
    assert document["digest"] in text and document["fidelity"]["reason"] in text
    for name, version in document["versions"].items():
        assert f"{name} {version}" in text
    for item in document["calibration"]:
        assert item["id"] in text
    for warning in document["warnings"]:
        assert warning in text
    charts = [held["id"] for held, _ in Parsed(pages["run"]).all("section") if "id" in held]
    assert {"chart-iteration_breakdown", "chart-link_utilisation", "chart-traffic_matrix"} <= set(charts)


def test_the_page_of_a_sweep_holds_every_point_and_what_the_points_rest_on(pages, sources):
    table, page = sources["sweep"].table, Parsed(pages["sweep"])
    points = page.data()["points"]
    assert points["count"] == len(table)
    packed = points["values"]["iteration_time_s"]
    held = packed.get("plain") or [packed["levels"][code] for code in packed["codes"]]
    assert held == [float(f"{value:.6g}") for value in table["iteration_time_s"]]
    text = " ".join(page.text("body"))
    for entry in set("; ".join(table["calibration"].dropna()).split("; ")):
        assert entry in text
    assert "held-out error" in text and f"fold: {len(table)} points" in text
    assert "What the predictions rest on" in page.text("h2")


def test_the_page_of_a_validation_has_every_row_and_the_errors(pages, sources):
    document = sources["validation"].document
    page = Parsed(pages["validation"])
    text = " ".join(page.text("body"))
    assert len([held for held, _ in page.all("td") if held["class"] == "error"]) >= len(document.rows)
    assert f"{100 * document.overall.mape:.1f} %" in text and f"sparsim {document.versions['sparsim']}" in text
    quantities = {row["quantity"].replace("_", " ") for row in document.rows}
    assert {view["chosen"][0] for view in page.data()["charts"][0]["views"]} == quantities


def test_the_page_of_times_to_quality_says_what_the_terminal_says(pages, sources):
    document = sources["quality"].document
    page = Parsed(pages["quality"])
    assert " ".join(document.answer.split()) in " ".join(" ".join(page.text("body")).split())
    for row in document.methods:
        assert show_time(row.time_to_target) in page.text("td")


def test_the_page_of_a_validation_says_whether_compression_pays(pages, sources):
    text = " ".join(" ".join(Parsed(pages["validation"]).text("body")).split())
    (topk,) = (item for item in sources["validation"].document.signs if "Top-k" in item.scenario)
    assert "Whether compression pays, by set-up" in text
    assert f"{topk.against}{topk.measured_speed_up:.4g}{topk.predicted_speed_up:.4g}nono" in text


def test_a_validation_that_somebody_has_cut_is_an_input_error():
    document = replace(validation().document, rows=[{"quantity": "iteration_time"}])
    with pytest.raises(InputError, match="cut: expected results as this version of sparsim writes them"):
        page_of(replace(validation(), document=document, place="cut"))


@pytest.mark.long
@pytest.mark.parametrize("key", ["scenario", "quantity", "unit", "predicted", "interval", "signed_error", "warnings"])
def test_any_value_in_a_stored_row_is_shown_or_refused(tmp_path, key):
    stored = plain(validation().document)
    for name, value in {"text": "x", "list": [None], "mapping": {"a": "b"}}.items():
        edited = stored | {"rows": [stored["rows"][0] | {key: value}, *stored["rows"][1:]]}
        (tmp_path / f"{name}.json").write_text(json.dumps(edited))
        for options in (("-o", tmp_path / "a.html"), ("--figure", "measured_predicted", "-o", tmp_path / "a.svg")):
            done = invoke("report", tmp_path / f"{name}.json", *options)
            assert done.exit_code == 0 or f"{name}.json: " in done.stderr, done.exception


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("networks/10gbe-tcp", ["9.394 Gbit/s", "held-out error of the link law", "9.1 %", "all_reduce"]),
        ("gpus/v100-pytorch2", ["5.3 %", "topk", "held-out error (MAPE)"]),
        ("runtimes/horovod-0.19", ["negotiation", "1.9 %"]),
    ],
)
def test_calibrated_configs_have_a_page_with_their_held_out_errors(place, words):
    with open_results(place) as source:
        text = " ".join(Parsed(html_of(page_of(source))).text("body"))
    for word in words:
        assert word in text


@pytest.mark.long
def test_what_a_figure_does_not_show_on_an_axis_is_chosen():
    charts = {chart.kind: chart for chart in sweep_charts(swept("density", "workers", "bandwidth"))}
    assert charts["density_sweep"].choices == ("nodes", "network bandwidth")
    assert len(charts["density_sweep"].views) == 16
    chosen = charts["density_sweep"].views[charts["density_sweep"].first].chosen
    assert chosen not in [("1", "100 Mbit/s"), ("8", "100 Gbit/s")]  # not a corner of the grid
    only = swept("density").table
    (view,) = [view for view in charts["density_sweep"].views if view.chosen == ("4", "10 Gbit/s")]
    lines = [trace for trace in view.plot["data"] if "yaxis" not in trace and "fill" not in trace]
    assert numbers([trace["y"] for trace in lines]) == {float(f"{value:.6g}") for value in only["iteration_time_s"]}


def test_a_sweep_in_which_nothing_changes_says_so():
    table = swept("workers", "bandwidth").table.assign(iteration_time_s=0.25)
    assert page_of(of_table(table, "same")).answer == "Every iteration takes 250 ms."


def test_a_sweep_with_verdicts_says_where_each_method_pays():
    table = swept("workers", "bandwidth").table
    verdicts = table["sparsifier"].map(lambda name: None if name == "dense" else "yes").where(table["workers"] > 1)
    answer = page_of(of_table(table.assign(verdict=verdicts.mask(table["workers"] == 8, "undecided")), "judged")).answer
    assert "gtopk 1 % in 8 of 12 points, not decided in 4" in answer


def test_keys_that_go_along_with_an_axis_are_no_choice():
    document = {
        "base": base(),
        "vary": {"sparsifier.density": [0.01, 0.1]},
        "zip": [{"cluster.nodes": [2, 4], "cluster.network.latency": ["10 us", "20 us"]}],
    }
    source = of_table(sweep(document, workers=1), "zipped")
    (chart,) = [chart for chart in sweep_charts(source) if chart.kind == "scaling_efficiency"]
    assert chart.choices == ("sparsifier density",)


def test_names_cannot_become_markup_in_the_page_of_a_run(tmp_path):
    path = tmp_path / "evil.yaml"
    path.write_text(SCENARIO.replace("name: small", f"name: {json.dumps(EVIL)}"))
    with open_results(str(path)) as source:
        html = html_of(page_of(source))
    check_harmless(html)
    assert Parsed(html).text("h1") == [EVIL] and Parsed(html).text("title")[0] == EVIL


def test_names_cannot_become_markup_in_the_page_of_a_sweep():
    table = swept("workers", "bandwidth").table.copy()
    table["sparsifier"] = table["sparsifier"].map(lambda kind: EVIL + str(kind))
    table[EVIL] = EVIL
    table.insert(0, EVIL + "varied", [EVIL + str(number % 2) for number in range(len(table))])
    table["warnings"] = EVIL
    check_harmless(html_of(page_of(replace(of_table(table, EVIL), folder=None))))


@pytest.mark.long
def test_names_cannot_become_markup_in_the_page_of_a_validation():
    document = to_document(validation().document)
    for row in document["rows"]:
        row |= {"scenario": EVIL, "group": EVIL, "digest": EVIL, "warnings": [EVIL]}
    document["groups"] = {EVIL: document["overall"]}
    document["versions"] = {EVIL: EVIL}
    html = html_of(page_of(replace(of_document(document, EVIL), folder=None)))
    check_harmless(html)
    assert EVIL in Parsed(html).text("td")


def check_harmless(html):
    """Nothing of the name is an element, an attribute, or a script; nothing of it is markup to the plotting library."""
    page = Parsed(html)
    assert page.wrong == [] and not page.all("img") and not page.all("b") and len(page.all("script")) <= 3
    for _, held in page.elements:
        assert not [name for name in held if name.startswith("on")]
    (raw,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)
    assert not set("<>&") & set(raw)
    for chart in page.data()["charts"]:
        for text in strings([view["plot"] for view in chart["views"]]):
            assert not re.search(r"<(?!/?b>|br>|/?extra>)", text), text
            assert "<img" not in text and "$x$" not in text


def strings(value):
    return [item for item in leaves(value) if isinstance(item, str)]


@pytest.mark.long
def test_the_same_results_give_the_same_bytes(pages, sources):
    for kind, source in sources.items():
        assert html_of(page_of(source)) == pages[kind]


def test_the_command_reports_a_folder_a_file_standard_input_and_a_scenario(tmp_path):
    folder = run_folder()
    made = tmp_path / "made.html"
    again = tmp_path / "again.html"
    printed("report", folder, "-o", made)
    printed("report", "-", "-o", again, input=(folder / "result.json").read_text())
    assert Parsed(again.read_text()).text("h1") == Parsed(made.read_text()).text("h1") == ["small"]
    scenario = tmp_path / "small.yaml"
    scenario.write_text(SCENARIO)
    printed("report", scenario, "-o", again, "--set", "cluster.nodes=2")
    assert "cluster:\n" in "".join(Parsed(again.read_text()).text("pre"))


def test_a_sweep_that_has_failures_says_so(tmp_path):
    document = {"base": base(), "vary": {"cluster.nodes": [2, 4], "topology": ["ring", "halving_doubling"]}}
    run_sweep(document, tmp_path / "out", workers=1)
    table = open_source(str(tmp_path / "out"))
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    (tmp_path / "out" / "manifest.json").write_text(json.dumps(manifest | {"failed": 1}))
    page = page_of(table)
    assert ("failed", "1") in page.glance and "Points that failed" in [made.title for made in page.tables]


def glance(page):
    return dict(page.glance)


def titles(page):
    return [table.title for table in page.tables]


def test_the_page_of_a_dense_run_has_no_build_up_and_a_run_of_no_time_no_throughput():
    dense = page_of(open_source(str(run_folder("sparsifier=dense"))))
    assert "density" not in glance(dense)
    assert "build-up" in glance(page_of(open_source(str(run_folder()))))["density"]
    assert glance(dense)["throughput"].endswith(" samples/s on 4 workers")
    (bars,) = [chart for chart in dense.charts if chart.kind == "iteration_breakdown"]
    assert "selection" not in bars.markup  # takes no time
    source = open_source(str(run_folder("sparsifier=dense")))
    nothing = dict.fromkeys(source.document.breakdown, 0.0)
    changes = {"throughput": None, "scaling_efficiency": None, "iteration_time": 0.0, "breakdown": nothing}
    page = page_of(replace(source, document=replace(source.document, **changes)))
    assert not {"throughput", "scaling efficiency"} & set(glance(page))
    assert [row[-1] for row in page.tables[0].rows] == [None] * len(page.tables[0].rows)  # shares of nothing
    html_of(page)


def test_a_stored_document_without_links_has_no_table_of_them():
    document = open_source(str(run_folder())).document.to_dict()
    del document["links"]
    assert "Busiest links" not in titles(page_of(of_document(document, "older")))
    assert "Busiest links" in titles(page_of(of_document(document | {"links": [LINK]}, "with one")))


LINK = {"name": "node 0 NIC out", "bytes": 1e6, "utilisation": 0.5}


@pytest.mark.long
def test_the_page_of_a_replayed_run_has_the_recorded_iterations():
    with open_results("replay_topk") as source:
        page = page_of(source)
        recorded = to_document(source.document)["density_over_iterations"]
    (table,) = [table for table in page.tables if table.title == "Density over the recorded iterations"]
    assert [row[0] for row in table.rows] == [row["iteration"] for row in recorded]
    kinds = {column.key: column.kind for column in table.columns}
    assert (kinds["iteration"], kinds["aggregated"], kinds["build_up"]) == ("count", "percent", "number")
    assert "build-up" in [column.label for column in table.columns]


def test_the_page_of_a_sweep_of_which_nothing_came_out_says_so(tmp_path):
    page = page_of(of_table(swept("workers").table.assign(error="broken"), "broken"))
    assert page.glance == [("points", "0")] and (page.answer, page.points, page.charts) == ("", None, [])
    assert page.subtitle == "a sweep over no key" and Parsed(html_of(page)).wrong == []


@pytest.mark.parametrize("text", ["{", "[]", '"\\ud800"', None])
def test_a_manifest_that_is_damaged_costs_no_more_than_what_it_says(tmp_path, text):
    swept("workers").table.to_parquet(tmp_path / "results.parquet")
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    page = page_of(open_source(str(tmp_path)))
    assert page.title == str(tmp_path) and "digest of the sweep" not in dict(page.provenance)
    assert glance(page)["points"] == f"{len(swept('workers').table)}"


def test_failures_that_are_not_kept_are_counted_alone(tmp_path):
    """Only the Parquet file has the errors; a table that was kept as CSV has the rows that came out."""
    swept("workers").table.to_csv(tmp_path / "results.csv", index=False)
    (tmp_path / "manifest.json").write_text('{"failed": 1200}')
    page = page_of(open_source(str(tmp_path)))
    assert glance(page)["failed"] == "1,200" and "Points that failed" not in titles(page)


def test_the_provenance_of_a_cut_table_names_what_is_there():
    table = swept("workers").table
    kept = table[[name for name in table if not name.startswith(("versions.", "fidelity."))]]
    whole, cut = (dict(page_of(of_table(each, "sweep")).provenance) for each in (table, kept))
    assert whole["fidelity"] == f"fold: {len(table):,} points" and "sparsim" in whole["versions"]
    assert not {"fidelity", "versions"} & set(cut) and "digest of each point" in cut


def test_too_many_choices_are_no_chart(monkeypatch):
    source = swept("density", "workers")
    assert "density_sweep" in [chart.kind for chart in sweep_charts(source)]
    monkeypatch.setattr(charts, "_VIEWS", 3)
    assert "density_sweep" not in [chart.kind for chart in sweep_charts(source)]


def test_calibrated_configs_without_measurements_say_what_is_unknown():
    with open_results("gpus/ideal") as source:
        page = page_of(source)
        assert dict(page.glance) == {"kernels with a curve": "0"} and page.charts == []
    with open_results("networks/1gbe-tcp") as source:
        page = page_of(source)
        assert "inside a node" not in glance(page) and (page.charts, page.tables) == ([], [])
        assert page.warnings == ["the held-out error of the link law is not known"]
    with open_results("networks/nvlink-v100") as source:
        assert glance(page_of(source))["inside a node"] == "680 Gbit/s"


def test_a_trace_is_replayed_for_its_page(tmp_path):
    spec, out = tmp_path / "spec.yaml", tmp_path / "trace"
    spec.write_text("{layers: [{numel: 3000, scale: 1}], workers: 2, iterations: 2, seed: 1}")
    printed("trace", "synthesize", spec, "--out", out)
    with open_results(str(out)) as source:
        page = page_of(source)
    assert [chart.kind for chart in page.charts] == ["build_up", "padding_imbalance"]
    assert page.subtitle == f"replays of recorded gradients: {out}" and page.tables == []


def test_slow_links_have_their_bandwidth_in_bits():
    assert [show_bandwidth(rate) for rate in (100.0, 125.0, 0.0)] == ["800 bit/s", "1 kbit/s", "0 bit/s"]


CONFIGS = {
    "kind.yaml": "name: mine\nkind: single_swich\nbandwidth: 10 Gbit/s\n",
    "unit.yaml": "name: mine\nkind: single_switch\nbandwidth: 10\n",
    "runtime.yaml": "name: mine\nnegotiation: 5\n",
    "list.yaml": "- a\n",
    "other.yaml": "name: mine\nshoe_size: 44\n",
    "build_up.json": '[{"build_up": 1}]',
    "timings.csv": "kernel,elements,median_s\ntopk,1,1\n",
}


NO_CONFIG = "expected results that a figure can be drawn from, got a YAML file without a GPU, a network or"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("kind.yaml", "expected a kind of fabric, got single_swich: did you mean 'single_switch'?"),
        ("unit.yaml", "unit.yaml:3:1: bandwidth: expected a bandwidth with its unit, such as 10 Gbit/s, got 10"),
        ("runtime.yaml", "runtime.yaml:2:1: negotiation: expected a time with its unit, such as 50 us, got 5"),
        ("list.yaml", f"list.yaml: {NO_CONFIG}"),
        ("other.yaml", f"other.yaml: {NO_CONFIG}"),
        ("build_up.json", "build_up.json: expected a build-up study or a trace, got nothing that can be shown"),
        ("timings.csv", "a calibration, times to quality or a build-up study, got a table of kernel timings"),
    ],
)
def test_files_without_a_page_are_an_input_error_in_one_line(tmp_path, monkeypatch, name, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(CONFIGS[name])
    said = refused("report", name, "-o", "out.html")
    assert words in said and said.count("\n") == 1
    assert not (tmp_path / "out.html").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nothing/there", "-o", "out.html"), "expected results"),
        (("quickstart", "-o", "out.pdf"), "that ends in .html, got .pdf: one figure: sparsim report --figure KIND"),
        (("density_sweep", "-o", "out.html"), "expected results"),
        (("gpus/v100", "-o", "out.html", "--set", "a=1"), "--set: expected a scenario to run"),
        (("quickstart", "ring_check", "-o", "out.html"), "expected --figure KIND with --where or several RESULTS"),
        (("density_sweep", "-o", "out.html", "--where", "a=1"), "expected --figure KIND with --where"),
    ],
)
def test_what_cannot_be_reported_is_an_input_error(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert words in refused("report", *arguments)
    assert not list(tmp_path.glob("out.*"))


@pytest.fixture
def without_plotly(monkeypatch):
    """An installation without the extra `report`."""
    real = builtins.__import__

    def missing(name, *rest, **more):
        if name.partition(".")[0] == "plotly":
            raise ModuleNotFoundError("No module named 'plotly'", name="plotly")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)


def test_without_the_extra_it_says_what_to_install(without_plotly, sources, tmp_path):
    with pytest.raises(InputError, match=re.escape("pip install 'sparsim[report]'")):
        write_page(page_of(sources["gpu"]), tmp_path / "page.html")


def test_a_page_without_drawings_needs_no_extra(without_plotly, tmp_path):
    with open_results("runtimes/horovod-0.19") as source:
        write_page(page_of(source), tmp_path / "page.html")
    page = Parsed((tmp_path / "page.html").read_text())
    assert page.wrong == []
    assert [held.get("id") for held, _ in page.all("script")] == ["data", None]  # no library, and no note about it
    assert not page.all("noscript")


def test_the_assets_are_in_the_package():
    folder = ROOT / "simulator" / "reporting" / "page" / "assets"
    assert {"page.html.j2", "page.css", "start.js"} <= {path.name for path in folder.iterdir()}
    for path in folder.glob("*.js"):
        assert "</script" not in path.read_text().lower() and "innerHTML" not in path.read_text()


def test_cells_that_are_not_decided_are_hatched_and_said():
    source = swept("workers", "bandwidth")
    open_ = source.table.assign(verdict=source.table["sparsifier"].map(lambda name: None if name == "dense" else "no"))
    member = figure_of("break_even_map")
    decided = draw_in_page(member.compose(member.data(replace(source, table=open_))))
    assert "not decided" not in [trace["name"] for trace in decided["data"]]
    open_["verdict"] = open_["verdict"].where(open_["workers"] < 8, "undecided")
    data = member.data(replace(source, table=open_))
    *_, strokes = draw_in_page(member.compose(data))["data"]
    assert (strokes["name"], strokes["marker"]["color"]) == ("not decided", "transparent")
    assert len(strokes["x"]) == (data["verdict"] == "undecided").sum() > 0


def test_the_page_of_a_run_shows_its_interval_and_its_verdict():
    with open_results("quickstart") as source:
        page = page_of(source)
        comparison = source.document.comparison
        low, high = source.document.interval
    assert f"90 % interval {show_time(low)} to {show_time(high)}" in glance(page)["iteration time"]
    assert f"it pays with probability {show_probability(comparison.probability)}" in page.answer
    assert [column.key for column in page.tables[1].columns][:4] == ["input", "level", "width", "share"]
    assert len(page.tables[1].rows) == len(comparison.value_of_information)
    (bars,) = [chart.markup for chart in page.charts if chart.kind == "iteration_breakdown"]
    for ends in ((low, high), comparison.opponent_interval):
        assert f"90 % interval: {' to '.join(map(show_time, ends))}" in bars
