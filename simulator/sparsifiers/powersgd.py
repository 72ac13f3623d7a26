"""PowerSGD: every matrix as the product of two thin ones."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from pydantic import Field

from simulator.models.curves import Floats
from simulator.models.exchange import Bucket, Compute, Selection, Step, alike
from simulator.models.gradients import Block, Choice, State, Values
from simulator.models.layers import VALUE_BYTES
from simulator.models.overlap import Overlap
from simulator.sparsifiers.base import Style, per_call, sum_step
from simulator.sparsifiers.compressor import Compressor

Matrix = tuple[int, int]


class PowerSGD(Compressor, kind="powersgd"):
    """PowerSGD: one step of power iteration gives each matrix as P Q^T of rank r, summed by all-reduce.

    For a matrix M (a, b): P = mean M_i Q by all-reduce, P orthogonalised, Q = mean M_i^T P by a second all-reduce that
    waits for the first, and every worker decodes P Q^T; what that misses of its own M_i stays behind (Vogels et al.,
    NeurIPS 2019). Q starts from the last iteration's (`warm_start`), at first from a Gaussian of the shared seed.
    2(n-1)/n 4 sum r (a + b) bytes in all, whatever the gradients. A tensor is (first dimension, all others); one of a
    single dimension, or whose factors would not be smaller than itself, is summed densely, without residual.

    Replay takes the shapes that the gradients come with. Without them, as in the closed form, a tensor of n elements
    has the shape in `matrices` with a b = n, or else a is the largest divisor of n up to sqrt(n): the least traffic.
    A convolution or a vocabulary is longer: state it. On a sample, the entries not held count as 0: counts and traffic
    stand, but the energy that is kept is too low.

    - `rank`: r; 4 was used for convolutional networks, 32 for BERT (scripts of lzhangbv/acpsgd).
    - `seed`: of Q at the start.
    """

    rank: int = Field(default=4, ge=1)
    error_feedback: bool = True
    warm_start: bool = True
    matrices: tuple[Matrix, ...] = ()
    seed: int = Field(default=0, ge=0)

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """The same P Q^T for every worker; one-dimensional tensors as they are."""
        shapes = self._shapes(block.numels, block.shapes)
        known: dict[int, Floats] = state.get("q", {})
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
            matrix = matrix.reshape(shape)
            q = known.get(tensor) if self.warm_start else None
            q = rng.standard_normal((shape[1], min(self.rank, *shape))) if q is None else q
            p, _ = np.linalg.qr(matrix @ q)
            factors[tensor] = matrix.T @ p
            sent[:, unit] = (p @ factors[tensor].T).ravel()[at]
        state["q"] = factors
        return Choice(np.ones(u.shape, dtype=bool), sent, detail=self._elements(shapes, block.numels))

    def expect(self, bucket: Bucket, workers: int, concentration: Overlap) -> Selection:
        """Everything, by the shapes that are known or assumed."""
        d = float(bucket.numel)
        detail = self._elements(self._shapes(bucket.pieces), bucket.pieces)
        return Selection(alike(workers, d), d, d, d, detail=detail)

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Residual add where errors are fed back, and M Q: a call per matrix."""
        areas = self._areas(bucket)
        if not areas:
            return []
        residual = [per_call("residual_add", areas, 1)] if self.error_feedback else []
        return [*residual, per_call("matmul", areas, 1)]

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """One-dimensional tensors, then P; orthogonalise and M^T P; then Q; then P Q^T and the residual.

        Gram-Schmidt goes column by column, four calls each.
        """
        shapes = self._shapes(bucket.pieces)
        parts = self._elements(shapes, bucket.pieces) | selection.detail
        travel = [_summed(VALUE_BYTES * parts[name], style) for name in ("dense", "p", "q")]
        areas = self._areas(bucket)
        if not areas:
            return travel[0]
        columns = tuple(
            float(a * (min(self.rank, a, b) - done))
            for a, b in filter(None, shapes)
            for done in range(min(self.rank, a, b))
        )
        return [
            *travel[0],
            *travel[1],
            per_call("elementwise", columns, 4, "combine"),
            per_call("matmul", areas, 1, "combine"),
            *travel[2],
            per_call("matmul", areas, 1, "combine"),
            *([per_call("residual_clear", areas, 1, "combine")] if self.error_feedback else []),
        ]

    def _areas(self, bucket: Bucket) -> tuple[float, ...]:
        shapes = self._shapes(bucket.pieces)
        return tuple(float(n) for n, shape in zip(bucket.pieces, shapes, strict=True) if shape)

    def _shapes(self, numels: tuple[int, ...], known: tuple[tuple[int, ...], ...] = ()) -> list[Matrix | None]:
        """The matrix that each tensor is factored as; None where it is summed densely."""
        stated = {a * b: (a, b) for a, b in self.matrices}
        made = []
        for i, n in enumerate(numels):
            if known and math.prod(known[i]) == n:
                a = known[i][0] if len(known[i]) > 1 else 1
                shape = (a, n // a)
            else:
                shape = stated.get(n) or _most_square(n)
            made.append(shape if min(self.rank, *shape) * sum(shape) < n else None)
        return made

    def _elements(self, shapes: list[Matrix | None], numels: tuple[int, ...]) -> dict[str, float]:
        """Elements of all P, of all Q, and of what is summed densely."""
        matrices = [shape for shape in shapes if shape]
        return {
            "p": float(sum(a * min(self.rank, a, b) for a, b in matrices)),
            "q": float(sum(b * min(self.rank, a, b) for a, b in matrices)),
            "dense": float(sum(n for n, shape in zip(numels, shapes, strict=True) if shape is None)),
        }


def _summed(nbytes: float, style: Style) -> list[Step]:
    if not nbytes:
        return []
    return [sum_step(nbytes, style)]


@lru_cache(maxsize=4096)
def _most_square(n: int) -> Matrix:
    """The factors a <= b of n that are nearest to each other.

    >>> _most_square(2048 * 1000), _most_square(7)
    ((1280, 1600), (1, 7))
    """
    a = next(a for a in range(math.isqrt(n), 0, -1) if n % a == 0)
    return a, n // a
