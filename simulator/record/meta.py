"""A PyTorch model on the meta device: shapes, operators and kept activations of both passes, without memory or data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from simulator.architectures.describing import of_architecture
from simulator.architectures.listed import Listed, ListedOperator, ListedTensor
from simulator.errors import InputError, Problem
from simulator.models.layers import Layer, Workload
from simulator.models.limits import MAX_LAYERS
from simulator.record.models import (
    DEFAULT_BATCH,
    batch_size_of,
    mean_square,
    move_batch,
    sample_shape,
    tensors_in,
    trainable_parameters,
)
from simulator.record.own_model import OwnModel, load_model
from simulator.record.timing import mark_hooks


class _Fused(torch.autograd.Function):
    """The shapes of attention, with one operator a pass: 2 products forward and 5 backward (Dao 2023, 2307.08691)."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Any:
        query, key, value, causal, note = given
        out = query.new_empty((*query.shape[:-1], value.shape[-1]))
        ctx.save_for_backward(query, key, value, out)
        ctx.causal, ctx.note = causal, note
        note(_operator(2, (query, key, value, out), causal))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        query, key, value, out = ctx.saved_tensors
        ctx.note(_operator(5, (query, key, value, out, query, key, value, out), ctx.causal))
        return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape), None, None


def _operator(products: int, moved: tuple[Any, ...], causal: bool) -> ListedOperator:
    """Products of one pass; a causal query meets half of the keys, (s + 1) / 2 on average."""
    query, key = moved[:2]
    batch = query.numel() // (query.shape[-1] * query.shape[-2])
    keys = (key.shape[-2] + 1) / 2 if causal else key.shape[-2]
    nbytes = sum(item.numel() * item.element_size() for item in moved)
    sizes = (float(products * batch), float(query.shape[-2]), float(keys), float(query.shape[-1]))
    return ("attention", *sizes, float(nbytes))


class FusedAttention(TorchFunctionMode):
    """Runs `scaled_dot_product_attention` as one kernel a pass; `note` is told of each."""

    def __init__(self, note: Callable[[ListedOperator], None]) -> None:
        super().__init__()
        self.note = note

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is not F.scaled_dot_product_attention:
            return func(*args, **kwargs)
        named = dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args, strict=False)) | kwargs
        return _Fused.apply(named["query"], named["key"], named["value"], bool(named.get("is_causal")), self.note)


_ROW_WISE = ("softmax", "norm", "sum", "mean", "var")
_META = "meta"


def describe_model(name: str, shape: str | None = None, batch_size: int | None = None) -> Workload:
    """The described workload of the model that a name stands for (`load_model`), from one step on the meta device.

    `shape`: of one sample, as for `sparsim record layers --input`. Raises InputError where the model needs values,
    which the meta device has not, or refuses the shape.
    """
    with torch.device(_META):
        own = load_model(name)
    model = own.model.to(_META).train()
    batch = _batch(own, model, shape, batch_size)
    samples = batch_size_of(batch)
    parameters = trainable_parameters(model)
    if len(parameters) > MAX_LAYERS:
        raise InputError(Problem(name, f"at most {MAX_LAYERS} parameter tensors", str(len(parameters))))
    listed = _trace(own, model, batch, parameters, samples)
    nothing = (Layer(name="none", numel=1),)
    title = name.rpartition(":")[2]
    source = f"{name} on PyTorch's meta device, PyTorch {torch.__version__}"
    return of_architecture(listed, Workload(name=title, batch_size=samples, source=source, layers=nothing))


def _batch(own: OwnModel, model: Any, shape: str | None, batch_size: int | None) -> Any:
    if own.inputs is not None and shape is None:
        if batch_size is not None:
            raise InputError(Problem("--batch", "none, since the function makes the batches", str(batch_size)))
        return move_batch(next(own.inputs) if isinstance(own.inputs, Iterator) else own.inputs, _META)
    asked = shape or own.input
    if not asked:
        hint = "such as --input 3x224x224 or --input tokens:128"
        raise InputError(Problem("--input", "the shape of one sample", "nothing", hint))
    tokens, sizes = sample_shape(asked)
    kind = torch.long if tokens else torch.float32
    return torch.zeros((batch_size or DEFAULT_BATCH, *sizes), dtype=kind, device=_META)


class _Tracer(TorchDispatchMode):
    """Adds the operators of a step to `rows`."""

    def __init__(self, rows: list[ListedOperator]) -> None:
        super().__init__()
        self.rows = rows

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not _is_view(func):
            self.rows += _rows_of(func, args, out)
        return out


