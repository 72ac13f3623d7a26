"""Every figure is drawn from real results: nothing overlaps, nothing is cut, nothing is empty, files repeat."""

import itertools
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from figure_results import SOURCES, replayed, scenario, swept, timed, validation
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from simulator.answers import to_document
from simulator.component import discover
from simulator.errors import InputError
from simulator.prediction.run import run
from simulator.reporting.figures.base import figure_of, figures
from simulator.reporting.figures.data.sources import BANDWIDTH, of_document, of_table, open_source
from simulator.reporting.figures.making import draw_figure
from simulator.reporting.figures.style.panels import BLACK, METHODS, PALETTE, PHASES, assign_looks, tint
from simulator.reporting.figures.style.paper import save_figure
from simulator.sparsifiers.base import Sparsifier

PICTURED = ("break_even_map", "iteration_breakdown")
"""An image, and bars: the others are made of the same, and are drawn by the long tests."""
KINDS = [kind if kind in PICTURED else pytest.param(kind, marks=pytest.mark.long) for kind in sorted(figures())]
FORMATS = (("png", b"\x89PNG"), ("pdf", b"%PDF"))
ONE = 1.0


@pytest.fixture(scope="module")
def made():
    """Each figure, its data, its canvas and the texts on it, drawn once."""
    known = {}

    def get(kind):
        if kind not in known:
            member = figure_of(kind)
            data = member.data(SOURCES[kind]())
            canvas = draw_figure(member, data)
            known[kind] = member, data, canvas, drawn_texts(canvas)
        return known[kind]

    return get


def drawn_texts(canvas):
    """Every text that is really put on the canvas (ticks beyond an axis's limits are not), with its box in pixels."""
    found = []
    draw = Text.draw

    def noted(text, renderer, *arguments, **options):
        found.append(text)
        return draw(text, renderer, *arguments, **options)

    FigureCanvasAgg(canvas).draw()  # the layout settles
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", noted)
        FigureCanvasAgg(canvas).draw()
    return [(text, text.get_window_extent()) for text in found if text.get_visible() and text.get_text().strip()]


def test_ticks_of_a_bar_with_a_long_interval_do_not_touch():
    """The interval and its label make the axis long, and names on the left make it narrow."""
    data = figure_of("iteration_breakdown").data(SOURCES["iteration_breakdown"]()).assign(p5_s=0.001, p95_s=0.9)
    canvas = draw_figure(figure_of("iteration_breakdown"), data.assign(run=data["run"] + ", on a cluster of its own"))
    ticks = [box for text, box in drawn_texts(canvas) if re.fullmatch(r"[\d.]+ m?s", text.get_text())]
    lefts = sorted((box.x0, box.x1) for box in ticks if box.y0 == min(tick.y0 for tick in ticks))
    assert len(lefts) > 2 and all(end < start for (_, end), (start, _) in itertools.pairwise(lefts))


def test_every_kind_of_figure_is_drawn_here():
    assert set(SOURCES) == set(figures())


@pytest.mark.parametrize("kind", KINDS)
def test_a_figure_says_what_it_answers_and_what_its_columns_are(kind, made):
    member, data, *_ = made(kind)
    assert member.title and member.question.endswith("?") and member.takes
    assert list(data.columns) == list(member.columns) and len(data) > 1
    seconds = [name for name in data if name.endswith("_s") and not name.endswith("_per_s")]
    assert all("second" in member.columns[name] for name in seconds)
    assert all((data[name].dropna() >= 0).all() for name in seconds)


@pytest.mark.parametrize("kind", KINDS)
def test_all_text_is_inside_the_canvas(kind, made):
    canvas = made(kind)[2]
    width, height = canvas.bbox.width, canvas.bbox.height
    for text, box in made(kind)[3]:
        inside = box.x0 >= -ONE and box.y0 >= -ONE and box.x1 <= width + ONE and box.y1 <= height + ONE
        assert inside, (text.get_text(), box, width, height)


