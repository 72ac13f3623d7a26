"""Mistakes in scenarios: every one is an InputError, and its text is what `golden_errors.txt` says.

`python tests/scenario/test_errors.py` writes that file anew.
"""

import copy
import re
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from small_inputs import NETWORK, SCENARIO, WHOLE

from simulator.errors import InputError
from simulator.loading.documents import parse_document
from simulator.prediction.run import run
from simulator.scenario.reading import load, scenario_of

GOLDEN = Path(__file__).parent / "golden_errors.txt"
JOB = """other_jobs:
  - {nodes: NODES, workload: {batch_size: 1, layers: [{name: a, numel: 10}]}, topology: ring, sparsifier: dense,
     scheduler: wfbp}
"""
HEADER = "name,numel,forward_s,backward_s\n"
MISSING = re.compile(r": no (scenario|workload|GPU|network|runtime) named '.*' next to this file, .*: (did|valid)")
"""What stands in the place of expected and got where there is no file of a name."""
LAYERS = "layers: [{name: a, numel: 1000, backward: 1 ms}, {name: b, numel: 10}]"

# name: (replacements in SCENARIO, files beside it, --set)
CASES = {
    "several at once": (
        {"nodes: 4": "nodes: 0", "ring": "rng", "0.01": "1.5", "wfbp": "{kind: wfbp, partitions: 4 MB}", "small": "[]"},
        {}, (),
    ),
    "unknown key": ({"density": "densty"}, {}, ()),
    "unknown key at the top": ({"topology": "topologie"}, {}, ()),
    "unknown kind": ({"kind: topk": "kind: topkk"}, {}, ()),
    "missing unit": ({"10 Gbit/s": "10"}, {}, ()),
    "wrong unit": ({"50 us": "50 MB"}, {}, ()),
    "density above 1": ({"0.01": "150 %"}, {}, ()),
    "density not a number": ({"0.01": ".nan"}, {}, ()),
    "0 workers": ({"nodes: 4": "nodes: 0"}, {}, ()),
    "half a worker": ({"nodes: 4": "nodes: 4.5"}, {}, ()),
    "infinite workers": ({"nodes: 4": "nodes: .inf"}, {}, ()),
    "slow worker that is not there": ({"nodes: 4": "nodes: 4\n  stragglers: {slow: [{worker: 4, factor: 2}]}"}, {}, ()),
    "too many workers": ({"nodes: 4": "nodes: 131072\n  gpus_per_node: 2"}, {}, ()),
    "link that ends before it begins": (
        {"nodes: 4": "nodes: 4\n  links: [{link: node 1 NIC, factor: 0.5, start: 2 s, until: 1 s}]"}, {}, (),
    ),
    "background to oneself": (
        {"nodes: 4": "nodes: 4\n  background: [{source: 1, destination: 1, bandwidth: 1 GB/s}]"}, {}, (),
    ),
    "background of a node that is not there": (
        {"nodes: 4": "nodes: 4\n  background: [{source: 1, destination: 7, bandwidth: 1 GB/s}]"}, {}, (),
    ),
    "node with two other GPUs": (
        {"nodes: 4": "nodes: 4\n  other_gpus: [{nodes: [1], gpu: gpus/ideal, factor: 2},"
                     " {nodes: [0, 1], gpu: gpus/ideal, factor: 3}]"}, {}, (),
    ),
    "other job on nodes that are not there": (
        {"scheduler: wfbp": "scheduler: wfbp\n" + JOB.replace("NODES", "[3, 4, 9]")}, {}, (),
    ),
    "fold beside another job": (
        {"scheduler: wfbp": "scheduler: wfbp\nfidelity: fold\n" + JOB.replace("NODES", "[0, 1]")}, {}, (),
    ),
    "fold beside background": (
        {"scheduler: wfbp": "scheduler: wfbp\nfidelity: fold",
         "nodes: 4": "nodes: 4\n  background: [{source: 1, destination: 0, bandwidth: 1 GB/s}]"}, {}, (),
    ),
    "order of one worker twice": (
        {"scheduler: wfbp": "scheduler: wfbp\ncollective_order: [{worker: 1, buckets: [0, 1]},"
                            " {worker: 1, buckets: [1, 0]}]"}, {}, (),
    ),
    "trace that does not say its model": (
        {"workload: {": "workload: {trace: t}\n#"}, {"t/trace.yaml": "format: 1\nworkers: 1\n"}, (),
    ),
    "missing workload": ({"workload: {": "workload: workloads/resnet5-v100\n#"}, {}, ()),
    "missing trace": ({"workload: {": "workload: {trace: workloads/resnet5-v100}\n#"}, {}, ()),
    "missing GPU": ({"gpus/ideal": "gpus/idael"}, {}, ()),
    "missing layers file": (
        {"workload: {": "workload: work\n#"}, {"work.yaml": "batch_size: 1\nlayers: none.csv\n"}, (),
    ),
    "all_reduce for topk": ({"0.01": "0.01, exchange_by: all_reduce"}, {}, ()),
    "selection over the model without one bucket": ({"0.01": "0.01, granularity: model"}, {}, ()),
    "in a named file": ({NETWORK: "net"}, {"net.yaml": "kind: single_switch\nbandwidth: 10\nlatensy: 5 us\n"}, ()),
    "named file that is no YAML": ({NETWORK: "net"}, {"net.yaml": "kind: [single_switch\n"}, ()),
    "rows of layers.csv": ({LAYERS: "layers: l.csv"}, {"l.csv": f"{HEADER}a,10,x,0\nb,1,0,0\nc,1.5,0,0\n"}, ()),
    "columns of layers.csv": ({LAYERS: "layers: l.csv"}, {"l.csv": "name,numel\na,1\n"}, ()),
    "unknown curve": ({"gpus/ideal": "{name: x, kernels: {topk: {curve: afine}}}"}, {}, ()),
    "curve that falls back": (
        {"gpus/ideal": "{name: x, kernels: {topk: {curve: piecewise, points: [[2, 1 s], [1, 2 s]]}}}"}, {}, (),
    ),
    "key twice": ({"scheduler: wfbp": "seed: 1\nscheduler: wfbp\nseed: 2"}, {}, ()),
    "nothing but a list": ({SCENARIO: "- 1\n"}, {}, ()),
    "nothing": ({SCENARIO: ""}, {}, ()),
    "keys left out": ({"topology: ring\n": "", "sparsifier: {kind: topk, density: 0.01}\n": ""}, {}, ()),
    "set: no value": ({}, {}, ("sparsifier.density",)),
    "set: value out of bounds": ({}, {}, ("sparsifier.density=3",)),
    "set: unknown key": ({}, {}, ("sparsifier.densty=0.1",)),
    "set: unknown key in a named file": ({NETWORK: "networks/10gbe-tcp"}, {}, ("cluster.network.bandwith=10 Gbit/s",)),
    "set: no unit in a named file": ({NETWORK: "networks/10gbe-tcp"}, {}, ("cluster.network.bandwidth=10",)),
    "set: index": ({}, {}, ("workload.layers.2.numel=3",)),
    "set: not an index": ({}, {}, ("workload.layers.first=3",)),
    "set: below a number": ({}, {}, ("cluster.nodes.x=3",)),
    "set: below a list that is not there": ({}, {}, ("cluster.links.0.factor=0.5",)),
    "set: below an unknown key": ({}, {}, ("cluster.network.between.loss=0.1",)),
    "set: beside a key that is not there": ({}, {}, ("cluster.loading.workers=2", "scheduler.bukets.size=1")),
    "set: empty text": ({}, {}, ("cluster.links=[{link: '', factor: 0.5}]",)),
    "set: no YAML": ({}, {}, ("name=[",)),
}  # fmt: skip


