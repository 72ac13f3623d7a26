"""PowerSGD: every matrix as the product of two thin ones."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import ClassVar

import numpy as np

from simulator.bounds import Count, Seed
from simulator.models.curves import Floats
from simulator.models.exchange import Bucket, Compute, Selection, Shape, Step
from simulator.models.gradients import ALL, Block, Choice, State, Values
from simulator.models.linear_algebra import multiply, orthonormal_columns
from simulator.models.overlap import Overlap
from simulator.records import replace
from simulator.sparsifiers.base import Style, per_call, sum_step
from simulator.sparsifiers.compressor import Compressor
from simulator.sparsifiers.implementation import Implementation

Matrix = tuple[int, int]
ALTERNATING = "alternating"
"""The implementation that makes one factor in each iteration."""


class PowerSGD(Compressor, kind="powersgd"):
    """PowerSGD: one step of power iteration gives each matrix as P Q^T of rank r, summed by all-reduce.

    For a matrix M (a, b): P = mean M_i Q by all-reduce, P orthogonalised, Q = mean M_i^T P by a second all-reduce that
    waits for the first, and every worker decodes P Q^T; the difference to its own M_i stays in the residual (Vogels et
    al., NeurIPS 2019). Q starts from the last iteration's (`warm_start`), at first from a Gaussian of the shared seed.
    In total 2(n-1)/n 4 sum r (a + b) bytes, for any gradients. A tensor is a matrix of its first dimension times all
    others. A tensor of one dimension, or whose factors would not be smaller, is summed densely, without residual.

    Shapes are those of the gradients in a replay, and else of the layers. Where a layer has none, or was cut, a tensor
    of n elements has the shape in `matrices` with a b = n; if there is none, a is the largest divisor of n up to
    sqrt(n), which is the least traffic. A sample of coordinates does not hold whole matrices, and is refused.

    With `implementation: grace`, convolutions lie as in TensorFlow, whose first dimension is the height of the kernel:
    a matrix has as many rows as that, and one of 1 x 1 is sent whole (sands-lab/grace, grace_dl/tensorflow, 2020).

    With `implementation: alternating`, as the authors' library `powersgd` runs it (epfml/powersgd, 2022), an iteration
    orthogonalises the factor of the last one and makes the other from it by one product and one all-reduce: P from Q
    in one iteration, Q from P in the next, on average half of the bytes and of the waits. The first factor is
    Gaussian. Its 100 dense iterations at the start are left out.

    - `rank`: r; 4 was used for convolutional networks, 32 for BERT (scripts of lzhangbv/acpsgd).
    - `seed`: of Q in the first iteration.
    """

    implementations: ClassVar[dict[str, Implementation]] = {
        ALTERNATING: Implementation("P and Q in turn", "Vogels, epfml/powersgd, powersgd/powersgd.py, 2022"),
    }

    whole_only: ClassVar[str] = "it multiplies whole matrices"

    rank: Count = 4
    error_feedback: bool = True
    warm_start: bool = True
    matrices: tuple[tuple[Count, Count], ...] = ()
    seed: Seed = 0

    @property
    def alternates(self) -> bool:
        """Whether an iteration makes one factor of each matrix, P and Q in turn."""
        return self.implementation == ALTERNATING

    def state_values(self, pieces: tuple[int, ...]) -> float:
        """The residuals of the matrices, with error feedback; the last Q of each, with a warm start (or both factors,
        where they alternate)."""
        shapes = self._shapes(pieces)
        residual = sum(a * b for a, b in filter(None, shapes)) if self.error_feedback else 0
        elements = self._elements(shapes, pieces)
        return residual + (elements["q"] + elements["p"] * self.alternates if self.warm_start else 0.0)

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """One P Q^T for all workers; one-dimensional tensors as they are."""
        shapes = self._shapes(block.numels, block.shapes)
        known: dict[int, Floats] = state.get("q", {})
        turned = self.alternates and not state.get("turned", True)
        rng = np.random.default_rng([self.seed, block.iteration, 0])
        sent, factors = u.copy(), {}
        first = np.cumsum([0, *block.numels])
        for unit, _ in block.units("layer"):
            tensor = int(block.piece[unit.start])
            shape = shapes[tensor]
            if shape is None:
                continue
            at = block.coordinate[unit] - first[tensor]
            matrix = np.zeros(shape[0] * shape[1])
            matrix[at] = u[:, unit].mean(axis=0, dtype=np.float64)
            matrix = matrix.reshape(shape).T if turned else matrix.reshape(shape)
            q = known.get(tensor) if self.warm_start else None
            if q is None:
                q = rng.standard_normal((matrix.shape[0 if self.alternates else 1], min(self.rank, *shape)))
            p = orthonormal_columns(q if self.alternates else multiply(matrix, q))
            factors[tensor] = multiply(p.T, matrix).T
            decoded = multiply(p, factors[tensor].T)
            sent[:, unit] = (decoded.T if turned else decoded).ravel()[at]
        state["turned"] = turned
        state["q"] = factors
        return Choice([ALL] * len(u), decoded=sent, detail=self._elements(shapes, block.numels))

    def expect(self, bucket: Bucket, workers: int, concentration: Overlap) -> Selection:
        """All elements, with the shapes that are known or assumed."""
        detail = self._elements(self._shapes(bucket.pieces, bucket.shapes), bucket.pieces)
        return replace(super().expect(bucket, workers, concentration), detail=detail)

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Residual add (with error feedback); with alternating factors orthogonalise; and M Q: one call per matrix."""
        areas = self._areas(bucket)
        if not areas:
            return []
        residual = [per_call("residual_add", areas, 1)] if self.error_feedback else []
        orthogonalise = [per_call("elementwise", self._columns(bucket), 4)] if self.alternates else []
        return [*residual, *orthogonalise, per_call("matmul", areas, 1)]

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """One-dimensional tensors, then P; orthogonalise and M^T P; then Q; then P Q^T and the residual.

        Gram-Schmidt takes four calls per column. With alternating factors one of them is summed, of their mean size.
        """
        shapes = self._shapes(bucket.pieces, bucket.shapes)
        parts = self._elements(shapes, bucket.pieces) | selection.detail
        dense, p, q = (
            [sum_step(bucket.value_bytes * parts[name], style)] if parts[name] else [] for name in ("dense", "p", "q")
        )
        areas = self._areas(bucket)
        if not areas:
            return dense
        decode = [
            per_call("matmul", areas, 1, "combine"),
            *([per_call("residual_clear", areas, 1, "combine")] if self.error_feedback else []),
        ]
        if self.alternates:
            return [*dense, sum_step(bucket.value_bytes * (parts["p"] + parts["q"]) / 2, style), *decode]
        return [
            *dense,
            *p,
            per_call("elementwise", self._columns(bucket), 4, "combine"),
            per_call("matmul", areas, 1, "combine"),
            *q,
            *decode,
        ]

    def _columns(self, bucket: Bucket) -> tuple[float, ...]:
        """Elements of the columns that are left, column by column: of P, or of P and Q in turn their mean."""
        return tuple(
            float(((a + b) / 2 if self.alternates else a) * (min(self.rank, a, b) - done))
            for a, b in filter(None, self._shapes(bucket.pieces, bucket.shapes))
            for done in range(min(self.rank, a, b))
        )

    def _areas(self, bucket: Bucket) -> tuple[float, ...]:
        shapes = self._shapes(bucket.pieces, bucket.shapes)
        return tuple(float(n) for n, shape in zip(bucket.pieces, shapes, strict=True) if shape)

    def _shapes(self, numels: tuple[int, ...], known: tuple[Shape, ...] = ()) -> list[Matrix | None]:
        """The matrix shape of each tensor; None if it is summed densely."""
        stated = {a * b: (a, b) for a, b in self.matrices}
        made = []
        for i, n in enumerate(numels):
            if known and known[i] and math.prod(known[i]) == n:
                a = self._rows_of(known[i])
                shape = (a, n // a)
            else:
                shape = stated.get(n) or _most_square(n)
            made.append(shape if min(self.rank, *shape) * sum(shape) < n else None)
        return made

    def _rows_of(self, shape: Shape) -> int:
        """Rows of the matrix that is made of a tensor: a vector is one."""
        if len(shape) == 4 and self.implementation == "grace":
            return shape[2]
        return shape[0] if len(shape) > 1 else 1

    def _elements(self, shapes: list[Matrix | None], numels: tuple[int, ...]) -> dict[str, float]:
        """Elements of all P, of all Q, and of all tensors that are summed densely."""
        matrices = [shape for shape in shapes if shape]
        return {
            "p": float(sum(a * min(self.rank, a, b) for a, b in matrices)),
            "q": float(sum(b * min(self.rank, a, b) for a, b in matrices)),
            "dense": float(sum(n for n, shape in zip(numels, shapes, strict=True) if shape is None)),
        }


@lru_cache(maxsize=4096)
def _most_square(n: int) -> Matrix:
    """The factors a <= b of n that are nearest to each other.

    >>> _most_square(2048 * 1000), _most_square(7)
    ((1280, 1600), (1, 7))
    """
    a = next(a for a in range(math.isqrt(n), 0, -1) if n % a == 0)
    return a, n // a
