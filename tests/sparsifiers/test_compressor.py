"""Bytes of compressors against the arrays that released code sends, made with numpy."""

import math

import numpy as np
import pytest

from examples import example
from simulator.models.exchange import AllGather, Bucket, PushPull
from simulator.sparsifiers.base import Sparsifier

PIECES = (13, 4, 1, 600)
RELEASED = {
    "onebit": lambda n: [np.zeros(n, bool), np.zeros(2, np.float32)],
    "efsignsgd": lambda n: [np.zeros(n, bool), np.float32(0)],
    "signsgd": lambda n: [np.zeros(n, bool)],
    "signum": lambda n: [np.zeros(n, bool)],
    "natural": lambda n: [np.zeros(n, np.uint8)],
    "eight_bit": lambda n: [np.zeros(n, np.int8), np.zeros(1, np.float32)],
    "qsgd": lambda n: [np.zeros(n, np.int8), np.zeros(math.ceil(n / 128), np.float32)],
    "terngrad": lambda n: [np.zeros(n, np.int8), np.float32(0)],
    "sketch": lambda n: [np.zeros(n, np.uint8), np.zeros(64, np.float32)],
}
"""What GRACE's TensorFlow code hands to one gather after the other for a tensor of n elements."""


@pytest.mark.parametrize("kind", RELEASED)
def test_a_worker_sends_the_arrays_of_the_released_code(kind):
    changes = {"bits": 8} if kind in ("onebit", "efsignsgd", "signsgd", "signum") else {}
    member, bucket = example(Sparsifier, kind, **changes), Bucket(0, PIECES, 0)
    selection = member.expect(bucket, 4, 1.0)
    arrays = [sum(item.nbytes for item in array) for array in zip(*(RELEASED[kind](n) for n in PIECES), strict=True)]
    steps = member.exchange(selection, bucket, 4, "collective")
    assert [step.nbytes for step in steps if isinstance(step, AllGather)] == arrays
    votes = kind in ("signsgd", "signum")
    pulled = sum(arrays) if votes else 4 * sum(PIECES)
    assert member.exchange(selection, bucket, 4, "push_pull")[0] == PushPull(sum(arrays), pulled)
