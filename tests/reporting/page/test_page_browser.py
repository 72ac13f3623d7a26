"""The report in a real headless Chromium: it draws, says nothing on the console, asks the network for nothing, and
answers to the pointer, the selects and the headings."""

import json
from pathlib import Path

import pytest
from chromium import NEEDS_CHROMIUM
from figure_results import ROOT, SCENARIO, replayed, run_folder, swept, validation
from watched import is_within

from simulator.cli.reports import open_results
from simulator.models.timeline import split_idle
from simulator.reporting.figures.data.sources import of_table, open_source
from simulator.reporting.page.making import page_of, write_page
from simulator.reporting.wording.values import format_value
from simulator.studies.sweep.sweep import run_sweep

EVIL = "</script><img src=x onerror=alert(1)>\"' <b>$x$</b> <!--"
LIMIT_S, LIMIT_BYTES = 2.0, 10_000_000

pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture
def show(browser, folder):
    """Open the page of a source; at the end nothing may have been said, asked for, or left empty."""
    opened_pages, said, asked = [], [], []

    def get(source, name):
        path = folder / f"{name}.html"
        if not path.exists():
            write_page(page_of(source), path)
        page = browser.new_page(viewport={"width": 1100, "height": 900})
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(f"dialog {dialog.message}"))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("body[data-drawn]", timeout=60_000)
        opened_pages.append((page, path))
        return page

    get.said = said
    yield get
    for page, path in opened_pages:
        for plot in page.query_selector_all(".plot"):
            assert plot.query_selector(".main-svg"), f"{path.name}: an empty panel"
            assert plot.query_selector("path"), f"{path.name}: nothing drawn"
        page.close()
    assert said == []
    assert [url for url in asked if not url.startswith(("file://", "data:", "blob:"))] == []
    assert len([url for url in asked if url.startswith("file://")]) == len(opened_pages)


def hover(page, chart, target, at=(0.5, 0.5)):
    """Put the pointer on a mark, or a place of it; the text shown there."""
    place = page.locator(f"{chart} {target}").first
    place.scroll_into_view_if_needed()
    box = place.bounding_box()
    x, y = box["x"] + at[0] * box["width"], box["y"] + at[1] * box["height"]
    page.mouse.move(x - 3, y)
    page.mouse.move(x, y)
    page.wait_for_selector(f"{chart} .hoverlayer .hovertext", timeout=20_000)
    return " ".join(page.locator(f"{chart} .hoverlayer .hovertext").all_text_contents())


def column(page, table, place):
    return page.locator(f"{table} tbody tr:not([hidden]) td:nth-child({place})").all_text_contents()


def test_a_run_shows_its_terms_to_scale_and_needs_no_plotting_library(show):
    source = open_source(str(run_folder("topology=parameter_server")))
    page = show(source, "run")
    assert page.evaluate("typeof Plotly") == "undefined"
    boxes = page.locator("#chart-iteration_breakdown .terms rect").evaluate_all(
        "all => all.map(item => [item.getAttribute('class'), item.getBoundingClientRect().width])"
    )
    result = source.document
    terms = split_idle(result.breakdown, result.idle)
    whole = sum(width for _, width in boxes)
    for name, width in boxes:
        assert width == pytest.approx((terms[name.removeprefix("term-")] / result.iteration_time) * whole, abs=0.5)
    assert page.locator("#chart-traffic_matrix .cells rect").count() > 0
    assert page.locator("#warnings li").count() == len(result.warnings)


def test_tables_sort_by_number_and_filter(show):
    page = show(validation(), "validation")
    rows = validation().document.rows
    tables = page.locator("table.sortable")
    last = f"table.sortable >> nth={tables.count() - 1}"
    heading = page.locator(last).locator("th[data-key=measured]")
    place = [cell_.get_attribute("data-key") for cell_ in page.locator(last).locator("th").all()].index("measured")
    values = lambda: [  # noqa: E731
        float(item.get_attribute("data-sort"))
        for item in page.locator(last).locator(f"tbody tr:not([hidden]) td:nth-child({place + 1})").all()
    ]
    heading.click()
    assert values() == sorted(row["measured"] for row in rows)
    heading.press("Enter")
    assert values() == sorted((row["measured"] for row in rows), reverse=True)
    assert heading.get_attribute("aria-sort") == "descending"
    page.locator("section.table .choices select").last.select_option(label="selection")
    assert sorted(values()) == sorted(row["measured"] for row in rows if row["quantity"] == "selection")


def test_a_quantity_is_chosen_and_drawn_anew(show):
    page = show(validation(), "validation")
    assert "measured" in hover(page, "#chart-measured_predicted", ".scatterlayer .points path.point")
    title = "document.querySelector('[data-chart]').data.map(trace => trace.x).flat().length"
    before = page.evaluate(title)
    page.locator("#chart-measured_predicted select").select_option(label="selection")
    page.wait_for_function(f"before => {title} !== before", arg=before)


