"""Every kind of page in Chromium, wide and narrow, light and dark: nothing overlaps, is cut or is hard to read."""

from pathlib import Path

import pytest
from chromium import NEEDS_CHROMIUM
from figure_results import replayed, run_folder, swept, to_quality, validation

from simulator.cli.reports import open_results
from simulator.reporting.figures.data.sources import open_source
from simulator.reporting.page.making import page_of, write_page
from simulator.reporting.page.pages.run_page import comparison_page
from simulator.studies.compare.run_differences import compare_outcomes

CHECK = (Path(__file__).parent / "page_layout.js").read_text()
WIDE, NARROW = 1400, 390

pytestmark = NEEDS_CHROMIUM


def opened(place, *overrides):
    with open_results(place, overrides) as source:
        return page_of(source)


PAGES = {
    "run": lambda: opened("quickstart"),
    "servers": lambda: page_of(open_source(str(run_folder("topology=parameter_server")))),
    "map": lambda: page_of(swept("workers", "bandwidth")),
    "density": lambda: page_of(swept("density")),
    "scaling": lambda: page_of(swept("workers")),
    "validation": lambda: page_of(validation()),
    "build_up": lambda: page_of(replayed()),
    "gpu": lambda: opened("gpus/v100-pytorch2"),
    "network": lambda: opened("networks/10gbe-tcp"),
    "runtime": lambda: opened("runtimes/horovod-0.19"),
    "runs compared": lambda: comparison_page(compare_outcomes("quickstart", "quickstart", (), ("sparsifier=dense",))),
    "quality": lambda: page_of(to_quality()),
}


def settle(page):
    """Wait until everything is drawn again after a change of width or colours."""
    page.wait_for_timeout(250)
    page.evaluate("() => sparsim.busy")


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_reads_well_wide_and_narrow_light_and_dark(kind, browser, tmp_path):
    path = tmp_path / "page.html"
    write_page(PAGES[kind](), path)
    page = browser.new_page(viewport={"width": WIDE, "height": 900})
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-drawn]", timeout=60_000)
    wrong = {}
    for width in (WIDE, NARROW):
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            settle(page)
            found = page.evaluate(CHECK)
            if found:
                wrong[f"{width} px, {scheme}"] = found
    page.close()
    assert wrong == {}
    assert said == []


FAULTS = {
    "overlap in": "document.querySelectorAll('.axis text').forEach(text => text.setAttribute('x', '50%'))",
    "without ticks": "[...document.querySelectorAll('.axis text')].slice(1).forEach(text => text.remove())",
    "contrast": "document.documentElement.style.setProperty('--muted', '#b0b0b0')",
    "small": "document.querySelector('.subtitle').style.fontSize = '9px'",
    "scrolls sideways": "document.querySelector('h1').style.width = '3000px'",
    "outside its box": "document.querySelector('.axis text').setAttribute('x', '104%')",
}


@pytest.fixture(scope="module")
def run_page(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "run.html"
    write_page(PAGES["servers"](), path)
    return path


@pytest.mark.parametrize("fault", FAULTS)
def test_the_check_finds_what_is_wrong(fault, browser, run_page):
    page = browser.new_page(viewport={"width": WIDE, "height": 900}, color_scheme="light")
    page.goto(run_page.as_uri())
    page.wait_for_selector("body[data-drawn]")
    assert page.evaluate(CHECK) == []
    page.evaluate(f"() => {{ {FAULTS[fault]} }}")
    found = page.evaluate(CHECK)
    page.close()
    assert [text for text in found if fault in text], found


def test_drawings_take_the_colours_of_the_mode(browser, tmp_path):
    path = tmp_path / "page.html"
    write_page(PAGES["density"](), path)
    page = browser.new_page(viewport={"width": WIDE, "height": 900}, color_scheme="light")
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-drawn]")
    paper = "() => getComputedStyle(document.querySelector('.plot .main-svg')).backgroundColor"
    body = "() => getComputedStyle(document.body).backgroundColor"
    seen = []
    for scheme in ("light", "dark", "light"):
        page.emulate_media(color_scheme=scheme)
        settle(page)
        assert page.evaluate(paper) == page.evaluate(body)
        seen.append(page.evaluate(paper))
    page.close()
    assert seen[0] == seen[2] != seen[1]