@pytest.mark.parametrize("kind", KINDS)
def test_no_two_texts_overlap(kind, made):
    for (one, a), (other, b) in itertools.combinations(made(kind)[3], 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        along = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across <= ONE or along <= ONE, (one.get_text(), other.get_text(), across, along)


@pytest.mark.parametrize("kind", KINDS)
def test_text_is_readable_at_half_size(kind, made):
    """At 100 dpi and half size, capitals of 10 points are 5 pixels high, about the least that is read."""
    assert min(text.get_fontsize() for text, _ in made(kind)[3]) >= 10


@pytest.mark.parametrize("kind", KINDS)
def test_no_panel_is_empty_and_every_axis_has_a_label_or_shares_one(kind, made):
    axes = made(kind)[2].axes
    assert axes
    for one in axes:
        assert one.lines or one.collections or one.images or one.patches
        assert one.get_xlabel() or one.get_ylabel()
    assert any(one.get_ylabel() or one.get_yticklabels() for one in axes)


def shown(kind, source, **settings):
    """The axes of a figure of a source, its layout settled."""
    member = figure_of(kind, settings)
    canvas = draw_figure(member, member.data(source))
    FigureCanvasAgg(canvas).draw()
    return canvas.axes


def ticks(axis):
    """Labels of the ticks inside the limits."""
    low, high = sorted(axis.get_view_interval())
    places = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
    return [label.get_text() for place, label in places if low <= place <= high]


@pytest.mark.long
def test_curves_without_timings_have_one_panel():
    (axes,) = shown("cost_curves", open_source("gpus/v100"))
    assert axes.get_title("left") == "" and len(axes.lines) == len(open_source("gpus/v100").document.kernels)
    assert [one.get_title("left") for one in shown("cost_curves", timed())] == ["marks: measured", ""]


def test_an_iteration_of_no_time_has_an_axis_and_no_bars():
    document = run(scenario("sparsifier=dense", "cluster.nodes=1", "cluster.gpu=gpus/ideal")).document
    document["breakdown_s"] = dict.fromkeys(document["breakdown_s"], 0.0)
    (axes,) = shown("iteration_breakdown", of_document(document, "run"))
    assert not axes.patches and not axes.figure.legends and [text.get_text() for text in axes.texts] == ["0 s"]
    assert axes.get_xlim()[1] > 0


@pytest.mark.long
def test_one_number_of_workers_is_one_tick_of_a_linear_axis():
    axes = shown("build_up", of_document([row for row in replayed().document if row["workers"] == 4], "four"))[0]
    assert axes.get_xscale() == "linear" and ticks(axes.xaxis) == ["4"]
    assert shown("build_up", replayed())[0].get_xscale() == "log"


def narrow(table, factor):
    """A density sweep's rows with times and traffic as they are at the first density, and up to `factor` times them."""
    table = table[table["sparsifier"] == "topk"]
    grown = np.linspace(1, factor, len(table))
    made = table.assign(iteration_time_s=0.021 * grown, **{"traffic.sent_bytes_per_worker": 2.1e6 * grown})
    made["iteration_time_interval_s.p5"] = made["iteration_time_interval_s.p95"] = made["iteration_time_s"]
    return of_table(made, "narrow")


@pytest.mark.long
def test_an_axis_between_two_round_numbers_still_has_ticks():
    left, right = shown("density_sweep", narrow(swept("density").table, 1.3))
    assert len(ticks(right.yaxis)) >= 2 and all(label.endswith(" MB") for label in ticks(right.yaxis))
    assert left.get_yscale() == "linear" and left.get_ylim()[0] == 0


@pytest.mark.long
def test_times_far_apart_get_a_logarithmic_axis():
    left, _ = shown("density_sweep", narrow(swept("density").table, 100))
    assert left.get_yscale() == "log" and len(ticks(left.yaxis)) >= 2


@pytest.mark.long
def test_rows_that_were_all_fitted_are_no_predictions():
    document = to_document(validation().document)
    rows = [row | {"used_in_fit": True} for row in document["rows"]]
    _, right = shown("measured_predicted", of_document(document | {"rows": rows}, "fitted"))
    assert right.get_title("left") == ""
    count = sum(row["quantity"] == "iteration_time" for row in document["rows"])
    title = shown("measured_predicted", validation())[1].get_title("left")
    assert title.startswith(f"{count} predictions: mean absolute")


@pytest.mark.long
def test_a_map_of_many_cells_has_colours_alone():
    source = swept("workers", "bandwidth")
    (few,) = shown("break_even_map", source)
    assert len(few.texts) == 16
    parts = [source.table.assign(**{BANDWIDTH: source.table[BANDWIDTH] * factor}) for factor in (1, 2, 3, 4, 5)]
    many = pd.concat([part.assign(digest=part["digest"] + str(n)) for n, part in enumerate(parts)])
    (axes,) = shown("break_even_map", of_table(many, "many"))
    assert len(axes.texts) == 0 and len([patch for patch in axes.patches if patch.get_width()]) == 4 * 20


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "suffix", "head"),
    [*((kind, "svg", b"<?xml") for kind in sorted(figures())), *(("traffic_matrix", *each) for each in FORMATS)],
)
def test_a_picture_has_the_same_bytes_every_time_and_no_date(kind, suffix, head, made, tmp_path):
    pictures = []
    for name in ("one", "two"):
        save_figure(draw_figure(*made(kind)[:2]), tmp_path / f"{name}.{suffix}")
        pictures.append((tmp_path / f"{name}.{suffix}").read_bytes())
    assert pictures[0] == pictures[1] and pictures[0].startswith(head)
    assert not re.search(rb"20\d\d-\d\d-\d\d|<dc:date>|Matplotlib v|CreationDate", pictures[0][:20_000])


