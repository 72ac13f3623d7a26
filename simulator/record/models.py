"""What is trained for a recording: built-in models in plain PyTorch, and those that a person names, with batches."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._pytree import tree_map

from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.record.own_model import ACCEPTED, OwnModel, load_model


class Bottleneck(nn.Module):
    """1x1, 3x3 (which carries the stride) and 1x1 convolution with batch norm, and a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.downsample = nn.Sequential()
        if inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Any) -> Any:
        """Map (batch, inputs, h, w) to (batch, 4 width, h / stride, w / stride)."""
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + self.downsample(x))


class AttentionModule(nn.Module):
    """Multi-head self-attention; `fused`: one projection for queries, keys and values, as GPT-2 has it."""

    def __init__(self, width: int, heads: int, fused: bool, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.inputs = nn.ModuleList(
            [nn.Linear(width, 3 * width)] if fused else [nn.Linear(width, width) for _ in range(3)]
        )
        self.output = nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        """Map (batch, length, width) to the same shape."""
        batch, length, width = x.shape
        projected = torch.cat([layer(x) for layer in self.inputs], -1) if len(self.inputs) > 1 else self.inputs[0](x)
        query, key, value = (
            part.view(batch, length, self.heads, -1).transpose(1, 2) for part in projected.split(width, -1)
        )
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return self.output(attended.transpose(1, 2).reshape(batch, length, width))


class BlockModule(nn.Module):
    """Attention and a GELU network four times as wide, both residual, with norms before (GPT-2) or after (BERT)."""

    def __init__(self, width: int, heads: int, before: bool) -> None:
        super().__init__()
        self.before = before
        self.norm1 = nn.LayerNorm(width)
        self.attention = AttentionModule(width, heads, fused=before, causal=before)
        self.norm2 = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        """Map (batch, length, width) to the same shape."""
        if self.before:
            x = x + self.dropout(self.attention(self.norm1(x)))
            return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))
        x = self.norm1(x + self.dropout(self.attention(x)))
        return self.norm2(x + self.dropout(self.down(F.gelu(self.up(x)))))


