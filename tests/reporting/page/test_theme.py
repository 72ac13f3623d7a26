"""Colours of pages: those of the figures in light, and readable in both modes."""

import itertools

import pytest

from simulator.models.timeline import BREAKDOWN, TERMS
from simulator.reporting.figures.style.panels import BLACK, GREY, OLIVE, PALETTE, PHASES, tint
from simulator.reporting.page.theme import ASSETS, css_colour, ink_on, read_theme

COLOURS = (BLACK, *PALETTE, OLIVE, GREY)
MODES = dict(zip(("light", "dark"), read_theme(), strict=True))


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def name_of(colour):
    return css_colour(colour).removeprefix("var(--").removesuffix(")")


def test_series_are_the_colours_of_the_figures_in_light():
    for colour in COLOURS:
        assert MODES["light"][name_of(colour)].upper() == colour.upper()


def test_both_modes_have_every_colour():
    light, dark = (ASSETS / "theme.css").read_text().split("prefers-color-scheme: dark")
    for name, value in MODES["light"].items():
        assert f"--{name}: " in light
        assert f"--{name}: " in dark, f"{name} has no colour in dark"
        assert value.startswith("#")


def test_terms_have_the_colours_of_the_figures():
    text = (ASSETS / "theme.css").read_text()
    drawn = (ASSETS / "drawings.css").read_text()
    for term in BREAKDOWN:
        assert f"--term-{term}: {css_colour(PHASES[term])};" in text
    for term in TERMS:
        assert f".term-{term} {{ fill: var(--term-{term}); }}" in drawn


@pytest.mark.parametrize("mode", MODES)
def test_texts_can_be_read_on_what_they_stand_on(mode):
    colours = MODES[mode]
    for text in ("text", "muted", "accent"):
        for ground in ("background", "surface"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert contrast(colours["text"], colours["warning-surface"]) >= 4.5


@pytest.mark.parametrize("mode", MODES)
def test_series_can_be_told_from_the_background_and_from_each_other(mode):
    colours = MODES[mode]
    series = [colours[name_of(colour)] for colour in COLOURS]
    # Orange, sky blue and grey of the palette are pale on white; in dark all are bright.
    assert all(contrast(colour, colours["background"]) >= (1.9 if mode == "light" else 4.5) for colour in series)
    for one, other in itertools.combinations(series, 2):
        apart = [abs(int(one[place : place + 2], 16) - int(other[place : place + 2], 16)) for place in (1, 3, 5)]
        assert max(apart) >= 40, (one, other)


@pytest.mark.parametrize("place", range(len(MODES)))
@pytest.mark.parametrize("colour", COLOURS)
def test_numbers_in_cells_can_be_read_at_every_strength(colour, place):
    mode = list(MODES.values())[place]
    for strength in (0.0, 0.2, 0.4, 0.5, 0.6, 0.8, 1.0):
        ink = ink_on(colour, strength).removeprefix("light-dark(").removesuffix(")").split(", ")[place]
        cell, _ = tint(mode[name_of(colour)], strength, mode["background"])
        assert contrast(ink, "#" + "".join(f"{round(255 * part):02x}" for part in cell)) >= 4.5
