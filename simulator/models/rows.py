"""Gradients of embeddings as rows."""

from __future__ import annotations

from pydantic import Field

from simulator.bounds import BOUNDS
from simulator.component import Spec

MAX_WIDTH = 10**9


class Rows(Spec):
    """The gradient of an embedding as the framework makes it: one row of values and one index per row looked up.

    It is TensorFlow's IndexedSlices, or the sparse gradient of a PyTorch embedding. Rows that are looked up several
    times count each time: TensorFlow merges them only in its optimiser, after they have travelled.

    - `count`: rows that a worker looks up in one iteration (for words: batch size times words per sample).
    - `width`: elements of a row.
    """

    count: float = Field(ge=BOUNDS["elements"].smallest, le=10**12)
    width: int = Field(ge=1, le=MAX_WIDTH)
