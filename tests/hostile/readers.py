# ruff: noqa: E501
"""Every reader of the package, with what it reads when nothing is wrong: the seeds of the fuzzing."""

import io
import json
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from architectures.published import CONFIGS
from small_inputs import BASE, SCENARIO, VARY, WHOLE
from studies.start import test_training_files
from synthetic_logs import kineto_trace, nccl_document, nccl_log
from synthetic_profiles import profiled_steps
from traces.format import test_format
from traces.readers import test_chakra, test_kineto, test_nccl_tuning_log, test_osu

from simulator.engine.build_up import build_up
from simulator.files import as_yaml
from simulator.loading.documents import read_document
from simulator.prediction.run import run
from simulator.record.rows import RowFile
from simulator.scenario.named_parts import read_workload
from simulator.scenario.reading import load
from simulator.studies.advice.candidates import read_iterations
from simulator.studies.compare.opponent import add_comparison
from simulator.studies.start.training_files import read_blocks
from simulator.studies.storage.journal import line_of
from simulator.studies.sweep.points import GridPoints
from simulator.studies.sweep.sweep import run_sweep
from simulator.studies.traces.synthesis import synthesize
from simulator.topologies.nccl import read_tuner
from simulator.traces.format.trace import Trace
from simulator.traces.readers.chakra import read_chakra
from simulator.traces.readers.imports import import_npz
from simulator.traces.readers.kineto.reader import read_kineto
from simulator.traces.readers.kineto.workload import import_kineto
from simulator.traces.readers.nccl_log import read_nccl_log
from simulator.traces.readers.nccl_tuning_log import read_nccl_tuning
from simulator.traces.readers.osu import read_osu

FEW_POINTS = 60
"""Points that a fuzzed sweep may have to be evaluated, rather than only planned."""


@dataclass(frozen=True)
class Reader:
    """`read` takes the path of a file called `name`; `beside` are whole files in the same folder."""

    name: str
    seeds: Sequence[bytes]
    read: Callable[[Path], Any]
    beside: Mapping[str, bytes] = field(default_factory=dict)
    mend: Callable[[bytes], bytes] = lambda data: data


def _yaml(data: Any) -> bytes:
    return as_yaml(data).encode()


def _run(path: Path) -> None:
    """What `sparsim run --json` and `sparsim check` do."""
    loaded = load(path)
    prediction = run(loaded)
    add_comparison(prediction, path)
    json.dumps(prediction.document, allow_nan=False)
    as_yaml(loaded.resolved()).encode()


def _scenarios() -> list[bytes]:
    """Small scenarios with every part that a person may write."""
    network = "network: {kind: single_switch, bandwidth: 10 Gbit/s, latency: 50 us}"
    parts = [
        {},
        {network.partition(" ")[2]: "{kind: leaf_spine, bandwidth: 10 Gbit/s, nodes_per_leaf: 2, spines: 2}"},
        {network.partition(" ")[2]: "{kind: fat_tree, bandwidth: 10 Gbit/s, latency: 5 us}"},
        {network.partition(" ")[2]: "{kind: torus, bandwidth: 10 Gbit/s, dimensions: [2, 2]}"},
        {"topology: ring": "topology: {kind: parameter_server, servers: 2, colocated: true}"},
        {"topology: ring": "topology: tree", "wfbp": "mg_wfbp"},
        {"nodes: 4": "nodes: 4\n  gpus_per_node: 2\n  stragglers: {jitter: 10 %, slow: [{worker: 1, factor: 2}]}"},
        {"nodes: 4": "nodes: 4\n  links: [{link: node 1, factor: 0.5, start: 1 us, until: 1 s}]\n"
         "  background: [{source: 0, destination: 1, bandwidth: 1 Gbit/s}]"},
        {"topk, density: 0.01": "gtopk, density: 1 %", "wfbp": "{kind: bucketed, bucket_size: 25 MB}"},
        {"{kind: topk, density: 0.01}": "{kind: qsgd}", "wfbp": "priority"},
        {"scheduler: wfbp": "scheduler: wfbp\nversus: {sparsifier: dense}\nquestion: pays?\nseed: 3\n"
         "overlap_mixture: {spread: 1, core: 0.1}\nfidelity: flows\nmeasured: {iteration_time: 5 ms, source: x}"},
        {"scheduler: wfbp": "scheduler: wfbp\nother_jobs:\n- {nodes: [1, 2], workload: *w, topology: ring, "
         "sparsifier: dense, scheduler: wfbp}\niterations: 2", "workload: {": "workload: &w {"},
        {"gpus/ideal": "gpu", "workload: {": "workload: work\n#", network.partition(" ")[2]: "net"},
    ]  # fmt: skip
    made = [_yaml(WHOLE)]
    for part in parts:
        text = SCENARIO
        for old, new in part.items():
            if old not in text:
                raise ValueError(f"no {old!r} in the scenario")
            text = text.replace(old, new, 1)
        made.append(text.encode())
    return made