def outcome(folder, replacements, files, overrides):
    """The text of the error that a case ends in."""
    text = SCENARIO
    for old, new in replacements.items():
        assert old in text
        text = text.replace(old, new, 1)
    for name, content in {"run.yaml": text, **files}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    with pytest.raises(InputError) as caught:
        run(load(folder / "run.yaml", overrides))
    return str(caught.value).replace(str(folder), "<tmp>")


def golden(folder):
    """All cases with their texts, as the file holds them."""
    return "\n".join(f"== {name}\n{outcome(folder, *case)}\n" for name, case in CASES.items())


def test_errors_read_as_agreed(tmp_path):
    assert golden(tmp_path) == GOLDEN.read_text()


def test_every_problem_is_one_line_with_expected_and_got():
    """Of the texts as agreed: another test holds the cases to these."""
    for line in GOLDEN.read_text().splitlines():
        if not line or line.startswith("== "):
            continue
        where, _, rest = line.partition(": expected ")
        assert where
        assert ", got " in rest or MISSING.search(line)


def test_values_in_a_layers_file_are_refused_with_their_row(tmp_path):
    rows = f"{HEADER}a,10,0,0\nb,0,0,0\nc,1,-1,0\nd,1,0,nan\n"
    text = outcome(tmp_path, {LAYERS: "layers: l.csv"}, {"l.csv": rows}, ())
    assert [":".join(line.split(":")[:2]) for line in text.splitlines()] == [f"<tmp>/l.csv:{row}" for row in (3, 4, 5)]


def test_a_missing_layers_file_is_refused_with_its_place(tmp_path):
    assert outcome(tmp_path, {LAYERS: "layers: none.csv"}, {}, ()).startswith("<tmp>/run.yaml:2:")


