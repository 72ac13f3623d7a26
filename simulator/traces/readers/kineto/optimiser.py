"""Which optimiser a profile shows: its name, and the kernels that one step launches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

from simulator.models.optimisers import Implementation, Kind, Optimiser

_NAME = re.compile(r"Optimizer\.step#(\w+)\.step")
_KINDS: dict[str, tuple[Kind, ...]] = {
    "sgd": ("momentum", "sgd"),
    "adam": ("adam",),
    "adamw": ("adamw",),
    "lamb": ("lamb",),
}
"""Kinds by the name of the class, in small letters and without `Fused`: SGD has its momentum as an argument."""
_WAYS: tuple[Implementation, ...] = ("per_tensor", "foreach", "fused")
"""Implementations of PyTorch, the most frequent first: where two launch as many kernels, the first one counts."""
CLOSE = 0.1
"""The kernels of an optimiser that is recognised differ from those that were launched by at most this share."""


def optimiser_name(span: str) -> str:
    """The class in the name of a span; empty where it names none.

    >>> optimiser_name("Optimizer.step#AdamW.step")
    'AdamW'
    """
    match = _NAME.match(span)
    return match[1] if match else ""


def recognise_optimiser(name: str, kernels: float, numels: Sequence[int]) -> Optimiser | None:
    """The optimiser of this name whose step on tensors of `numels` elements takes `kernels` launches, or about so many.

    None where the name is not known, or where no implementation comes close.

    >>> recognise_optimiser("SGD", 483, [150_000] * 161).implementation
    'per_tensor'
    """
    plain = name.lower()
    kinds = _KINDS.get(plain.removeprefix("fused"), ())
    ways = _WAYS[-1:] if plain.startswith("fused") else _WAYS
    known: list[tuple[float, int, Optimiser]] = []
    for kind, way, decays in product(kinds, ways, (False, True)):
        if (kind, way) == ("lamb", "foreach"):
            continue  # no released LAMB works on lists of tensors
        optimiser = Optimiser(kind=kind, implementation=way, weight_decay=decays)
        known.append((abs(optimiser.calls(numels) - kernels), len(known), optimiser))
    if not known or not kernels:
        return None
    distance, _, nearest = min(known, key=lambda item: item[:2])
    return nearest if distance <= CLOSE * kernels else None
