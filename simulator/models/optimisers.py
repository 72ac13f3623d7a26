"""Optimisers as they are run: the passes over memory, the kernels and the framework calls of one step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from simulator.component import Spec, expected

Kind = Literal["sgd", "momentum", "adam", "adamw", "lamb"]
Implementation = Literal["per_tensor", "foreach", "fused", "fused_per_tensor"]

STATE_BYTES = 4
"""Bytes of a weight, of a value of an optimiser's state, and of a temporary: fp32."""
STATES: dict[Kind, int] = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2, "lamb": 2}
"""Values that an optimiser keeps of each parameter: no average, one, or a first and a second one."""
CHUNK = 65_536
"""Elements of a chunk, which one block of a multi-tensor kernel works on (PyTorch, MultiTensorApply.cuh; apex)."""
CHUNKS_PER_KERNEL = 320
TENSORS_PER_KERNEL = (110, 64, 48, 36, 30)
"""Tensors that a multi-tensor kernel takes, by the number of its lists from 1 on: its arguments fit into 4 KB."""


class Pass(NamedTuple):
    """One elementary operation on a tensor: the operands that it reads, and those that it writes, a letter each.

    g: gradient; w: weight; m, v: the first and second average that the optimiser keeps; t: a temporary; a: the running
    average of the weights. An operation without operands works on single values, such as the ratio of two norms.
    """

    reads: str
    writes: str

    def nbytes(self, width: float = STATE_BYTES) -> float:
        """Bytes per element, with values of `width` bytes.

        >>> Pass("gw", "t").nbytes(), Pass("gw", "t").nbytes(width=2)
        (12, 6)
        """
        return width * len(self.reads + self.writes)

    @property
    def lists(self) -> int:
        """Lists of tensors that a multi-tensor kernel of this operation is given."""
        return max(1, len(set(self.reads + self.writes)))


_SCALARS = Pass("", "")
_AVERAGE = (Pass("a", "a"), Pass("aw", "a"))
_FUSED: dict[Kind, tuple[Pass, ...]] = {
    "sgd": (Pass("gw", "w"),),
    "momentum": (Pass("gmw", "mw"),),
    "adam": (Pass("gmvw", "mvw"),),
    "adamw": (Pass("gmvw", "mvw"),),
    # apex FusedLAMB: norm of all gradients; the step in place of the gradient; norms of weights and steps; update.
    "lamb": (Pass("g", ""), Pass("gmvw", "mvg"), Pass("w", ""), Pass("g", ""), Pass("gw", "w")),
}


class RunningAverage(Spec):
    """A running average of the weights that is kept while training: a' = (1 - s) a + s w, in two passes.

    - `tensors`: tensors that are averaged, buffers of the model included.
    - `numel`: their elements; those of tied weights count as often as the model names them.
    """

    tensors: int = Field(ge=1, le=10**6)
    numel: int = Field(ge=1, le=10**12)


