"""Train small networks with 16 data-parallel workers and write the table of unions that overlap laws are judged by.

    python tests/traces/making/unions.py OUT.csv [NETWORK ...]

Networks: resnet, transformer, mlp, convnet, lstm (default: all; a quarter of an hour on one core). Training is that of
`record.py`: layer-wise Top-k at density 0.01 with error feedback. Beside it, Top-k of each layer and of the whole model
runs on the same gradients at three densities, without a residual and with a residual of its own, empty 30 iterations
before each phase. In three phases of the training, the union of 1, 2, 4, 8 and 16 workers is counted on all
coordinates: the exact mean over all choices of n of the 16 workers, 1 - C(16 - m, n) / C(16, n) for a coordinate that
m workers select (rarefaction: Hurlbert, Ecology 1971), and the mean over four iterations of the phase. ``se``: its
standard error over these iterations.
"""

import argparse
import statistics
from math import comb
from pathlib import Path

import numpy as np
import torch
from files import write_csv
from networks import WORKERS, build
from torch import Tensor
from training import train

NETWORKS = ("resnet", "transformer", "mlp", "convnet", "lstm")
DENSITIES = (0.001, 0.01, 0.1)
COUNTS = (1, 2, 4, 8, 16)
LATER = (0, 3, 6, 9)
WARM = 30
COLUMNS = "network,phase,granularity,error_feedback,density,workers,union_density,se"
Case = tuple[str, str, str, float]


class Watch:
    """Unions by phase and case, of selections from the gradients that pass by."""

    def __init__(self, sizes: list[int], phases: dict[str, int]) -> None:
        self.parts = {"layer": sizes, "model": [sum(sizes)]}
        self.phases = phases
        self.residuals = {(g, d): torch.zeros(WORKERS, sum(sizes)) for g in self.parts for d in DENSITIES}
        self.found: dict[Case, list[list[float]]] = {}

    def __call__(self, step: int, gradients: Tensor) -> None:
        """Select at every density and granularity; count unions in the iterations of the phases."""
        now = [phase for phase, first in self.phases.items() if step - first in LATER]
        for (granularity, density), held in self.residuals.items():
            if not any(first - WARM <= step <= first + LATER[-1] for first in self.phases.values()):
                held.zero_()
                continue
            held.add_(gradients)
            kept = {"true": select(held, self.parts[granularity], density)}
            if now:
                kept["false"] = select(gradients, self.parts[granularity], density)
            for phase in now:
                for feedback, mask in kept.items():
                    self.found.setdefault((phase, granularity, feedback, density), []).append(mean_unions(mask))
            held.masked_fill_(kept["true"], 0)


def select(values: Tensor, sizes: list[int], density: float) -> Tensor:
    """Mark the Top-k of each row of ``values`` (workers, d) in every part; zeros are never selected."""
    masks = []
    for part in torch.split(values.abs(), sizes, 1):
        place = part.shape[1] - max(1, round(density * part.shape[1]))
        threshold = np.partition(part.numpy(), place, axis=1)[:, place]
        masks.append((part >= torch.from_numpy(threshold)[:, None]) & (part > 0))
    return torch.cat(masks, 1)


def mean_unions(mask: Tensor) -> list[float]:
    """The share of coordinates that some of n workers select, mean over all choices of n workers, by n in COUNTS."""
    shares = torch.bincount(mask.sum(0), minlength=WORKERS + 1).double() / mask.shape[1]
    return [
        sum((1 - comb(WORKERS - m, n) / comb(WORKERS, n)) * share for m, share in enumerate(shares.tolist()))
        for n in COUNTS
    ]


def measured(name: str, seed: int = 1) -> list[list[object]]:
    """Train the network ``name`` and return the rows of its unions."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    task = build(name, torch.Generator().manual_seed(seed))
    phases = {"early": 10, "middle": task.iterations // 2, "late": task.iterations - 1 - LATER[-1]}
    watch = Watch([p.numel() for p in task.model.parameters()], phases)
    train(task, [], torch.arange(1), watch)
    rows: list[list[object]] = []
    for case, unions in watch.found.items():
        for n, values in zip(COUNTS, zip(*unions, strict=True), strict=True):
            error = statistics.stdev(values) / len(values) ** 0.5
            rows.append([name, *case, n, f"{statistics.fmean(values):.6g}", f"{error:.3g}"])
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    arguments = parser.parse_args()
    write_csv(arguments.out, COLUMNS, [row for name in arguments.networks for row in measured(name)])