def test_a_bad_layer_is_reported_once(tmp_path):
    text = outcome(tmp_path, {LAYERS: "layers: [{name: a, numel: 0}]"}, {}, ())
    assert text == "<tmp>/run.yaml:2:46: workload.layers.0.numel: expected at least 1, got 0"


RING = "topology: ring, workers: 4, gpus_per_node: 1, bandwidth: 10 Gbit/s, latency: 0 s, source: x"


@pytest.mark.parametrize(
    "network",
    [
        "protocols: [{name: LL, up_to_per_worker: 1 MB, efficiency: 0}]",
        f"measured: [{{primitive: all_reduce, {RING}, points: [[2 B, 1 s], [1 B, 1 s]]}}]",
        f"measured: [{{primitive: all_gather, {RING}, points: [[1 B, 0 s], [2 B, 1 s]]}}]",
    ],
    ids=["efficiency 0", "sizes fall", "time 0"],
)
def test_networks_that_cannot_be_are_refused(tmp_path, network):
    assert "<tmp>/run.yaml:6:" in outcome(tmp_path, {"latency: 50 us": network}, {}, ())


@pytest.mark.parametrize(
    ("replacements", "overrides"),
    [
        ({"gpus/ideal": "a" * 5000}, ()), ({LAYERS: f"layers: {'a' * 5000}"}, ()), ({"gpus/ideal": '"a\\0b"'}, ()),
        ({}, ("workload.layers.².numel=3",)), ({}, ("name=\udc80",)),
        ({}, ("overlap_mixture={spread: 1, core: 0, silent: 1}",)), ({}, ("overlap_mixture={spread: 1, core: 1.5}",)),
    ],
    ids=["long name", "long layers", "zero byte", "superscript", "surrogate", "all silent", "core above 1"],
)  # fmt: skip
def test_odd_values_are_refused(tmp_path, replacements, overrides):
    assert outcome(tmp_path, replacements, {}, overrides)


JUNK = [
    None,
    True,
    -1,
    0,
    0.5,
    1e-300,
    1e300,
    float("nan"),
    float("inf"),
    "",
    "x",
    "5 kg",
    "1 s",
    "0 s",
    "{y}",
    [],
    [1],
    {},
    {"kind": "x"},
]


def paths(data, prefix=()):
    """Every place in nested data."""
    yield prefix
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield from paths(value, (*prefix, key))


@settings(max_examples=2 * settings.default.max_examples)
@given(
    places=st.lists(st.tuples(st.sampled_from(list(paths(WHOLE))[1:]), st.sampled_from(JUNK)), min_size=1, max_size=2)
)
def test_any_value_anywhere_gives_a_result_or_an_input_error(places):
    data = copy.deepcopy(WHOLE)
    for path, junk in places:
        place = data
        for key in path[:-1]:
            place = place[key] if isinstance(place, dict) and key in place else {}
        if isinstance(place, dict):
            place[path[-1]] = copy.deepcopy(junk)
    document = parse_document(yaml.safe_dump(data))
    try:
        result = run(scenario_of(document.data, document, Path())).document
    except InputError as error:
        texts = [str(problem) for problem in error.problems]
        assert all("\n" not in text and (", got " in text or MISSING.search(text)) for text in texts)
    else:
        assert result["iteration_time_s"] >= 0


def test_set_reaches_into_named_files(tmp_path):
    (tmp_path / "run.yaml").write_text(SCENARIO.replace(NETWORK, "networks/10gbe-tcp"))
    plain, changed = (
        load(tmp_path / "run.yaml", overrides)
        for overrides in ((), ("cluster.network.bandwidth=5 GB/s", "topology.kind=tree", "workload.layers.1.numel=7"))
    )
    assert changed.cluster.network.bandwidth == 5e9
    assert changed.cluster.network.latency == plain.cluster.network.latency
    assert (changed.topology.kind, changed.workload.layers[1].numel) == ("tree", 7)


def test_set_replaces_an_entry_of_a_list_and_reaches_into_a_workload_whose_layers_are_a_file(tmp_path):
    (tmp_path / "run.yaml").write_text(SCENARIO.replace(f"{{batch_size: 1, {LAYERS}}}", "workloads/resnet18-v100"))
    plain, changed = (load(tmp_path / "run.yaml", keys).workload for keys in ((), ("workload.batch_size=7",)))
    assert (changed.batch_size, changed.layers) == (7, plain.layers)
    (tmp_path / "run.yaml").write_text(SCENARIO)
    changed = load(tmp_path / "run.yaml", ("workload.layers.1={name: c, numel: 5}",))
    assert [(layer.name, layer.numel) for layer in changed.workload.layers] == [("a", 1000), ("c", 5)]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        GOLDEN.write_text(golden(Path(name)))
