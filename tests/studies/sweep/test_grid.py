"""The grid of a sweep, and what is wrong with sweep files."""

import itertools
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_inputs import BASE
from small_sweeps import swept, written

from simulator.errors import InputError
from simulator.loading.documents import Document
from simulator.studies.sweep.grid import read_grid


def grid_of(**data):
    return read_grid(Document("sweep", {"base": "x", **data}, {}), Path())


VALUES = st.lists(st.integers(-5, 5) | st.sampled_from(["a", "b", "1 ms"]), min_size=1, max_size=4)


@given(
    vary=st.dictionaries(st.sampled_from(["a.x", "a.y", "b", "c"]), VALUES, min_size=1),
    zipped=st.lists(st.tuples(*[st.integers(0, 9)] * 2), max_size=4),
    skipped=st.lists(st.tuples(st.sampled_from(["a.x", "b", "p", "q"]), st.integers(-5, 9)), max_size=3),
)
def test_a_grid_is_the_product_in_order_without_what_is_skipped(vary, zipped, skipped):
    groups = [{"p": [i for i, _ in zipped], "q": [j for _, j in zipped]}] if zipped else []
    known = {*vary, *(groups[0] if groups else ())}
    skip = [{key: value} for key, value in skipped if key in known]
    dimensions = [[{key: value} for value in values] for key, values in vary.items()]
    dimensions += [[{"p": i, "q": j} for i, j in zipped]] if zipped else []
    product = [{k: v for part in parts for k, v in part.items()} for parts in itertools.product(*dimensions)]
    expected = [point for point in product if not any(point[k] == v for item in skip for k, v in item.items())]
    if not expected:
        with pytest.raises(InputError, match="at least one point that is not skipped"):
            grid_of(vary=vary, zip=groups, skip=skip)
        return
    grid = grid_of(vary=vary, zip=groups, skip=skip)
    choices = [grid.choice(number) for number in grid.numbers()]
    made = [{axis.key: axis.values[place] for axis, place in zip(grid.axes, choice, strict=True)} for choice in choices]
    assert made == expected


@given(
    first=st.floats(1e-6, 1e6),
    last=st.floats(1e-6, 1e6),
    points=st.integers(2, 40),
    scale=st.sampled_from(["linear", "log"]),
)
def test_a_range_holds_its_ends_and_even_steps(first, last, points, scale):
    (axis,) = grid_of(vary={"x": {"from": first, "to": last, "scale": scale, "points": points}}).axes
    assert (axis.values[0], axis.values[-1], len(axis.values)) == (first, last, points)
    values = [math.log(value) for value in axis.values] if scale == "log" else list(axis.values)
    step = (values[-1] - values[0]) / (points - 1)
    size = max(abs(value) for value in values)
    assert all(b - a == pytest.approx(step, rel=1e-6, abs=1e-9 * size) for a, b in itertools.pairwise(values))


def test_ranges_take_units_and_whole_numbers():
    (axis,) = grid_of(vary={"x": {"from": "1 Gbit/s", "to": "100 Gbit/s", "scale": "log", "points": 3}}).axes
    assert axis.values == ("125000000.0 B/s", "1250000000.0 B/s", "12500000000.0 B/s")
    (axis,) = grid_of(vary={"x": {"from": 1, "to": 1024, "scale": "log", "points": 11}}).axes
    assert axis.values == tuple(2**i for i in range(11)) and all(isinstance(value, int) for value in axis.values)
    (axis,) = grid_of(vary={"x": {"from": 1, "to": 2.5, "points": 3}}).axes
    assert axis.values == (1, 1.75, 2.5), "not whole where one end is not"
    (axis,) = grid_of(vary={"x": {"from": 0.5, "to": 2, "points": 4}}).axes
    assert [str(value) for value in axis.values] == ["0.5", "1.0", "1.5", "2.0"]
    (axis,) = grid_of(vary={"x": {"from": "1 %", "to": 1, "points": 2}}).axes
    assert axis.values == (0.01, 1)


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ({"speed": "1 Gbit/s"}, ["100 Mbit/s", "1000 Mbit/s", "10 Gbit/s"]),
        ({"speed": {"at_least": "1 Gbit/s", "below": "10 Gbit/s"}}, ["100 Mbit/s", "10 Gbit/s"]),
    ],
)
def test_skipping_compares_quantities(condition, left):
    expected = [speed for speed in left if condition != {"speed": "1 Gbit/s"} or speed != "1000 Mbit/s"]
    grid = grid_of(vary={"speed": ["100 Mbit/s", "1000 Mbit/s", "10 Gbit/s"]}, skip=[condition])
    assert [grid.axes[0].values[number] for number in grid.numbers()] == expected