WORKLOAD = b"batch_size: 1\nname: w\ncompute_time: 5 ms\nlayers: layers.csv\n"
GPU = b"name: x\nkernels:\n  topk: {curve: affine, slope: 1 ns}\n  dgc: {curve: piecewise, points: [[1, 1 us], [9, 2 us]]}\n"
NET = b"kind: single_switch\nbandwidth: 10 Gbit/s\nprotocols: [{name: LL, up_to_per_worker: 1 MB, efficiency: 0.5}]\n"
LAYERS = b"name,numel,forward_s,backward_s\na,1000,0.001,0.002\nb,10,0,1e-6\n"
RUN = SCENARIO.replace("gpus/ideal", "gpu.yaml").replace("workload: {", "workload: work\n#")
BESIDE = {"work.yaml": WORKLOAD, "gpu.yaml": GPU, "net.yaml": NET, "layers.csv": LAYERS, "run.yaml": RUN.encode()}
TUNER = b"# c\nallreduce,0,65536,tree,ll,2,-1,-1\nallreduce,65537,4294967296,ring,simple,4,2,8,-1,-1\n"


def _sweep(path: Path) -> None:
    """The whole sweep where it is small, else its points."""
    points = GridPoints(read_document(path), path.parent, strict=True)
    numbers = points.grid.numbers()
    if len(numbers) <= FEW_POINTS:
        with tempfile.TemporaryDirectory(dir=path.parent) as out:
            run_sweep(path, Path(out), workers=1)
    else:
        points.scenario(numbers[-1])


def _resume(path: Path) -> None:
    """A sweep that goes on with the journal at `path`; every point must be in the table all the same."""
    made = run_sweep(path.parent / "sweep.yaml", path.parent, workers=1).table
    if len(made) != 4:
        raise ValueError(f"{len(made)} rows")


SWEEP = (BASE + "vary:\n  cluster.nodes: [1, 4]\n  topology: [ring, tree]\n").encode()


@cache
def _journal() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "sweep.yaml"
        place.write_bytes(SWEEP)
        run_sweep(place, Path(folder), workers=1)
        return (Path(folder) / "points.jsonl").read_bytes()


def _checked(data: bytes) -> bytes:
    """Checksums that fit: what a damaged journal never has and a hostile one always."""
    if zlib.crc32(data) % 2:
        return data
    return b"".join(line_of(line[9:]) for line in data.split(b"\n"))


@cache
def _trace() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        written = test_format.write(Path(folder) / "trace")
        return {path.name: path.read_bytes() for path in written.iterdir()}


def _open_trace(path: Path) -> None:
    """Open, stream and replay."""
    trace = Trace.open(path.parent)
    sum(1 for _ in trace.blocks())
    if trace.spec.workers <= 8 and len(trace.spec.iterations) <= 8:
        build_up(path.parent, ["dense", {"kind": "topk", "density": 0.5}])