VISION = {
    "full": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
}
"""What is left of linear RGB: Machado, Oliveira and Fernandes, IEEE TVCG 15(6), 2009, severity 1."""


def linear_of(coded):
    return np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)


def lab(colour, vision):
    """CIE L*a*b* (1976, D65) of a hex colour as it is seen."""
    coded = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    seen = np.clip(np.asarray(VISION[vision]) @ linear_of(coded), 0, 1)
    matrix = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x, y, z = np.cbrt(np.maximum((matrix @ seen) / (0.9505, 1.0, 1.089), 1e-9))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISION)
def test_colours_are_told_apart_with_any_vision(vision):
    """A difference of 2.3 is just noticeable (Mahy et al. 1994); lines and bars need several times that."""
    for colours in ((BLACK, *PALETTE), tuple(PHASES.values())):
        for one, other in itertools.combinations(colours, 2):
            assert np.linalg.norm(lab(one, vision) - lab(other, vision)) > 12, (one, other)


def test_red_and_green_of_equal_lightness_would_fail_that_test():
    assert np.linalg.norm(lab("#C00000", "deuteranopia") - lab("#707000", "deuteranopia")) < 12


def test_every_method_keeps_its_own_look():
    kinds = discover(Sparsifier)
    assert set(METHODS) <= set(kinds)
    everyone = assign_looks(kinds)
    assert len(set(everyone.values())) == len(kinds) and everyone["dense"].colour == BLACK
    for pair in itertools.combinations(("dense", *METHODS), 2):
        assert assign_looks(pair) == {name: everyone[name] for name in pair}


def test_methods_of_one_kind_and_unknown_ones_are_told_apart():
    made = assign_looks(["topk 1 %", "topk 10 %", "topk 50 %", "mine", "yours"])
    assert len(set(made.values())) == 5 and made["topk 1 %"] == assign_looks(["topk"])["topk"]


def test_text_on_a_tinted_cell_has_contrast():
    """At least 4.5 : 1 (W3C, WCAG 2.1, level AA)."""
    for colour in (BLACK, *PALETTE):
        for strength in np.linspace(0, 1, 21):
            cell, ink = tint(colour, float(strength))
            luminance = float(linear_of(np.array(cell)) @ (0.2126, 0.7152, 0.0722))
            assert ((luminance + 0.05) / 0.05 if ink == BLACK else 1.05 / (luminance + 0.05)) >= 4.5


def test_a_figure_that_cannot_be_finished_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    path.write_bytes(b"old")

    def half(_, place, **__):
        Path(place).write_bytes(b"ha")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", half)
    with pytest.raises(InputError, match="No space left on device"):
        save_figure(Figure(), path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.png"]