def test_a_sweep_is_filtered_sorted_and_plotted(show):
    source = swept("workers", "bandwidth")
    page, table = show(source, "sweep"), source.table
    page.locator("[data-filter='cluster.nodes:from']").select_option(label="4")
    left = table[table["cluster.nodes"] >= 4]
    assert page.locator("#matching").text_content() == f"{len(left)} of {len(table)} points"
    page.locator("[data-filter=sparsifier]").select_option(label="gtopk 1 %")
    left = left[left["sparsifier"].str.contains("gtopk")]
    assert page.locator("#matching").text_content() == f"{len(left)} of {len(table)} points"
    heading = page.locator("#rows th[data-key=iteration_time_s]")
    place = [item.get_attribute("data-key") for item in page.locator("#rows th").all()].index("iteration_time_s")
    heading.click()
    shown = [format_value("time", float(f"{value:.6g}")) for value in sorted(left["iteration_time_s"])]
    assert column(page, "#rows", place + 1) == shown[:25]
    assert page.evaluate("document.getElementById('scatter').data.length") == 1
    said = hover(page, "#scatter", ".scatterlayer .points path.point")
    assert "gtopk" in said and "iteration time" in said
    page.locator("[data-plotted=y]").select_option(label="scaling efficiency")
    page.wait_for_function("document.getElementById('scatter').layout.yaxis.title.text === 'scaling efficiency'")
    assert "workers" in hover(page, "#chart-break_even_map", ".barlayer .point path")


def test_figures_of_a_sweep_follow_their_choices(show):
    source = swept("density", "workers", "bandwidth")
    page = show(source, "wide")
    page.locator("#chart-density_sweep select").first.select_option(label="8")
    page.locator("#chart-density_sweep select").last.select_option(label="1 Gbit/s")
    table = source.table
    rows = table[(table["cluster.nodes"] == 8) & (table["cluster.network.bandwidth_bytes_per_s"] == 1.25e8)]
    wanted = sorted({float(f"{value:.6g}") for value in rows[rows["sparsifier"] == "topk"]["iteration_time_s"]})
    page.wait_for_function(
        "wanted => document.querySelector('#chart-density_sweep .plot').data.some(trace => trace.name === 'topk' "
        "&& JSON.stringify([...trace.y].sort((a, b) => a - b)) === wanted)",
        arg=json.dumps(wanted, separators=(",", ":")),
    )


def test_the_other_pages_draw(show):
    show(replayed(), "build_up")
    for place in ("gpus/v100-pytorch2", "networks/10gbe-tcp"):
        with open_results(place) as source:
            show(source, place.replace("/", "-"))


def test_a_name_that_is_a_script_does_not_run(show, tmp_path):
    path = tmp_path / "evil.yaml"
    path.write_text(SCENARIO.replace("name: small", f"name: {json.dumps(EVIL)}"))
    with open_results(str(path)) as source:
        page = show(source, "evil")
    assert page.locator("h1").text_content() == EVIL and page.locator("body img").count() == 0
    # And if a script did get in, the page's own policy would stop it.
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<div id=probe></div>')")
    ran = page.evaluate(
        "() => { const made = document.createElement('script'); made.textContent = 'window.ran = 1';"
        " document.body.append(made); return window.ran === 1; }"
    )
    assert not ran
    (stopped,) = show.said
    assert "Content Security Policy" in stopped
    show.said.clear()


def test_methods_and_keys_that_are_scripts_do_not_run_in_a_sweep(show):
    table = swept("workers", "bandwidth").table.copy()
    table["sparsifier"] = table["sparsifier"].map(lambda kind: EVIL + str(kind))
    table.insert(0, EVIL, [EVIL + str(number % 2) for number in range(len(table))])
    page = show(of_table(table, EVIL), "evil-sweep")
    assert page.locator("body img").count() == 0
    assert page.locator("#rows td").first.text_content().startswith(EVIL)
    assert "onerror=alert(1)" in hover(page, "#scatter", ".scatterlayer .points path.point")


def test_values_are_shown_in_the_browser_as_they_are_in_the_tables(show):
    page = show(open_source(str(run_folder("topology=parameter_server"))), "run")
    values = [0.0, 1.0, 0.4512, 4.2e-4, 12345.678, 1.25e9, 6353016.0, 0.00031623, 99.995, 0.125]
    for kind in ("time", "bytes", "bandwidth", "share", "percent", "number", "count", "error"):
        for value in values:
            if "e" in format_value(kind, value):
                continue  # exponents are written differently; no share is that large
            shown = page.evaluate("([kind, value]) => sparsim.cell(kind, value)", [kind, value])
            assert shown == format_value(kind, value), (kind, value)


def test_a_sweep_of_5720_points_opens_within_two_seconds(show, folder):
    out = folder / "big"
    run_sweep(ROOT / "scenarios" / "sweeps" / "big.yaml", out)
    source = open_source(str(out))
    page = show(source, "big")
    assert Path(folder / "big.html").stat().st_size < LIMIT_BYTES
    assert page.locator("#matching").text_content() == "5,720 of 5,720 points"

    def drawn():
        """The longest of what the page takes to be loaded, to show its tables, and to draw its first panel."""
        return show(source, "big").evaluate(
            "() => Math.max(performance.timing.loadEventEnd - performance.timing.navigationStart,"
            " ...['tables', 'first'].map(name => performance.getEntriesByName('sparsim-' + name)[0].startTime))"
        )

    assert is_within(1000 * LIMIT_S, drawn)
