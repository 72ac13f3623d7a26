"""The workload: the model that is trained, as a list of parameter tensors with their sizes and times."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from functools import cache, cached_property, lru_cache
from itertools import chain
from typing import Annotated, Any, Literal, Self

import msgspec
import numpy as np
from msgspec.structs import fields
from pydantic import BeforeValidator, Field, GetCoreSchemaHandler, PrivateAttr, create_model
from pydantic_core import core_schema

from simulator.component import Spec, expected
from simulator.models.curves import Floats
from simulator.models.exchange import Rows
from simulator.models.operators import ElementWise
from simulator.models.optimisers import UNKNOWN_OPTIMISER, NamedOptimiser, Optimiser
from simulator.models.precision import FP32, NumberFormat, PrecisionField
from simulator.records import Record, asdict, replace
from simulator.units import PositiveBytes, Ratio, Seconds


def queue_passes(
    gpu_times: Sequence[float], host_times: Sequence[float], host_ahead: bool, passes: int = 1
) -> tuple[list[float], list[float]]:
    """Seconds that layers take in the first and in each later pass when the GPU waits for the host.

    `gpu_times`, `host_times`: of the layers in the order in which the host launches them: forward and then backward,
    pass after pass. The GPU begins a layer when the one before it is done and the host has come to it, and ends it no
    sooner than the host: e_i = max(max(e_(i-1), h_(i-1)) + g_i, h_i) with e_0 = h_0 = 0, where h_i is the sum of the
    host times up to layer i and g_i the GPU's time. That is e_i = G_i + max over j <= i of (h_j - G_j), where G_i sums
    g: the GPU falls behind by what it once had to wait.

    All passes after the first one are alike: where the host needs no longer than the GPU, h_j - G_j has its maximum in
    the first pass, and the GPU never waits again; where it needs longer, the maximum of each pass is that of the one
    before it, later by as much as the host is slower.

    With `host_ahead` and iterations without end, the slower of the two sets the pace: a GPU that needs longer never
    waits, and a host that needs longer stretches all `passes` of an iteration to its own time.
    """
    gpu, host = (np.cumsum([0.0, *chain(*[times] * min(passes, 2))]) for times in (gpu_times, host_times))
    ends = gpu + np.maximum.accumulate(host - gpu)
    once = len(gpu_times)
    if host_ahead:
        later = (passes - 1) * (ends[-1] - ends[once])
        whole = passes * host[once] if passes > 1 else host[-1]
        ends = gpu if gpu[once] >= host[once] else ends * (whole / (ends[once] + later))
    lasts = np.diff(ends).tolist()
    return lasts[:once], lasts[once:] if passes > 1 else lasts


MAX_BATCH = 10**9
MAX_MICRO_BATCHES = 4096


Since = Literal["auto"] | Annotated[int, Field(ge=0, lt=2**31)]
"""The recorded iteration from which on a replay is priced: stated, or found from the replay."""


class Layer(Record, gc=False):
    """One parameter tensor: its size, and the seconds of forward and backward until its gradient is ready.

    - `name`: of the tensor.
    - `numel`: elements.
    - `forward`: seconds of its share of the forward pass.
    - `backward`: seconds from the gradient that was ready before it to its own.
    - `forward_host`: host seconds that launch its share of the forward pass; 0: the GPU never waits for them.
    - `backward_host`: host seconds that launch what its gradient needs after the one before it.
    - `rows`: of an embedding, what its gradient consists of; none: the gradient is dense. `dense` sends rows with
      `indexed_slices: true`.
    - `by_product`: whether a product of matrices makes its gradient, which can then add it to earlier ones.
    - `frozen`: elements of the weights that are not trained and are gathered with it where parameters are sharded.
    - `shape`: its dimensions as PyTorch orders them, outputs first, by which matrices are told from vectors; none: not
      known.
    """

    name: str
    numel: Annotated[int, Field(ge=1, le=10**12)]
    forward: Seconds = 0.0
    backward: Seconds = 0.0
    forward_host: Seconds = 0.0
    backward_host: Seconds = 0.0
    rows: Rows | None = None
    by_product: bool = False
    frozen: Annotated[int, Field(ge=0, le=10**12)] = 0
    shape: tuple[Annotated[int, Field(ge=1, le=10**12)], ...] = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """What a person writes is read, and layers are written, by a spec with the same fields."""
        spec = _layer_spec()
        any_layer = spec.model_construct(**asdict(cls("", 1)))

        def read(value: Any, validate: Callable[[Any], Any]) -> Layer:
            if isinstance(value, cls):
                return value
            layer = cls(**validate(value).__dict__)
            if layer.rows is not None and layer.numel % layer.rows.width:
                hint = f"an embedding of {layer.numel} elements has whole rows"
                raise expected(f"a width that divides {layer.numel}", layer.rows.width, hint)
            if layer.shape and math.prod(layer.shape) != layer.numel:
                raise expected(f"a shape of {layer.numel} elements", list(layer.shape))
            return layer

        def write(layer: Layer, serialize: Callable[[Any], Any]) -> Any:
            return serialize(any_layer.model_copy(update=asdict(layer)))

        form = handler.generate_schema(spec)
        writing = core_schema.wrap_serializer_function_ser_schema(write, schema=form)
        return core_schema.no_info_wrap_validator_function(read, form, serialization=writing)


@cache
def _layer_spec() -> type[Spec]:
    wanted = {item.name: (item.type, ... if item.required else item.default) for item in fields(Layer)}
    return create_model(Layer.__name__, __base__=Spec, __doc__=Layer.__doc__, **wanted)  # type: ignore[call-overload,no-any-return]


class Estimated(Spec):
    """That the times of layers were not measured but estimated from their arithmetic and bytes.

    - `width`: factor by which forward and backward may be off, in nine of ten cases.
    - `reason`: where that width comes from.
    - `element_wise`: how element-wise work was taken to run.
    """

    width: float = Field(ge=1, le=100)
    reason: str
    element_wise: ElementWise = "one_kernel"


class Workload(Spec):
    """A model at a batch size: tensors in forward order, with the times of one iteration on one GPU.

    `compute_time`: the measured iteration of one GPU (forward, backward, update), if it is known; the times of the
    layers are then only proportions. `input_time`: seconds for which an iteration waits for its data. `gradients`: the
    folder of a recorded gradient trace of this model, if there is one; methods are then replayed on it. `settled`: the
    recorded iteration from which on the replay is priced; `auto`: that from which on the method has settled.

    `optimiser`: how its weights are updated: a kind, such as `adamw`, or a mapping. On one GPU by itself the host calls
    it while the backward pass runs, but only after the exchange where there is one (seconds per call: the runtime's
    `update_launch`). `compute_slowdown`: how much slower this model's kernels run while a collective is running, where
    it was measured for this model; none: the runtime's.

    The times are those of the precision that they were measured in, `measured_precision`; `precision` is that of the
    training.

    Where layers have host times, `forward` and `backward` are what the GPU needs while it has work (`queued`).
    `host_ahead`: whether the host may begin an iteration while the GPU still works on the one before it; otherwise both
    begin together, since something in every iteration waits for the GPU. `update_time`: the measured seconds from the
    last gradient to the end of the iteration; none: those of `optimiser`.

    - `name`: of the model.
    - `batch_size`: samples per worker and iteration.
    - `micro_batches`: forward and backward passes of an iteration, each over an equal part of the batch. Gradients are
      added up on the GPU, and exchanged after the last pass only (gradient accumulation: `no_sync` of PyTorch DDP,
      `backward_passes_per_step` of Horovod). All times are those of the whole batch in one pass, from which those of
      the passes follow.
    - `compute_width`: factor by which forward and backward may be off on the machines of the scenario, in nine of ten
      cases; none: judged by where they were measured (`simulator.hardware.widths`).
    - `estimated`: that the times of the layers are estimates; none: they were measured.
    - `device`: GPU on which the times were measured, or for which they were estimated.
    - `source`: of sizes and times.
    - `activation_bytes`: bytes that one sample keeps in the GPU's memory from its forward to its backward pass; none:
      not known.
    - `frozen_bytes`: bytes of weights that are not trained, beside the layers: they take memory, but have no gradients
      and no update; none: those of the `frozen` elements of layers, in the format of the gradients.
    - `layers`: parameter tensors in forward order, or the CSV file that holds them.
    """

    name: str = "unnamed"
    batch_size: int = Field(ge=1, le=MAX_BATCH)
    micro_batches: int = Field(default=1, ge=1, le=MAX_MICRO_BATCHES)
    device: str = ""
    source: str = ""
    compute_time: Seconds | None = None
    input_time: Seconds = 0.0
    optimiser: NamedOptimiser = Optimiser()
    host_ahead: bool = False
    update_time: Seconds | None = None
    compute_slowdown: Ratio | None = None
    compute_width: float | None = Field(default=None, ge=1, le=100)
    estimated: Estimated | None = None
    gradients: str = ""
    settled: Since = "auto"
    activation_bytes: PositiveBytes | None = None
    frozen_bytes: PositiveBytes | None = None
    precision: PrecisionField = FP32
    measured_precision: NumberFormat = "fp32"
    layers: Annotated[
        tuple[Layer, ...],
        Field(min_length=1),
        # In a file: the name of a CSV file with the same columns, which is read before this spec is validated.
        BeforeValidator(lambda value: value, json_schema_input_type=str | tuple[Layer, ...]),
    ]

    _origin: Any = PrivateAttr(default=None)

    @property
    def origin(self) -> Any:
        """What a described model was made from (`simulator.architectures.describing`); None: nothing, it was stated."""
        return self._origin

    def made_from(self, origin: Any) -> Self:
        """A copy that knows what it was made from."""
        copy = self.model_copy()
        copy._origin = origin
        return copy

    def refuse_unfit(self) -> None:
        """Raise an expected-error where the batch cannot be cut into so many equal parts."""
        batch, count = self.batch_size, self.micro_batches
        if batch % count:
            near = sorted(range(1, min(batch, MAX_MICRO_BATCHES) + 1), key=lambda n: (batch % n > 0, abs(n - count)))[0]
            hint = f"the nearest number that does is {near}"
            raise expected(f"a number of micro-batches that divides the batch of {batch}", str(count), hint)

    @cached_property
    def not_trained(self) -> float:
        """Bytes of weights that are not trained."""
        if self.frozen_bytes is not None:
            return self.frozen_bytes
        return float(self.precision.gradient_bytes * sum(layer.frozen for layer in self.layers))

    @cached_property
    def bytes_of_frozen(self) -> float:
        """Bytes of each of the `frozen` elements of layers, with which they are gathered or divided; 0 without any.

        Raises an expected-error where it is not known to which layers they belong.
        """
        count = sum(layer.frozen for layer in self.layers)
        if self.not_trained and not count:
            what = "`frozen` elements for the layers, with which those that are not trained are gathered or divided"
            raise expected(what, "`frozen_bytes` alone", "`bucketed`, zero1 and zero2 keep them whole on every GPU")
        return self.not_trained / count if count else 0.0

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all fields; layers are not written as for people, which takes ten times as long."""
        return hashlib.sha256(self.model_dump_json(exclude={"layers"}).encode() + _encode(self.layers)).hexdigest()

    @property
    def pass_size(self) -> int:
        """Samples of one forward and backward pass."""
        return self.batch_size // self.micro_batches

    @property
    def optimisers(self) -> tuple[Optimiser, ...]:
        """The optimiser where it is stated; else the cheapest and the dearest that it may be (`UNKNOWN_OPTIMISER`)."""
        return (self.optimiser,) if "optimiser" in self.model_fields_set else UNKNOWN_OPTIMISER

    @cached_property
    def numels(self) -> Floats:
        """Elements per tensor in forward order, (L,)."""
        return np.array([layer.numel for layer in self.layers], dtype=float)

    @cached_property
    def numel(self) -> int:
        """Elements of the whole gradient, d."""
        return sum(layer.numel for layer in self.layers)

    @cached_property
    def begins_module(self) -> tuple[bool, ...]:
        """Whether each layer, in forward order, is the first tensor of its module: names up to the last dot differ."""
        modules = [layer.name.rpartition(".")[0] or layer.name for layer in self.layers]
        return tuple(i == 0 or module != modules[i - 1] for i, module in enumerate(modules))

    @cached_property
    def forward_time(self) -> float:
        """Seconds of one forward pass."""
        return math.fsum(layer.forward for layer in self.layers)

    @cached_property
    def backward_time(self) -> float:
        """Seconds of one backward pass."""
        return math.fsum(layer.backward for layer in self.layers)

    @cached_property
    def has_host_times(self) -> bool:
        """Whether the GPU may have to wait until the host has launched a layer."""
        return any(layer.forward_host or layer.backward_host for layer in self.layers)

    def rescaled(self, batch_size: int) -> Self:
        """This model at another batch size: what the GPU does and its wait for data in proportion.

        The host's launches and the update take as long as before.
        """
        more = batch_size / self.batch_size
        changes = {"batch_size": batch_size, "input_time": self.input_time * more}
        return self.scaled(more, 1.0, more).model_copy(update=changes)

    @property
    def has_times(self) -> bool:
        """Whether the layers have times of their own."""
        return any(layer.forward or layer.backward for layer in self.layers)

    def stretched(self, update_time: float) -> Self:
        """The workload whose forward, backward and update sum to `compute_time`, if that is known.

        Layers without times get shares in proportion to their elements, a third of it forward: of a matrix product,
        the backward pass has twice the operations (Kaplan et al. 2020, 2001.08361, section 2.1). Raises an
        expected-error if the update alone takes longer.
        """
        if self.compute_time is None:
            return self
        queued = self.queued()
        total = queued.forward_time + queued.backward_time
        if self.compute_time <= update_time:
            hint = "compute_time is the whole iteration of one GPU: forward, backward and update"
            raise expected(f"a compute_time above the update's {update_time:.3g} s", f"{self.compute_time:.3g} s", hint)
        if total <= 0:
            each = (self.compute_time - update_time) / (3 * sum(layer.numel for layer in self.layers))
            sized = ((layer, each * layer.numel, 2 * each * layer.numel) for layer in self.layers)
            timed = [replace(layer, forward=forward, backward=backward) for layer, forward, backward in sized]
            return self.model_copy(update={"layers": tuple(timed)})
        factor = (self.compute_time - update_time) / total
        return self.scaled(factor, factor)

    def queued(self) -> Self:
        """The workload with the times that its layers take when the GPU waits for the host's launches; itself without.

        These are the times of the whole batch in one pass; `queue_passes` has the formula. A layer does not wait for
        its own last launch, since it has many kernels. The queue has no limit.

        With `host_ahead` and iterations without end, the slower of the two sets the pace: a host that needs less than
        the GPU gets so far ahead that the GPU never waits, and one that needs more is never waited for, so that the
        layers take as long as it does.
        """
        return self._queued(1)[0]

    def _queued(self, passes: int) -> tuple[Self, Self]:
        """The first and each later pass, with their times in the queue and no host times; themselves without."""
        if not self.has_host_times:
            return self, self
        layers, back = self.layers, self.layers[::-1]
        gpu_times = [*(layer.forward for layer in layers), *(layer.backward for layer in back)]
        host_times = [*(layer.forward_host for layer in layers), *(layer.backward_host for layer in back)]
        every = queue_passes(gpu_times, host_times, self.host_ahead, passes)
        made = []
        for times in every[: min(passes, 2)]:
            each = zip(layers, times[: len(layers)], reversed(times[len(layers) :]), strict=True)
            queued = (
                replace(layer, forward=f, backward=b, forward_host=0.0, backward_host=0.0) for layer, f, b in each
            )
            made.append(self.model_copy(update={"layers": tuple(queued)}))
        return made[0], made[-1]

    def passes(self) -> tuple[Self, Self]:
        """The first forward and backward pass of an iteration, and each later one, as the GPU runs them (`queued`).

        The times of the layers are those of the whole batch. Each of the `micro_batches` passes takes that share of the
        GPU's time; the host launches as many kernels in every pass as for the whole batch.
        """
        one = self if self.micro_batches == 1 else self.scaled(1 / self.micro_batches, 1.0)
        return one._queued(self.micro_batches)

    def scaled(self, factor: float, host_factor: float, rows_factor: float = 1.0) -> Self:
        """This model whose layers take `factor` times as long on the GPU, and so many times as long on the host."""

        def times(layer: Layer) -> Layer:
            changed: dict[str, float | Rows] = {
                "forward": layer.forward * factor,
                "backward": layer.backward * factor,
                "forward_host": layer.forward_host * host_factor,
                "backward_host": layer.backward_host * host_factor,
            }
            if layer.rows is not None and rows_factor != 1:
                changed["rows"] = layer.rows.model_copy(update={"count": layer.rows.count * rows_factor})
            return replace(layer, **changed)

        return self.model_copy(update={"layers": tuple(map(times, self.layers))})


_encode = msgspec.json.Encoder(enc_hook=Rows.model_dump).encode


@lru_cache(maxsize=4096)
def block_of(name: str) -> str | None:
    """The name up to and with its first number between dots; None without one.

    >>> block_of("model.layers.3.mlp.up_proj.weight"), block_of("lm_head.weight")
    ('model.layers.3', None)
    """
    parts = name.split(".")
    number = next((place for place, part in enumerate(parts) if part.isdigit()), None)
    return None if number is None else ".".join(parts[: number + 1])
