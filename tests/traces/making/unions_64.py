"""Train small networks with 64 workers and write what groups of 4 of them select, and the unions of more.

    python tests/traces/making/unions_64.py OUT.csv [TASK ...]

Tasks: those of `TASKS` (default: all; ten minutes on one core). Training is by layer-wise Top-k at density 0.01 with
error feedback and momentum 0.9. Beside it, Top-k of each layer and of the whole model runs on the same gradients at
three densities, each with a residual of its own. In three phases of 16 iterations each, the union of n workers is
counted on all coordinates, as the mean over the iterations: of all 64 workers, ``union_8`` to ``union_64`` (mean over
all choices of n); of four groups of 4, what a replay of a recording of these 4 workers knows: ``union_1``, ``union_2``
(mean over two pairs, ``error_2`` from their difference), ``union_4``, and ``together_n``, the union of n of the 64
selections of any of the 4 workers in any of the 16 iterations.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from files import write_csv

from simulator.models.overlap import mean_unions
from simulator.training.loop import Workers
from simulator.training.task import load_task
from simulator.trainings.options import TrainingOptions

OWN_TASKS = ("recommender", "regression", "autoencoder", "text_convnet", "convnet")
OWN = Path(__file__).parent / "tasks"
TASKS = {
    "mlp": ("mlp-digits", {}),
    "transformer": ("transformer-text", {"width": 32, "depth": 1}),
    **{name: (str(OWN / f"{name}.py"), {}) for name in OWN_TASKS},
}
WORKERS, FEW, GROUPS, ITERATIONS, SPAN = 64, 4, (0, 16, 32, 48), 170, 16
PHASES = {"early": 30, "middle": ITERATIONS // 2, "late": ITERATIONS - SPAN}
DENSITIES, COUNTS, TOGETHER = (0.001, 0.01, 0.1), (8, 16, 32, 64), (1, 4, 8, 16, 32, 64)
COLUMNS = ",".join(
    ["task,phase,granularity,density,group,union_1,union_2,error_2,union_4"]
    + [f"together_{n}" for n in TOGETHER]
    + [f"union_{n}" for n in COUNTS]
)
Array = np.ndarray


def select(values: Array, sizes: list[int], density: float) -> Array:
    """Mark the Top-k of each row of ``values`` (workers, d) in every part; zeros are never selected."""
    masks, start = [], 0
    for size in sizes:
        part = np.abs(values[:, start : start + size])
        place = size - max(1, round(density * size))
        masks.append((part >= np.partition(part, place, axis=1)[:, place : place + 1]) & (part > 0))
        start += size
    return np.concatenate(masks, axis=1)


def histogram(masks: Array) -> Array:
    """How many coordinates 0, 1, ... N of the rows (N, d) mark."""
    return np.bincount(masks.sum(0, dtype=int), minlength=len(masks) + 1).astype(float)


def rows_of(case: list[object], d: int, steps: list[Array]) -> list[list[object]]:
    """A row for each group, from the packed masks (workers, d) of the iterations of a phase."""
    unpacked = [np.unpackbits(step, axis=1, count=d) for step in steps]
    of_all = np.mean([list(mean_unions(histogram(each), COUNTS).values()) for each in unpacked], axis=0)
    rows: list[list[object]] = []
    for first in GROUPS:
        few = [each[first : first + FEW] for each in unpacked]
        alone, four = (np.mean([mean_unions(histogram(each), (n,))[n] for each in few]) for n in (1, FEW))
        pairs = [np.mean([each[i : i + 2].any(0).mean() for each in few]) for i in (0, 2)]
        error = abs(pairs[0] - pairs[1]) / 2 / np.mean(pairs)
        together = mean_unions(histogram(np.concatenate(few)), TOGETHER).values()
        numbers = [alone, np.mean(pairs), error, four, *together, *of_all]
        rows.append([*case, first, *(f"{number:.5g}" for number in numbers)])
    return rows


def measured(name: str, seed: int = 1) -> list[list[object]]:
    """Train on a task and return its rows."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    task, parameters = TASKS[name]
    options = TrainingOptions(task=task, workers=WORKERS, iterations=ITERATIONS, seed=seed, parameters=parameters)
    workers = Workers(loaded := load_task(options))
    sizes, d = workers.numels, sum(workers.numels)
    parts = {"layer": sizes, "model": [d]}
    residuals = {(of, density): np.zeros((WORKERS, d), np.float32) for of in parts for density in DENSITIES}
    velocity, kept = np.zeros(d, np.float32), {}
    for step in range(ITERATIONS):
        gradients = workers.gradients()[0].numpy()
        for (of, density), held in residuals.items():
            np.add(held, gradients, out=held)
            mask = select(held, parts[of], density)
            for phase, first in PHASES.items():
                if first <= step < first + SPAN:
                    kept.setdefault((phase, of, density), []).append(np.packbits(mask, axis=1))
            if (of, density) == ("layer", 0.01):
                sent = np.where(mask, held, 0).mean(0)
            held[mask] = 0
        velocity = 0.9 * velocity + sent
        workers.weights.sub_(torch.from_numpy(velocity), alpha=loaded.spec.learning_rate)
    return [row for case, steps in kept.items() for row in rows_of([name, *case], d, steps)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("tasks", nargs="*", default=TASKS)
    arguments = parser.parse_args()
    write_csv(arguments.out, COLUMNS, [row for name in arguments.tasks for row in measured(name)])
