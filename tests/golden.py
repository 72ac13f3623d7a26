"""Golden results: what every scenario in scenarios/, every validation row, every sparsifier and NCCL's model give.

`selections` holds what every sparsifier selects of gradients that are full of equal values: ties are part of a method.

`python tests/golden.py` shows what has moved and by how much, and with `--accept` writes it down. With `--exact FILE`
it writes all results to the last digit: the same bytes in any process, on any version of Python and of numpy.
"""

import hashlib
import json
import math
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
from places import ROOT
from pydantic_core import PydanticCustomError
from replayed import select

from examples import PRIMITIVES, example
from simulator.component import discover
from simulator.engine.plan.work.kernels import KernelPrices
from simulator.hardware.gpu import Gpu
from simulator.hardware.machine import Machine
from simulator.hardware.runtime import Runtime
from simulator.models.exchange import Bucket, Compute, Layout
from simulator.models.gradients import Block
from simulator.prediction.run import run
from simulator.records import asdict
from simulator.scenario.reading import load
from simulator.sparsifiers.base import Sparsifier
from simulator.studies.validate.validation import validate
from simulator.topologies.nccl_times import NcclTimes
from simulator.topologies.nccl_tuning import NcclTuning

FOLDER = Path(__file__).parent / "golden"
SCENARIOS = sorted(path.stem for path in (ROOT / "scenarios").glob("*.yaml"))
VALIDATION, SPARSIFIERS, SELECTIONS, NCCL = "validation", "sparsifiers", "selections", "nccl_tuning"
MACHINES = (("volta", "ampere", "hopper", "blackwell"), ("intel", "amd"), ("nvlink", "pci"))
CARD = Gpu(name="card", memory_bandwidth=1e11)
NAMES = (*SCENARIOS, VALIDATION, SPARSIFIERS, SELECTIONS, NCCL)
TOLERANCE = 1e-9
"""Relative; processors and versions of numpy differ in the last digits of a sum."""
LEFT_OUT = ("versions", "digest")


def result(name):
    """What a golden file holds: a result document without its versions, or the predictions of the validation rows."""
    if name == VALIDATION:
        return predictions(validate([ROOT / "scenarios" / "validation"]))
    if name == SPARSIFIERS:
        return {kind: _asked(example(Sparsifier, kind)) for kind in discover(Sparsifier)}
    if name == SELECTIONS:
        return {kind: _selected(example(Sparsifier, kind)) for kind in discover(Sparsifier)}
    if name == NCCL:
        return {" ".join(machine): _nccl(*machine) for machine in product(*MACHINES)}
    document = run(load(ROOT / "scenarios" / f"{name}.yaml")).document
    return {key: value for key, value in document.items() if key not in LEFT_OUT}


def predictions(document):
    """What `validate` predicts, row by row."""
    return {f"{row['group']}/{row['scenario']}/{row['quantity']}": row["predicted"] for row in document.rows}


def _nccl(gpu, cpu, intra):
    """Seconds that NCCL's model gives, summed over payloads, of whatever algorithm and protocol it has."""
    tuning = NcclTuning(gpu=gpu, cpu=cpu, intra=intra, channels=4, intra_bandwidth=1e12, inter_bandwidth=6e11)
    sizes, sums = 2.0 ** np.arange(3, 31), {}
    for primitive, layout in product(PRIMITIVES, (Layout(1, 8), Layout(2, 8), Layout(4, 8), Layout(16, 1))):
        seconds = NcclTimes(tuning.knowledge(Machine(), layout), Machine(), primitive, layout).expected(sizes)
        sums[f"{primitive} {layout.nodes}x{layout.gpus_per_node}"] = [
            [None if np.isinf(each).any() else float(each.sum()) for each in algorithm] for algorithm in seconds
        ]
    return sums


