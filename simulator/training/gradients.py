"""The gradients of all workers of one model: (n, d) arrays, with one copy of the weights where that is enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.func import functional_call, vmap
from torch.utils._pytree import tree_map

from simulator.errors import InputError, Problem
from simulator.record.kernels import DTYPES
from simulator.record.models import trainable_parameters
from simulator.training.task import TrainingTask


class Workers:
    """n workers that train one model; its parameters become views of `weights` (d,), tensor after tensor.

    Where the task says that it is possible, one forward pass under `torch.func.vmap` and one backward pass are those of
    all workers, which saves calls of small operations (23 ms instead of 52 ms for 8 workers of ResNet-14 on one core;
    an LSTM is faster in turn); otherwise one worker follows the other. With local steps every worker has weights (n, d)
    and a momentum (n, d) of its own, which stays with it from one iteration to the next.
    """

    def __init__(self, task: TrainingTask) -> None:
        self.task, self.parameters = task, trainable_parameters(task.model)
        other = {str(item.dtype) for item in self.parameters.values()} - {"torch.float32"}
        if other:
            raise InputError(Problem("the model", "parameters of torch.float32", ", ".join(sorted(other))))
        self.shapes = tuple(tuple(item.shape) or (1,) for item in self.parameters.values())
        self.numels = [item.numel() for item in self.parameters.values()]
        self.weights = torch.cat([item.detach().reshape(-1) for item in self.parameters.values()])
        for item, part in zip(self.parameters.values(), self.weights.split(self.numels), strict=True):
            item.data = part.view_as(item)
        self.values = self.weights.new_empty(task.spec.workers, len(self.weights))
        self.velocity: Any = None
        self._precision = DTYPES[task.spec.precision]
        whole = _Whole(task)
        self._losses = vmap(lambda own, batch: functional_call(whole, own, (batch,)), randomness="different")

    def gradients(self) -> tuple[Any, list[float]]:
        """The gradients (n, d) of the next batches, rounded to the precision, and the losses."""
        losses = self._fill(self.weights)
        return self._rounded(self.values), losses

    def differences(self, steps: int, learning_rate: float, momentum: float) -> tuple[Any, list[float]]:
        """Weights before less weights after `steps` steps of SGD of each worker by itself, (n, d), and the losses."""
        if self.velocity is None:
            self.velocity = torch.zeros_like(self.values)
        own, losses = self.weights.repeat(len(self.values), 1), []
        for _ in range(steps):
            losses += self._fill(own)
            self.velocity.mul_(momentum).add_(self.values)
            own.sub_(self.velocity, alpha=learning_rate)
        return self._rounded(torch.sub(self.weights, own, out=self.values)), losses

    def _rounded(self, values: Any) -> Any:
        return values if self._precision == torch.float32 else values.to(self._precision).float()

    def _fill(self, weights: Any) -> list[float]:
        """Put the gradients at `weights` (d,), or (n, d) of each worker's own, into `values`; the losses."""
        batches = [next(batches, None) for batches in self.task.batches]
        if any(batch is None for batch in batches):
            raise InputError(Problem("batches", "an iterator that does not end", "its end", "shuffle and start again"))
        return self._fill_vectorised(weights, batches) if self.task.vectorised else self._fill_in_turn(weights, batches)

    def _fill_vectorised(self, weights: Any, batches: Sequence[Any]) -> list[float]:
        parts = weights.expand_as(self.values).split(self.numels, dim=1)
        own = {
            f"model.{name}": part.unflatten(1, tuple(item.shape) or (1,)).requires_grad_()
            for (name, item), part in zip(self.parameters.items(), parts, strict=True)
        }
        losses = self._losses(own, tree_map(lambda *items: torch.stack(items), *batches))
        self._keep(self.values, torch.autograd.grad(losses.sum(), list(own.values()), allow_unused=True))
        return [float(loss) for loss in losses.detach()]

    def _fill_in_turn(self, weights: Any, batches: Sequence[Any]) -> list[float]:
        shared, parameters, losses = self.weights.clone(), list(self.parameters.values()), []
        for worker, (row, batch) in enumerate(zip(self.values, batches, strict=True)):
            if weights.dim() == 2:
                self.weights.copy_(weights[worker])
            loss = self.task.loss(self.task.model, batch)
            self._keep(row[None], torch.autograd.grad(loss, parameters, allow_unused=True))
            losses.append(float(loss.detach()))
        self.weights.copy_(shared)
        return losses

    def _keep(self, rows: Any, found: Sequence[Any]) -> None:
        for part, gradient in zip(rows.split(self.numels, dim=1), found, strict=True):
            if gradient is None:
                part.zero_()
            else:
                part.copy_(gradient.reshape(part.shape))


class _Whole(torch.nn.Module):
    """The loss as a module, so that `functional_call` can put other weights into the model."""

    def __init__(self, task: TrainingTask) -> None:
        super().__init__()
        self.model, self.loss = task.model, task.loss

    def forward(self, batch: Any) -> Any:
        return self.loss(self.model, batch)