class Optimiser(Spec):
    """The optimiser and its implementation, which decide what an update moves in memory and how often it is called.

    `per_tensor` is a loop over tensors with one framework call per operation (torch.optim with `foreach=False`, all of
    PyTorch before 2.0; LAMB: cybertronai/pytorch-lamb, 2019, which reads three values of the GPU per tensor). `foreach`
    does the same operations on lists of tensors (`torch._foreach_*`, the default on GPUs since PyTorch 2.0). `fused` is
    one multi-tensor kernel for all of them (`fused=True`, apex FusedAdam; FusedLAMB: five), `fused_per_tensor` one
    kernel per tensor (TensorFlow's ApplyMomentum, ApplyAdam). Their operations are read from their code.

    - `kind`: SGD, SGD with momentum, Adam, AdamW (Loshchilov and Hutter 2019) or LAMB (You et al. 2020).
    - `implementation`: how its operations are done.
    - `weight_decay`: whether weights decay; a pass of its own unless fused.
    - `nesterov`: Nesterov's momentum; a pass of its own unless fused.
    - `folds_bias`: the averages' bias is corrected in the step size, not by a pass (Hugging Face's AdamW).
    - `average`: a running average of the weights that is updated after every step.
    """

    kind: Kind = "momentum"
    implementation: Implementation = "per_tensor"
    weight_decay: bool = False
    nesterov: bool = False
    folds_bias: bool = False
    average: RunningAverage | None = None

    def refuse_unfit(self) -> None:
        if self.kind == "lamb" and self.implementation == "foreach":
            raise expected("per_tensor or fused", "foreach", "no released LAMB works on lists of tensors")
        if self.nesterov and self.kind != "momentum":
            raise expected("nesterov with kind momentum", f"kind {self.kind}")

    @property
    def states(self) -> int:
        """Values that it keeps of each parameter."""
        return STATES[self.kind]

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The operations of one step on a tensor, in order.

        >>> [item.nbytes() for item in Optimiser(kind="momentum", weight_decay=True).passes]
        [12, 8, 12, 12]
        """
        if self.implementation in ("fused", "fused_per_tensor"):
            return _FUSED[self.kind]
        return self._step_of_sgd() if self.kind in ("sgd", "momentum") else self._step_of_adam()

    def _step_of_sgd(self) -> tuple[Pass, ...]:
        step = "t" if self.weight_decay else "g"
        made = [Pass("gw", "t")] if self.weight_decay else []
        if self.kind == "momentum":
            made += [Pass("m", "m"), Pass("m" + step, "m")]
            made += [Pass(step + "m", "t")] if self.nesterov else []
            step = "t" if self.nesterov else "m"
        return (*made, Pass("w" + step, "w"))

    def _step_of_adam(self) -> tuple[Pass, ...]:
        coupled = self.weight_decay and self.kind == "adam"
        gradient = "t" if coupled else "g"
        made = [Pass("gw", "t")] if coupled else []
        made += [Pass("w", "w")] if self.weight_decay and self.kind == "adamw" else []
        # torch._foreach_lerp_ makes the first average in one pass.
        blended = [] if self.implementation == "foreach" else [Pass("m", "m")]
        made += [*blended, Pass("m" + gradient, "m"), Pass("v", "v"), Pass("v" + gradient, "v"), Pass("v", "t")]
        made += [] if self.folds_bias or self.kind == "lamb" else [Pass("t", "t")]
        made += [Pass("t", "t")]
        if self.kind != "lamb":
            return (*made, Pass("wmt", "w"))
        decayed = [Pass("tw", "t")] if self.weight_decay else []
        # Two norms; then single values: a clamp, two comparisons, the ratio, and its product with the step size.
        return (*made, Pass("mt", "t"), *decayed, Pass("w", ""), Pass("t", ""), *[_SCALARS] * 5, Pass("wt", "w"))

    def bytes_per_element(self, width: float = STATE_BYTES) -> float:
        """Bytes of GPU memory that a step moves per element, without the running average.

        >>> [Optimiser(kind="adam", implementation=way).bytes_per_element() for way in ("per_tensor", "fused")]
        [80, 28]
        """
        return sum(item.nbytes(width) for item in self.passes)

    def nbytes(self, numels: Sequence[float], width: float = STATE_BYTES) -> float:
        """Bytes of GPU memory that one step on tensors of `numels` (L,) elements moves."""
        averaged = sum(item.nbytes() for item in _AVERAGE) * self.average.numel if self.average else 0.0
        return self.bytes_per_element(width) * math.fsum(numels) + averaged

    def calls(self, numels: Sequence[float]) -> int:
        """Framework calls of one step, each of which launches one kernel.

        A kernel of several tensors counts as one call; the walk through their lists is not counted.
        """
        averaged = len(_AVERAGE) * self.average.tensors if self.average else 0
        if self.implementation in ("foreach", "fused"):
            return averaged + sum(kernels_of_lists(numels, item.lists) for item in self.passes)
        return averaged + len(self.passes) * len(numels)

    def reads(self, tensors: int) -> int:
        """Values of the GPU for which the host waits in one step.

        LAMB per tensor compares two norms with zero, and passes their ratio to a call as a number.
        """
        return 3 * tensors if self.kind == "lamb" and self.implementation == "per_tensor" else 0


UNKNOWN_OPTIMISER = (
    Optimiser(kind="sgd", implementation="fused"),
    Optimiser(kind="adamw", implementation="per_tensor", weight_decay=True),
)
"""What a workload that names no optimiser may be trained with: the least that one moves, 12 bytes per element, and
nearly the most, 88 (Adam with coupled decay: 92). Not LAMB, which is used for large batches only. Assumed: both ends
are in use."""


def kernels_of_lists(numels: Sequence[float], lists: int) -> int:
    """Kernels in which a multi-tensor operation on `lists` lists goes through tensors of `numels` (L,) elements.

    Chunks of tensors are added in order until the kernel holds 320 chunks or the tensors that its arguments have room
    for (PyTorch, aten/src/ATen/native/cuda/MultiTensorApply.cuh). ResNet-50 on a V100: three each for its `mul_` and
    `add_` (trace of facebookresearch/HolisticTraceAnalysis).
    """
    room = TENSORS_PER_KERNEL[min(lists, len(TENSORS_PER_KERNEL)) - 1]
    kernels, held, chunks = 0, 0, 0
    for numel in numels:
        full, chunks = divmod(chunks + math.ceil(numel / CHUNK), CHUNKS_PER_KERNEL)
        # A tensor that is cut goes on as the first one of the next kernel.
        kernels, held = kernels + full, bool(chunks) if full else held + 1
        if held == room:
            kernels, held, chunks = kernels + 1, 0, 0
    return kernels + bool(chunks)


NamedOptimiser = Annotated[
    Optimiser,
    BeforeValidator(
        lambda value: {"kind": value} if isinstance(value, str) else value, json_schema_input_type=Kind | Optimiser
    ),
]
"""An optimiser as it is written: its kind alone, or a mapping."""
