"""What a precision adds to the work of a plan: bytes of buckets, casts around exchanges, kernels of the update."""

from __future__ import annotations

from simulator.models.exchange import Bucket, Compute, Messages, Selection, Step, bytes_of_step
from simulator.models.layers import Workload
from simulator.models.precision import NUMBER_BYTES, Precision
from simulator.records import replace
from simulator.sparsifiers.base import Sparsifier, Style
from simulator.sparsifiers.implementation import Steps


def in_precision(bucket: Bucket, precision: Precision) -> Bucket:
    """The bucket with the bytes that its values and indices have on the network."""
    indices = precision.index_bytes(bucket.index_bytes), precision.index_bytes(bucket.long_index_bytes)
    if (bucket.value_bytes, bucket.index_bytes, bucket.long_index_bytes) == (precision.value_bytes, *indices):
        return bucket
    return replace(bucket, value_bytes=precision.value_bytes, index_bytes=indices[0], long_index_bytes=indices[1])


def steps_with_casts(
    method: Sparsifier, selection: Selection, bucket: Bucket, workers: int, style: Style, *, precision: Precision
) -> Steps:
    """The steps of a method; values that are kept in another format than they travel in are cast, step by step.

    A worker casts what it sends, from the residual's format or, without one, the gradients', and what it receives, to
    the gradients' format. How many values a step carries follows from its bytes with values of twice the bytes.
    """
    chosen, exchange = method.carry_out(selection, bucket, workers, style)
    kept = precision.residuals if method.has_residual else precision.gradients
    before, after = kept != precision.sent_as, precision.gradients != precision.sent_as
    if not (before or after):
        return chosen, exchange
    doubled = method.carry_out(selection, replace(bucket, value_bytes=2 * bucket.value_bytes), workers, style)[1]
    made: list[Step] = []
    for step, twice in zip(exchange, doubled, strict=True):
        if isinstance(step, Compute) or isinstance(twice, Compute):
            made.append(step)
            continue
        sent, received = (
            (more - less) / NUMBER_BYTES[precision.sent_as]
            for less, more in zip(bytes_of_step(step, workers), bytes_of_step(twice, workers), strict=True)
        )
        if isinstance(step, Messages) and sent:
            sent = received = float(selection.largest)
        made += [
            *([_cast(sent)] if before and sent else []),
            step,
            *([_cast(received)] if after and received else []),
        ]
    return chosen, made


def _cast(elements: float) -> Compute:
    return Compute("cast", (elements,), 1, "combine")


def mixed_precision_kernels(workload: Workload) -> list[Compute]:
    """What the update takes in addition to the optimiser's kernel, once for all gradients together.

    Loss scaling: one pass that checks and unscales all gradients, and a read of its flag by the host
    (`_amp_foreach_non_finite_check_and_unscale_` and `found_inf.item()` in PyTorch's GradScaler). Master weights: the
    gradients become fp32, in the pass that unscales them if there is one (apex, `multi_tensor_scale`), and the weights
    are copied back to 16 bits after the step (`master_params_to_model_params`).
    """
    precision, whole = workload.precision, (float(workload.numel),)
    cast = Compute("cast", whole, 1, "combine")
    unscale = [Compute("unscale", whole, 1, "combine", reads=1)] if precision.scales_loss else []
    if not precision.has_master_weights:
        return unscale
    return [*(unscale or [cast]), cast]