class BertModule(nn.Module):
    """BERT-Base with its pooler and without a head: 109,482,240 parameters."""

    def __init__(self, vocabulary: int = 30522, length: int = 512, width: int = 768, depth: int = 12) -> None:
        super().__init__()
        self.word, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.token_type, self.norm = nn.Embedding(2, width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(0.1)
        self.layers = nn.Sequential(*(BlockModule(width, width // 64, before=False) for _ in range(depth)))
        self.pooler = nn.Linear(width, width)

    def forward(self, tokens: Any) -> Any:
        """Map tokens (batch, length) to the output of the pooler for the first one, (batch, width)."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.word(tokens) + self.position(places) + self.token_type(torch.zeros_like(tokens))
        x = self.layers(self.dropout(self.norm(x)))
        return torch.tanh(self.pooler(x[:, 0]))


class Gpt(nn.Module):
    """GPT-2 small, its decoder tied to the word embedding: 124,439,808 parameters."""

    def __init__(self, vocabulary: int = 50257, length: int = 1024, width: int = 768, depth: int = 12) -> None:
        super().__init__()
        self.word, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.dropout = nn.Dropout(0.1)
        self.layers = nn.Sequential(*(BlockModule(width, width // 64, before=True) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Any) -> Any:
        """Map tokens (batch, length) to logits (batch, vocabulary, length)."""
        x = self.dropout(self.word(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device)))
        return F.linear(self.norm(self.layers(x)), self.word.weight).transpose(1, 2)


def mlp() -> Any:
    """784-256-256-10: 269,322 parameters."""
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


def cnn() -> Any:
    """Three 3x3 convolutions with batch norm and a linear layer, for 32x32 images in 10 classes: 94,986 parameters."""
    parts: list[Any] = []
    for inputs, outputs in ((3, 32), (32, 64), (64, 128)):
        parts += [nn.Conv2d(inputs, outputs, 3, 2, 1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def resnet50() -> Any:
    """ResNet-50 for 224x224 images in 1000 classes, stride in the 3x3 convolutions: 25,557,032 parameters."""
    parts: dict[str, Any] = {"conv1": nn.Conv2d(3, 64, 7, 2, 3, bias=False), "bn1": nn.BatchNorm2d(64)}
    parts |= {"relu": nn.ReLU(), "maxpool": nn.MaxPool2d(3, 2, 1)}
    inputs = 64
    for stage, (width, blocks, stride) in enumerate(((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)), 1):
        first = Bottleneck(inputs, width, stride)
        inputs = 4 * width
        parts[f"layer{stage}"] = nn.Sequential(first, *(Bottleneck(inputs, width, 1) for _ in range(blocks - 1)))
    parts |= {"avgpool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten(), "fc": nn.Linear(inputs, 1000)}
    return nn.Sequential(OrderedDict(parts))


def vgg16() -> Any:
    """VGG-16 without batch norm, for 224x224 images in 1000 classes: 138,357,544 parameters."""
    parts: list[Any] = []
    inputs = 3
    for outputs in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
        if outputs:
            parts += [nn.Conv2d(inputs, outputs, 3, 1, 1), nn.ReLU()]
            inputs = outputs
        else:
            parts.append(nn.MaxPool2d(2))
    hidden = [nn.Linear(25088, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout()]
    classifier = nn.Sequential(*hidden, nn.Linear(4096, 1000))
    named = {"features": nn.Sequential(*parts), "flatten": nn.Flatten(), "classifier": classifier}
    return nn.Sequential(OrderedDict(named))


def classified(model: Any, batch: Any) -> Any:
    """Mean cross-entropy of labelled inputs."""
    inputs, labels = batch
    return F.cross_entropy(model(inputs), labels)


def next_token(model: Any, tokens: Any) -> Any:
    """Mean cross-entropy of every token but the first, given those before it."""
    return F.cross_entropy(model(tokens)[:, :, :-1], tokens[:, 1:])


def tensors_in(value: Any) -> Iterator[Any]:
    """Every tensor in nested lists, tuples, mappings and objects with fields."""
    if isinstance(value, torch.Tensor):
        yield value
        return
    if isinstance(value, Mapping):
        value = list(value.values())
    elif hasattr(value, "__dataclass_fields__"):
        value = list(vars(value).values())
    for item in value if isinstance(value, list | tuple) else ():
        yield from tensors_in(item)


def move_batch(batch: Any, device: str) -> Any:
    """The batch with all of its tensors on the device."""
    return tree_map(lambda item: item.to(device) if hasattr(item, "to") else item, batch)


def batch_size_of(batch: Any) -> int:
    """The first dimension of the first tensor in a batch. Raises InputError where there is no tensor."""
    for item in tensors_in(batch):
        if item.ndim:
            return int(item.shape[0])
    raise InputError(Problem("the batch", "at least one tensor, samples first", format_value(type(batch).__name__)))


DEFAULT_BATCH = 8
"""Samples in a batch, where neither the model nor a person says how many."""
_SHAPE = re.compile(r"(?:(tokens):)?(\d{1,7}(?:x\d{1,7}){0,4})")
_MOST = 10**9
"""Most elements of one sample."""


def random_batches(model: Any, shape: str, batch_size: int, seed: int, classes: int) -> Iterator[Any]:
    """Endless batches (batch_size, *shape) from the seed: standard normal numbers, or token ids for `tokens:128`.

    Token ids are below the number of rows of the model's first embedding. With `classes` there are labels below them.
    Raises InputError for anything that is not a shape, and for tokens where the model has no embedding.
    """
    tokens, sizes = sample_shape(shape)
    embeddings = [item for item in model.modules() if isinstance(item, torch.nn.Embedding)]
    if tokens and not embeddings:
        hint = "give the shape of its numbers, such as --input 3x224x224"
        raise InputError(Problem("--input", "a model with an embedding, for tokens", "none", hint))
    random = torch.Generator().manual_seed(seed)
    while True:
        if tokens:
            inputs = torch.randint(embeddings[0].num_embeddings, (batch_size, *sizes), generator=random)
        else:
            inputs = torch.randn(batch_size, *sizes, generator=random)
        yield (inputs, torch.randint(classes, (batch_size,), generator=random)) if classes else inputs


def sample_shape(shape: str) -> tuple[bool, tuple[int, ...]]:
    """Whether a sample consists of tokens, and its shape. Raises InputError for anything that is not a shape."""
    match = _SHAPE.fullmatch(shape.replace(" ", ""))
    sizes = tuple(int(size) for size in match[2].split("x")) if match else ()
    if match is None or not 0 < torch.Size(sizes).numel() <= _MOST:
        raise InputError(
            Problem("--input", "the shape of one sample, such as 3x224x224 or tokens:128", format_value(shape))
        )
    return bool(match[1]), sizes


def mean_square(model: Any, batch: Any) -> Any:
    """The sum of the mean squares of all outputs: a loss that needs no labels.

    Raises InputError where the model refuses the batch, or returns no number that has a gradient.
    """
    try:
        output = model(batch)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        shape = "x".join(map(str, getattr(batch, "shape", ())))
        got = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        hint = "give the shape of one sample as --input, or a function that returns (model, inputs, loss function)"
        raise InputError(Problem("the model", f"to accept a batch of {shape or 'these inputs'}", got, hint)) from None
    losses = [item.float().square().mean() for item in tensors_in(output) if item.requires_grad]
    if not losses:
        raise InputError(Problem("the model", "outputs with gradients", type(output).__name__))
    return torch.stack(losses).sum()


MODELS: dict[str, tuple[Callable[[], Any], int, str, int, Callable[[Any, Any], Any]]] = {
    "mlp": (mlp, 64, "784", 10, classified),
    "cnn": (cnn, 32, "3x32x32", 10, classified),
    "resnet50": (resnet50, 32, "3x224x224", 1000, classified),
    "vgg16": (vgg16, 32, "3x224x224", 1000, classified),
    "bert-base": (BertModule, 16, "tokens:128", 0, mean_square),
    "gpt2": (Gpt, 4, "tokens:512", 0, next_token),
}
"""By name: the model, its default batch size, the shape of a sample, classes of its labels, and its loss."""


def task_of(name: str, device: str, batch_size: int | None = None, seed: int = 0, shape: str = "") -> OwnModel:
    """The built-in model called `name`, or the one that `load_model` finds, on the device; endless inputs, and a loss.

    A model that comes without inputs gets random ones of `shape` (`3x224x224`, `tokens:128`), and one without a loss
    the mean square of its output. Inputs that come with it are a batch (a tensor, or tuples, lists and mappings of
    tensors), or an iterator of batches; the loss function is called as loss(model, batch) and returns one number.

    Raises InputError for an unknown name, a missing function, and where there are no inputs or two.
    """
    torch.manual_seed(seed)
    size, classes = DEFAULT_BATCH, 0
    if name in MODELS:
        if shape:
            raise InputError(Problem("--input", "a model without inputs of its own", name, "leave out --input"))
        build, size, drawn, classes, loss = MODELS[name]
        own = OwnModel(name, build(), loss=loss, input=drawn)
    elif ":" not in name:
        hint = suggest_nearest(name, MODELS)
        raise InputError(Problem("MODEL", f"a built-in model, {ACCEPTED}", format_value(name), hint))
    else:
        own = load_model(name)
        option = "--batch-size" if batch_size is not None else "--input" if shape else ""
        if own.inputs is not None and option:
            hint = "the function itself makes the batches"
            raise InputError(Problem(option, "a model without inputs of its own", name, hint))
    batches = own.inputs if isinstance(own.inputs, Iterator) else repeat(own.inputs)
    if own.inputs is None:
        shape = shape or own.input
        if not shape:
            hint = "give the shape of one sample, such as --input 3x224x224 or --input tokens:128"
            raise InputError(Problem(name, "inputs for the model", "none", hint))
        batches = random_batches(own.model, shape, batch_size or size, seed, classes)
    placed = (move_batch(batch, device) for batch in batches)
    return own._replace(model=own.model.to(device), inputs=placed, loss=own.loss or mean_square)


def trainable_parameters(model: Any) -> Mapping[str, Any]:
    """Parameters that need a gradient, by name without prefixes of wrappers. Raises InputError where there are none."""
    found = {
        wrapped.removeprefix("module.").removeprefix("_orig_mod."): parameter
        for wrapped, parameter in model.named_parameters()
        if parameter.requires_grad and parameter.numel()
    }
    if not found:
        raise InputError(Problem("the model", "parameters that need a gradient", "none"))
    return found