def _parquets(name: str) -> list[bytes]:
    """The same table, packed in several ways."""
    table, made = pd.read_parquet(io.BytesIO(_trace()[name])), [_trace()[name]]
    wide = table.astype({column: "float64" for column in table if column.startswith("w")})
    for frame, options in (
        (table, {"compression": None}),
        (table, {"compression": "gzip", "use_dictionary": False}),
        (wide * np.where(wide.columns.str.fullmatch("w[0-9]"), 1e300, 1), {"row_group_size": 4}),
    ):
        kept = frame.astype({"layer": "int32", "coordinate": "int64", table.columns[0]: "int32"})
        buffer = io.BytesIO()
        kept.to_parquet(buffer, index=False, **options)
        made.append(buffer.getvalue())
    return made


def _archives() -> list[bytes]:
    made = []
    arrays = {"a": np.ones((2, 3, 4)), "b": np.zeros((2, 3, 2, 2), dtype=np.float16)}
    for save, what in ((np.savez, arrays), (np.savez_compressed, arrays), (np.savez, {"a": np.full((1, 1, 2), 1e300)})):
        buffer = io.BytesIO()
        save(buffer, **what)
        made.append(buffer.getvalue())
    buffer = io.BytesIO()
    np.save(buffer, arrays["a"])
    return [*made, buffer.getvalue()]


def _out(path: Path) -> Path:
    return path.parent / "out"


def _kineto(path: Path) -> Any:
    trace = read_kineto(path)
    import_kineto([path], _out(path), 4)
    load(path.parent / "imported.yaml")
    return trace


def _rows(path: Path) -> None:
    with RowFile(path, ("name", "numel"), resume=True) as file:
        file.append({"name": "c", "numel": "3"})


def _named(path: Path) -> None:
    _run(path.parent / "run.yaml")


def _json(*documents: Any) -> bytes:
    return "\n".join(json.dumps(item, indent=1) for item in documents).encode()


