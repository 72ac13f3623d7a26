"""How far a measured curve may be off at a size: inside the sizes that were measured, and beyond them."""

from __future__ import annotations

import math

from simulator.models.curves import Curve
from simulator.models.widths import width_of_mape

UNSTATED_ERROR = 0.063
"""Held-out error of a curve that states none: nine in ten of the measured curves that state one are at most so far off
(configs/gpus; a test computes it)."""
PER_DOUBLING = {
    ("affine", "smaller"): 1.24,
    ("affine", "larger"): 1.45,
    ("piecewise", "smaller"): 1.57,
    ("piecewise", "larger"): 1.60,
}
"""Factor by which a curve may be off for each factor of two beyond the sizes that it was fitted to.

Fitted to a part of the sizes and compared with the rest, for every cut that leaves four sizes (of half a factor of two)
over a factor of four: 95 series of one kernel on one GPU, 1,050 to 1,150 pairs at the nearest sizes. Implementations
of Top-k (yueyericardo/misc, Anil-Gaihre/DrTopKSC) and element-wise additions (sitar-lab/NeuSight, MIT), 8 GPUs. Nine in
ten errors, as a logarithm and divided by the doublings, are inside. Errors grow in proportion to the doublings (affine,
larger sizes: factors of 1.3, 1.6, 2.0 and 2.8 after 1 to 4), since a part of the sizes does not show the other regime:
launches at small sizes, memory bandwidth at large ones. Curves
with n log2 n take those of affine ones.
"""


def curve_width(curve: Curve, size: float) -> float:
    """Factor by which a curve's time may be off at a size, either way, in nine of ten cases; at most 1000.

    exp(sqrt(a^2 + b^2)): a is the logarithm of the width that its held-out error gives (`UNSTATED_ERROR` if it states
    none), b the doublings beyond `range` times the logarithm of `PER_DOUBLING`.
    """
    inside = curve.held_out_mape if curve.held_out_mape is not None else UNSTATED_ERROR
    beyond = 0.0
    if curve.range is not None and size > 0:
        shape = "piecewise" if curve.curve == "piecewise" else "affine"
        low, high = curve.range
        if size > high > 0:
            beyond = math.log2(size / high) * math.log(PER_DOUBLING[shape, "larger"])
        elif size < low:
            beyond = math.log2(low / size) * math.log(PER_DOUBLING[shape, "smaller"])
    return math.exp(min(math.hypot(math.log(width_of_mape(inside)), beyond), math.log(1000.0)))