def _asked(member):
    """What a sparsifier asks of the GPU and of the wires for a bucket of three tensors on eight workers."""
    bucket, workers = Bucket(0, (120_000, 4_096, 10), 0, (0, 1, 2)), 8
    selection = member.expect(bucket, workers, 30.0)
    kernels = member.compute(selection, bucket, workers)
    made = {"selection": _fields(selection), "compute": [_fields(item) for item in kernels]}
    for style in ("collective", "push_pull"):
        try:
            _, steps = member.carry_out(selection, bucket, workers, style)
        except PydanticCustomError:
            made[style] = "refused"
            continue
        made[style] = [_fields(step) for step in steps]
        kernels = [*kernels, *(step for step in steps if isinstance(step, Compute))]
    pricing = KernelPrices(CARD, Runtime(kernel_launch=1e-6, host_element=1e-9))
    made["seconds"] = [pricing.cost(item) for item in kernels]
    return made


def _selected(member, workers=4, numels=(30_000, 2_000, 500), iterations=3):
    """What each worker chooses and the figures of it, iteration by iteration, of values that are small multiples."""
    numel, state, made = sum(numels), None, []
    piece, shapes = np.repeat(np.arange(len(numels)), numels), ((300, 100), (40, 50), (500,))
    for iteration in range(iterations):
        values = np.random.default_rng(iteration).standard_normal((workers, numel)).astype(np.float32)
        block = Block(np.round(values * 8) / 8, piece, np.arange(numel), np.ones(numel), numels, iteration, shapes)
        state = member.start(block) if state is None else state
        state, selection, _, choice = select(member.at(iteration), state, block)
        mask = hashlib.sha256(np.packbits(choice.chosen).tobytes()).hexdigest()
        made.append({"chosen": mask, "selection": _fields(selection)})
    return made


def _fields(item):
    """A record as JSON: its name, its fields, arrays as lists, functions by their names."""
    plain = {key: value.tolist() if hasattr(value, "tolist") else value for key, value in asdict(item).items()}
    return {"is": type(item).__name__} | {k: v.__name__ if callable(v) else v for k, v in plain.items()}


def text(value):
    """As it is written: twelve significant digits."""
    return json.dumps(
        json.loads(json.dumps(value), parse_float=lambda number: float(f"{float(number):.12g}")), indent=1
    )


def moved(before, after, where="") -> Iterator[str]:
    """Every value that differs, with both sides and by how much."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from moved(before.get(key), after.get(key), f"{where}.{key}" if where else str(key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from moved(old, new, f"{where}[{place}]")
    elif _number(before) and _number(after):
        if not math.isclose(before, after, rel_tol=TOLERANCE, abs_tol=1e-15):
            share = f" ({100 * (after / before - 1):+.3g} %)" if before else ""
            yield f"{where}: {before:.9g} -> {after:.9g}{share}"
    elif before != after:
        yield f"{where}: {before!r} -> {after!r}"


def _number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


def changes(name, made=None):
    """Differences between a golden file and what comes out now, or what is `made` already."""
    path = FOLDER / f"{name}.json"
    if not path.exists():
        return [f"{path.name}: not there yet"]
    return list(moved(json.loads(path.read_text()), json.loads(text(result(name) if made is None else made))))


def main(accept):
    """Print what has moved; write it down where asked. Exit status 1 where something has and was not accepted."""
    found = 0
    for name in NAMES:
        lines = changes(name)
        found += len(lines)
        for line in lines:
            print(f"{name}: {line}")
        if lines and accept:
            (FOLDER / f"{name}.json").write_text(text(result(name)) + "\n")
    print(f"{found} values moved" + (", written down" if accept and found else ""))
    return 1 if found and not accept else 0


def exact(names=NAMES):
    """Results to the last digit."""
    return json.dumps({name: result(name) for name in names}, indent=1) + "\n"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--exact"]:
        Path(sys.argv[2]).write_text(exact())
    else:
        sys.exit(main("--accept" in sys.argv[1:]))
