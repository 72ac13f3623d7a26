"""The pages of the documentation in headless Chromium: on a wide screen and on a phone, light and dark."""

import pytest
from chromium import NEEDS_CHROMIUM

WIDTHS = (1400, 390)
DARKEST, LIGHTEST = 60, 200
"""Mean of red, green and blue: a background that is dark is below, one that is light above."""

pytestmark = NEEDS_CHROMIUM


@pytest.fixture(params=["light", "dark"])
def opened(request, browser):
    """Opens pages with a colour scheme; at the end nothing may have been said, or asked of the network."""
    context = browser.new_context(color_scheme=request.param)
    page, said, asked = context.new_page(), [], []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda sent: asked.append(sent.url))
    yield page, request.param
    context.close()
    assert said == []
    assert [url for url in asked if not url.startswith(("file://", "data:"))] == []


def brightness(page, selector):
    """Mean of red, green and blue of the background of an element."""
    colour = page.eval_on_selector(selector, "element => getComputedStyle(element).backgroundColor")
    parts = [float(part) for part in colour.partition("(")[2].strip(")").split(",")[:3]]
    return sum(parts) / 3


def test_no_page_is_wider_than_the_screen(browser, documentation):
    page = browser.new_page()
    paths = sorted(
        path for path in documentation.rglob("*.html") if path.name not in ("genindex.html", "py-modindex.html")
    )
    assert len(paths) > 30
    for path in paths:
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(path.as_uri())
            reached = page.evaluate("document.documentElement.scrollWidth")
            assert reached <= width, f"{path.relative_to(documentation)} reaches to {reached} of {width}"
    page.close()


def test_the_first_page_shows_how_to_install_an_answer_and_a_picture(opened, documentation):
    page, scheme = opened
    page.set_viewport_size({"width": 1400, "height": 900})
    page.goto((documentation / "index.html").as_uri())
    text = page.inner_text("article")
    assert text.index("pip install") < text.index("sparsim run quickstart") < text.index("No: ")
    picture = page.query_selector("article img")
    assert picture.evaluate("image => image.naturalWidth") > 800
    assert picture.evaluate("image => image.getBoundingClientRect().width") > 600
    cards = page.eval_on_selector_all(".sd-card a", "links => links.map(link => link.getAttribute('href'))")
    assert cards == ["tutorial/index.html", "how-to/index.html", "reference/index.html", "background/index.html"]
    if scheme == "light":
        assert brightness(page, "body") > LIGHTEST
    else:
        assert brightness(page, "body") < DARKEST
        assert brightness(page, "article img") > LIGHTEST, "a picture drawn on white stays on white"


def test_a_word_shows_what_it_means_and_leads_to_its_row(opened, documentation):
    page, _ = opened
    page.goto((documentation / "how-to" / "two-sites.html").as_uri())
    word = page.query_selector("article a.glossary-term")
    assert len(word.get_attribute("title")) > 10
    name = word.inner_text()
    word.click()
    page.wait_for_url("**/glossary.html#term-*")
    row = page.eval_on_selector(":target", "element => element.closest('td').innerText")
    assert row.lower().removesuffix("s") in name.lower() or name.lower() in row.lower()