def _is_view(func: Any) -> bool:
    """Whether an operator only looks at its input, or makes memory without writing it."""
    name = func.overloadpacket.__name__
    returns = func._schema.returns
    aliases = any(item.alias_info is not None and not item.alias_info.is_write for item in returns)
    return aliases or not returns or name.startswith(("empty", "detach", "lift", "_unsafe_view", "new_empty", "alias"))


def _rows_of(func: Any, args: Any, out: Any) -> list[ListedOperator]:
    name = func.overloadpacket.__name__
    nbytes = float(sum(item.numel() * item.element_size() for item in tensors_in((args, out))))
    if name in ("mm", "bmm", "addmm", "baddbmm"):
        one, other = [item for item in args if isinstance(item, torch.Tensor)][-2:]
        batch = one.shape[0] if one.ndim == 3 else 1
        return [("product", float(batch), float(one.shape[-2]), float(other.shape[-1]), float(one.shape[-1]), nbytes)]
    if name == "convolution":
        return [_convolution(out.shape, args[1].shape, args[8], args[3], nbytes)]
    if name == "convolution_backward":
        grad, weight = args[0], args[2]
        asked = args[10]
        kind, batch, m, n, k, moved = _convolution(
            grad.shape, weight.shape, args[9], args[4], nbytes / max(1, sum(asked[:2]))
        )
        rows: list[ListedOperator] = [(kind, batch, m, k, n, moved), (kind, batch, k, n, m, moved)]
        return [row for row, wanted in zip(rows, asked, strict=False) if wanted]
    row_wise = any(word in name for word in _ROW_WISE)
    return [("rows" if row_wise else "streaming", 0.0, 0.0, 0.0, 0.0, nbytes)]


def _convolution(out: Any, weight: Any, groups: int, stride: Any, nbytes: float) -> ListedOperator:
    """A convolution as a product per group: places of the output, its channels, and channels x area of the kernel."""
    places, channels = out[0] * math.prod(out[2:]), out[1]
    depth = weight[1] * math.prod(weight[2:])
    plain = tuple(weight[2:]) == (3, 3) and set(stride) == {1} and groups == 1
    kind: Any = "winograd" if plain else "convolution"
    return (kind, float(groups), float(places), float(channels // groups), float(depth), nbytes)


def _trace(own: OwnModel, model: Any, batch: Any, parameters: Mapping[str, Any], samples: int) -> Listed:
    """One step: operators of the forward pass by module, of the backward pass by the gradients as they come."""
    rows: list[ListedOperator] = []
    kept: dict[int, float] = {}
    alive: list[Any] = []
    own_storages = {value.untyped_storage()._cdata for value in parameters.values()}

    def pack(tensor: Any) -> Any:
        place = tensor.untyped_storage()._cdata
        if place not in own_storages:
            kept[place] = float(tensor.untyped_storage().nbytes())
        alive.append(tensor)
        return tensor

    saved = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    try:
        with (
            mark_hooks(model, parameters, lambda: len(rows)) as marks,
            saved,
            FusedAttention(rows.append),
            _Tracer(rows),
        ):
            value = (own.loss or mean_square)(model, batch)
            between = len(rows)
            value.backward()
    except Exception as error:
        if isinstance(error, InputError) and _META not in str(error):
            raise
        text = error.problems[0].got if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        hint = "it has no values: a model must not read them, such as by .item() or `if tensor`"
        what = "a model that runs on PyTorch's meta device"
        raise InputError(Problem(own.name, what, text.partition("\n")[0], hint)) from None
    begun = dict[str, int]()
    names, modules = {id(value): key for key, value in parameters.items()}, dict(model.named_modules())
    for (path, _), place in marks.forward:
        for value in modules[path].parameters(recurse=False):
            if id(value) in names:
                begun.setdefault(names[id(value)], place)
    # What comes before the first module is the first one's.
    forward = zip(begun, pairwise([0, *list(begun.values())[1:], between]), strict=False)
    ready = [between if begun else 0, *(place for _, place in marks.backward)]
    backward = zip((key for key, _ in marks.backward), pairwise(ready), strict=True)
    operators = [{key: tuple(rows[start:end]) for key, (start, end) in each} for each in (forward, backward)]
    tensors = tuple(
        ListedTensor(
            name=key,
            numel=parameters[key].numel(),
            shape=tuple(parameters[key].shape),
            forward=operators[0].get(key, ()),
            backward=operators[1].get(key, ()),
        )
        for key in dict.fromkeys([*begun, *parameters])
    )
    return Listed(samples=samples, kept=sum(kept.values()), tensors=tensors)
