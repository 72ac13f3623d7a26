"""Data-parallel training with error feedback in one process, and the measurements taken along the way."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from networks import WORKERS, Task
from torch import Tensor
from torch.nn import functional as F

DENSITY, MOMENTUM, SUBSETS = 0.01, 0.9, 8


@dataclass
class Recording:
    """What training leaves behind: sampled gradients and residuals, measured unions, losses."""

    gradients: dict[int, Tensor] = field(default_factory=dict)
    residuals: list[Tensor] = field(default_factory=list)
    unions: list[list[object]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)


def select(values: Tensor, sizes: list[int], density: float) -> Tensor:
    """Mark the Top-k of each row of ``values`` (workers, d) in every layer; zeros are never selected."""
    mask = torch.zeros_like(values, dtype=torch.bool)
    for part, chosen in zip(torch.split(values, sizes, 1), torch.split(mask, sizes, 1), strict=True):
        chosen.scatter_(1, part.abs().topk(max(1, round(density * part.shape[1])), 1).indices, True)
    return mask & (values != 0)


def union_rows(values: Tensor, sizes: list[int], rng: torch.Generator) -> list[tuple[object, ...]]:
    """Measure unions of Top-k over subsets of the workers: granularity, density, workers, union / d, se."""
    rows: list[tuple[object, ...]] = []
    orders = [torch.randperm(WORKERS, generator=rng) for _ in range(SUBSETS)]
    for granularity, parts in (("layer", sizes), ("model", [values.shape[1]])):
        for density in (0.001, 0.01, 0.1):
            mask = select(values, parts, density)
            for n in (1, 2, 4, 8, 16):
                some = orders if n < WORKERS else orders[:1]
                seen = [mask[order[:n]].any(0).double().mean().item() for order in some]
                error = statistics.stdev(seen) / len(seen) ** 0.5 if len(seen) > 1 else 0.0
                rows.append((granularity, density, n, f"{statistics.fmean(seen):.6g}", f"{error:.3g}"))
    return rows


def train(
    task: Task, blocks: Sequence[range], kept: Tensor, watch: Callable[[int, Tensor], None] | None = None
) -> Recording:
    """Train with error feedback; record the iterations in ``blocks`` at the coordinates ``kept``.

    ``watch`` is given every iteration and the gradients (workers, d) in it.
    """
    recording, parameters = Recording(), list(task.model.parameters())
    sizes = [p.numel() for p in parameters]
    residual, momentum = torch.zeros(WORKERS, sum(sizes)), torch.zeros(sum(sizes))
    raw = torch.empty_like(residual)
    for step in range(task.iterations):
        losses = []
        for worker, (x, y) in enumerate(zip(*task.batches(), strict=True)):
            loss = F.cross_entropy(task.model(x), y)
            raw[worker] = torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)])
            losses.append(loss.item())
        recording.losses.append(statistics.fmean(losses))
        if watch is not None:
            watch(step, raw)
        if step in (block.start for block in blocks):
            recording.residuals.append(residual[:, kept])
        if any(step in block for block in blocks):
            if len(recording.gradients) % 5 == 0:
                for feedback, values in (("false", raw), ("true", raw + residual)):
                    for granularity, *rest in union_rows(values, sizes, torch.Generator().manual_seed(step)):
                        recording.unions.append([step, granularity, feedback, *rest])
            recording.gradients[step] = raw[:, kept]
        residual += raw
        sent = torch.where(select(residual, sizes, DENSITY), residual, 0)
        residual -= sent
        momentum = MOMENTUM * momentum + sent.mean(0)
        with torch.no_grad():
            for parameter, change in zip(parameters, torch.split(momentum, sizes), strict=True):
                parameter.sub_(task.learning_rate * change.view_as(parameter))
        if step % 10 == 0:
            print(f"iteration {step}: loss {recording.losses[-1]:.4f}", flush=True)
    return recording