def test_skipping_knows_kinds_and_parts_of_values():
    methods = ["dense", {"kind": "topk", "density": 0.1}, {"kind": "dgc", "density": 0.2}]
    for condition in ({"method": ["topk", "dgc"]}, {"method.kind": {"not": "dense"}}, {"method.density": {"above": 0}}):
        grid = grid_of(vary={"method": methods, "seed": [1, 2]}, skip=[{**condition, "seed": 2}])
        assert grid.numbers() == [0, 1, 2, 4]


ERRORS = {
    "bad values, each once and in the order of the file": (
        BASE + "vary:\n  sparsifier: [dense, topkk, {kind: topk, densty: 1}]\n  seed: [-1, 1, x]\n"
        "  cluster.network.bandwidth: [10, 1 Gbit/s]\n",
        """<tmp>:9:23: sparsifier: expected a kind of sparsifier, got topkk: did you mean 'topk'?
<tmp>:9:30: sparsifier.density: expected this key, got nothing
<tmp>:9:43: sparsifier.densty: expected a known key, got 'densty': did you mean 'density'?
<tmp>:10:10: seed: expected at least 0, got -1
<tmp>:10:17: seed: expected a whole number, got 'x'
<tmp>:11:31: cluster.network.bandwidth: expected a bandwidth with its unit, such as 10 Gbit/s, got 10""",
    ),
    "the base, too": (
        BASE.replace("topology: ring", "topology: rng") + "vary: {seed: [1, 2]}\n",
        "<tmp>:5:3: topology: expected a kind of topology, got rng: did you mean 'ring'?",
    ),
    "a key that no kind has": (
        BASE + "vary:\n  sparsifier: [dense, {kind: topk, density: 0.1}, signsgd]\n  sparsifier.densty: [0.1]\n",
        "<tmp>:10:3: sparsifier.densty: expected a known key, got 'densty': did you mean 'density'?",
    ),
    "a key that is not there": (
        BASE + "vary: {cluster.nods: [1]}\n",
        "<tmp>:8:23: cluster.nods: expected a known key, got 'nods': did you mean 'nodes'?",
    ),
    "an index": (
        BASE + "vary: {workload.layers.7.numel: [1]}\n",
        "<tmp>:8:34: workload.layers.7.numel: expected an index below 2, got 7",
    ),
    "the form": (
        "bse: x\nvary:\n  a: 4\n  b..c: [1]\n  d: []\n  e: {frm: 1, to: 2 s, scale: lg, points: 1}\n"
        "  f: {from: 1 s, to: 1 MB, points: 2}\n  g: {from: 0, to: 1, scale: log, points: 2}\nzip:\n  - 3\n",
        """<tmp>:1:1: base: expected this key, got nothing
<tmp>:3:3: vary.a: expected a list of values, or {from, to, scale, points}, got 4
<tmp>:4:3: vary.b..c: expected a dotted key such as cluster.nodes, got 'b..c'
<tmp>:5:3: vary.d: expected a list of values, or {from, to, scale, points}, got []
<tmp>:6:3: vary.e.from: expected this key, got nothing
<tmp>:6:24: vary.e.scale: expected one of 'linear' or 'log', got 'lg'
<tmp>:6:35: vary.e.points: expected at least 2, got 1
<tmp>:6:7: vary.e.frm: expected a known key, got 'frm': did you mean 'from'?
<tmp>:7:3: vary.f: expected both ends in units of one kind, got 1 s and 1 MB
<tmp>:8:3: vary.g: expected both ends above 0, for a log scale, got 0 and 1
<tmp>:10:5: zip.0: expected a mapping, got 3
<tmp>:1:1: bse: expected a known key, got 'bse': did you mean 'base'?""",
    ),
    "what does not go together": (
        "base: x\nvary: {a: [4]}\nzip:\n  - {h: [1, 2], i: [1]}\n  - {a: [1]}\n",
        """<tmp>:4:5: zip.0: expected lists of one length, got h 2, i 1
<tmp>:5:6: zip.1.a: expected each key once, got 'a' again""",
    ),
    "conditions": (
        BASE + "vary: {seed: [1]}\nskip:\n  - {seed: {above: x, abov: 2}}\n  - 3\n  - {}\n  - {seed: {belo: 2}}\n",
        """<tmp>:10:13: skip.0.seed.above: expected a number or a quantity with its unit, got 'x'
<tmp>:10:23: skip.0.seed.abov: expected a known key, got 'abov': did you mean 'above'?
<tmp>:11:5: skip.1: expected a mapping, got 3
<tmp>:12:5: skip.2: expected at least 1 entries, got {}
<tmp>:13:13: skip.3.seed.belo: expected a known key, got 'belo': did you mean 'below'?""",
    ),
    "skip": (
        BASE + "vary: {seed: [1]}\nskip:\n  - {sed: 1}\n  - {seed: 1, seeed: 1}\n",
        """<tmp>:10:6: skip.0.sed: expected a key that varies, or a part of it, got 'sed': did you mean 'seed'?
<tmp>:11:15: skip.1.seeed: expected a key that varies, or a part of it, got 'seeed': did you mean 'seed'?""",
    ),
    "ends too far apart to be told, and a zip and a skip that are no lists": (
        BASE + "vary:\n  seed: {from: 1e-31, to: 1, scale: log, points: 3}\n"
        "  iterations: {from: 1, to: 1e31, points: 3}\nzip: {warmup: [1]}\n",
        """<tmp>:9:3: vary.seed: expected ends from 1e-30 to 1e+30, got 1e-31 and 1
<tmp>:10:3: vary.iterations: expected ends from 1e-30 to 1e+30, got 1 and 1e+31
<tmp>:11:1: zip: expected a list, got {'warmup': [1]}""",
    ),
    "a skip that is no list": (
        BASE + "vary: {seed: [1]}\nskip: {seed: 1}\n",
        "<tmp>:9:1: skip: expected a list, got {'seed': 1}",
    ),
    "everything skipped": (
        BASE + "vary: {seed: [1, 2]}\nskip: [{seed: {at_most: 5}}]\n",
        "<tmp>:9:1: skip: expected at least one point that is not skipped, got none",
    ),
    "nothing to vary": (BASE, "<tmp>:1:1: vary: expected keys to `vary` or to `zip`, got none"),
    "no such base": (
        "base: quickstrt\nvary: {seed: [1]}\n",
        "<tmp>:1:1: base: no scenario named 'quickstrt' next to this file, in the current folder, in ./scenarios or in "
        "the package: did you mean 'quickstart'?",
    ),
    "a base that is no name": (
        "base: 3\nvary: {seed: [1]}\n", "<tmp>:1:1: base: expected a scenario or its name, got 3",
    ),
    "too many": (
        BASE + "vary:\n  seed: {from: 1, to: 1000, points: 1000}\n  iterations: {from: 1, to: 1000, points: 1000}\n",
        "<tmp>:8:1: vary: expected at most 250,000 points, got 1,000,000: sweep one part after the other",
    ),
    "a list": ("[]\n", "<tmp>:1:1: expected a mapping, got []"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_read_as_agreed(tmp_path, name):
    text, expected = ERRORS[name]
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        swept(path, tmp_path / "out")
    assert str(caught.value).replace(str(path), "<tmp>") == expected
    assert not (tmp_path / "out").exists()


def test_a_base_that_is_no_mapping_is_refused_with_its_file(tmp_path):
    (tmp_path / "list.yaml").write_text("[1]\n")
    with pytest.raises(InputError) as caught:
        swept(written(tmp_path, "base: list.yaml\nvary: {seed: [1]}\n"), tmp_path / "out")
    assert str(caught.value) == f"{tmp_path}/list.yaml:1:1: expected a scenario: a mapping, got [1]"