@cache
def readers() -> dict[str, Reader]:
    """All readers, by the name of their corpus."""
    trace, log = _trace(), nccl_log([(0, 1e-5, 1e-5), (4096, 2e-5, 3e-5), (2**20, 1e-3, 1e-3)], each=4)
    kineto = [kineto_trace(nccl=[(4096, 50)]), kineto_trace(ddp=True, shapes=False), kineto_trace(older=True)]
    kineto.append(profiled_steps([(1000, 40, 50, 30, 20)] * 2, steps=3, loading=9, copy=9, update=(9, 9), nccl=9)[0])
    kineto.append(
        test_kineto.in_type(kineto_trace(sizes=(64,), nccl=[(256, 9.0)]), "c10::BFloat16") | {"with_stack": 1}
    )
    imported = {"imported.yaml": SCENARIO.replace("workload: {", "workload: out/workload.yaml\n#").encode()}
    net, gpu = RUN.replace("gpu.yaml", "gpus/ideal"), RUN
    return {
        "scenario": Reader("run.yaml", _scenarios(), _run, {k: v for k, v in BESIDE.items() if k != "run.yaml"}),
        "workload": Reader("work.yaml", [WORKLOAD, b"batch_size: 1\nlayers: [{name: a, numel: 5}]\n"], _named, BESIDE),
        "gpu": Reader("gpu.yaml", [GPU], _named, BESIDE | {"run.yaml": gpu.encode()}),
        "network": Reader(
            "net.yaml",
            [NET, b"kind: nvlink_mesh\nbandwidth: 1 GB/s\n", b"kind: torus\nbandwidth: 1 GB/s\ndimensions: [2, 2]\n"],
            _named,
            BESIDE | {"run.yaml": net.replace("{kind: single_switch, bandwidth: 10 Gbit/s, latency: 50 us}", "net").encode()},
        ),
        "config_json": Reader(
            "config.json",
            [_json(item) for item in CONFIGS.values()],
            lambda path: read_workload(str(path)),
        ),
        "layers": Reader("layers.csv", [LAYERS], _named, BESIDE),
        "tuner": Reader("tuner.csv", [TUNER], read_tuner),
        "iterations": Reader("targets.yaml", [b"topk: 32000\ndense: 3e4\n'topk 0.01': 5\n"], lambda p: read_iterations(str(p))),
        "sweep": Reader("sweep.yaml", [SWEEP, (BASE + VARY).encode(), (BASE + "zip:\n- {cluster.nodes: [1, 2], topology: [ring, tree]}\n"
                        "vary: {sparsifier.density: {from: 1 %, to: 50 %, scale: log, points: 3}}\n"
                        "skip: [{cluster.nodes: {above: 1}, topology: ring}]\n").encode()], _sweep),
        "journal": Reader("points.jsonl", [_journal()], _resume, {"sweep.yaml": SWEEP}, _checked),
        "synthetic": Reader(
            "spec.yaml",
            [b"layers: [{numel: 100, tail: laplace}, {numel: 9, hot_share: 1 %}]\nworkers: 2\niterations: 3\ncorrelation: 0.5\n"],
            lambda path: synthesize(str(path), None, 0.5, _out(path)),
        ),
        "trace_yaml": Reader("trace.yaml", [trace["trace.yaml"]], _open_trace, trace),
        "trace_layers": Reader("layers.csv", [trace["layers.csv"]], _open_trace, trace),
        "trace_unions": Reader("union.csv", [trace["union.csv"]], _open_trace, trace),
        "trace_gradients": Reader("gradients.parquet", _parquets("gradients.parquet"), _open_trace, trace),
        "trace_residuals": Reader("residuals.parquet", _parquets("residuals.parquet"), _open_trace, trace),
        "npz": Reader("arrays.npz", _archives(), lambda path: import_npz(path, _out(path))),
        "kineto": Reader("trace.json", [_json(item) for item in kineto], _kineto, BESIDE | imported),
        "chakra": Reader(
            "et.json", [_json(*test_chakra.CONVERTED), _json(test_chakra.FED), _json(test_chakra.OBSERVED)], read_chakra
        ),
        "nccl_log": Reader(
            "log.txt",
            [
                log.encode(),
                nccl_log([(4096, 2e-5, 3e-5)], old=True).encode(),
                "".join(f"{i % 2}: \x1b[1m{line}\x1b[0m\r\n" for i, line in enumerate(log.splitlines())).encode(),
                log.replace("#", "").encode("utf-16"),
                _json(nccl_document([(64, 1e-5, 1e-5), (4096, 2e-5, None)], ranks=2)),
                nccl_log([(64, 1e-5, 1e-5)], environment=[("NCCL_ALGO", "Ring"), ("NCCL_TREE_THRESHOLD", "0")]).encode(),
            ],
            lambda path: [test.topology for test in read_nccl_log(path).parts] and read_nccl_log(path),
        ),
        "osu": Reader(
            "osu.txt",
            [test_osu.PLAIN.encode(), test_osu.FULL.encode(), test_osu.WIDE.encode(), test_osu.POINT.encode()],
            lambda path: [table.primitive for table in read_osu(path).parts] and read_osu(path),
        ),
        "nccl_tuning": Reader(
            "tuning.txt",
            [text.encode() for text in (test_nccl_tuning_log.NEW, test_nccl_tuning_log.OLD, test_nccl_tuning_log.CHOICES)],
            read_nccl_tuning,
        ),
        "training": Reader(
            "training.txt",
            [text.encode() if isinstance(text, str) else _json(text) for text, _ in test_training_files.PROGRAMS],
            lambda path: read_blocks(path, 16).text(),
        ),
        "recorded_rows": Reader("rows.csv", [b"name,numel\na,1\nb,2\n"], _rows),
    }  # fmt: skip


def prepared(reader: Reader, folder: Path) -> Path:
    """The folder with all that the reader finds whole; where the input goes."""
    for name, content in reader.beside.items():
        (folder / name).write_bytes(content)
    return folder / reader.name
