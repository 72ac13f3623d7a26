"""Convolutional networks written as a list of layers; AlexNet and VGG as such lists."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from simulator.architectures.base import MOST, MOST_LAYERS, Architecture
from simulator.architectures.building import Builder
from simulator.architectures.images import Images
from simulator.component import Spec, expected

_SIDE = 100_000


def _image(value: Any) -> Any:
    if isinstance(value, str):
        match = re.fullmatch(r"(\d{1,6})x(\d{1,6})x(\d{1,6})", value)
        if match is None or min(int(part) for part in match.groups()) < 1:
            raise expected("channels x height x width, such as 3x224x224", value)
        return tuple(int(part) for part in match.groups())
    return value


_Side = Annotated[int, Field(ge=1, le=_SIDE)]
Image = Annotated[
    tuple[_Side, _Side, _Side], BeforeValidator(_image, json_schema_input_type=str | tuple[int, int, int])
]
"""Channels, height and width; as text, `3x224x224`."""


class ConvolutionalStep(Spec):
    """One layer of the list: exactly one of `convolution`, `pool`, `average` and `linear`.

    - `convolution`: output channels; with `kernel`, `stride`, `padding`, `groups`.
    - `pool`: side of a maximum pooling, with `stride` (none: its side) and `padding`.
    - `average`: side of the image after adaptive average pooling.
    - `linear`: outputs of a linear layer.
    - `kernel`: side of a convolution's kernel.
    - `stride`: places between two outputs.
    - `padding`: places added on each side.
    - `groups`: groups of a convolution.
    - `bias`: whether it has one.
    - `norm`: whether a batch norm follows.
    - `relu`: whether a ReLU follows.
    - `dropout`: whether dropout follows.
    """

    convolution: int | None = Field(default=None, ge=1, le=MOST)
    pool: int | None = Field(default=None, ge=1, le=_SIDE)
    average: int | None = Field(default=None, ge=1, le=_SIDE)
    linear: int | None = Field(default=None, ge=1, le=MOST)
    kernel: int = Field(default=3, ge=1, le=_SIDE)
    stride: int | None = Field(default=None, ge=1, le=_SIDE)
    padding: int = Field(default=0, ge=0, le=_SIDE)
    groups: int = Field(default=1, ge=1, le=MOST)
    bias: bool = True
    norm: bool = False
    relu: bool = True
    dropout: bool = False

    def add(self, images: Images, place: int) -> None:
        """Add the layer; raises an expected-error unless it is exactly one."""
        kinds = [name for name in ("convolution", "pool", "average", "linear") if getattr(self, name) is not None]
        if len(kinds) != 1:
            raise expected("one of convolution, pool, average and linear", ", ".join(kinds) or "none", f"layer {place}")
        name, stride = f"layers.{place}", self.stride
        if self.pool is not None:
            images.pool(self.pool, stride or self.pool, self.padding)
            return
        if self.average is not None:
            images.average(self.average)
            return
        if self.convolution is not None:
            first = not images.builder.tensors
            images.convolution(
                name,
                self.convolution,
                self.kernel,
                stride=stride or 1,
                padding=self.padding,
                groups=self.groups,
                bias=self.bias,
                first=first,
            )
        else:
            images.linear(name, self.linear or 1, self.bias)
        if self.norm:
            images.normalise(f"{name}.norm")
        if self.relu:
            images.relu()
        if self.dropout:
            images.dropout()


class Convolutional(Architecture, kind="convolutional"):
    """A network of convolutions, poolings and linear layers, one after the other.

    - `image`: channels, height and width of a sample, such as 3x224x224.
    - `steps`: its layers in forward order; the first has parameters.
    """

    image: Image = (3, 224, 224)
    steps: tuple[ConvolutionalStep, ...] = Field(min_length=1, max_length=MOST_LAYERS)

    def build(self, builder: Builder) -> None:
        """The layers, and the loss over the outputs of the last one."""
        add_steps(builder, self.image, self.steps)


def add_steps(builder: Builder, image: tuple[int, int, int], steps: tuple[ConvolutionalStep, ...]) -> None:
    """Add the layers of a list, and the loss. Raises an expected-error where the first one has no parameters."""
    if steps[0].convolution is None and steps[0].linear is None:
        raise expected("a convolution or a linear layer first", "another layer")
    images = Images(builder, *image)
    for place, step in enumerate(steps):
        step.add(images, place)
    builder.loss(builder.samples, images.flat or images.channels)


class AlexNet(Architecture, kind="alexnet"):
    """AlexNet (Krizhevsky 2014, 1404.5997) as torchvision has it.

    - `image`: channels, height and width of a sample.
    - `classes`: of the classifier.
    """

    image: Image = (3, 224, 224)
    classes: int = Field(default=1000, ge=1, le=MOST)

    def build(self, builder: Builder) -> None:
        """Five convolutions and three linear layers."""
        images = Images(builder, *self.image)
        sizes = {0: (64, 11, 4, 2), 3: (192, 5, 1, 2), 6: (384, 3, 1, 1), 8: (256, 3, 1, 1), 10: (256, 3, 1, 1)}
        for place, (outputs, kernel, stride, padding) in sizes.items():
            images.convolution(f"features.{place}", outputs, kernel, stride=stride, padding=padding, first=place == 0)
            images.relu()
            if place in (0, 3, 10):
                images.pool(3, 2)
        images.average(6)
        images.dropout()
        _classify(images, {"classifier.1": True, "classifier.4": False}, "classifier.6", self.classes)


class Vgg(Architecture, kind="vgg"):
    """VGG (Simonyan and Zisserman 2015) without batch norm, as torchvision has it.

    - `depth`: layers with parameters.
    - `image`: channels, height and width of a sample.
    - `classes`: of the classifier.
    """

    depth: Literal[11, 13, 16, 19] = 16
    image: Image = (3, 224, 224)
    classes: int = Field(default=1000, ge=1, le=MOST)

    def build(self, builder: Builder) -> None:
        """Convolutions in five stages, and three linear layers."""
        images, place = Images(builder, *self.image), 0
        stages = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}[self.depth]
        for outputs, layers in zip((64, 128, 256, 512, 512), stages, strict=True):
            for _ in range(layers):
                images.convolution(f"features.{place}", outputs, 3, padding=1, first=place == 0)
                images.relu()
                place += 2
            images.pool(2, 2)
            place += 1
        images.average(7)
        _classify(images, {"classifier.0": True, "classifier.3": True}, "classifier.6", self.classes)


def _classify(images: Images, hidden: dict[str, bool], last: str, classes: int) -> None:
    """Linear layers of 4096 with ReLU, with dropout behind some, and the classifier with its loss."""
    for name, dropout in hidden.items():
        images.linear(name, 4096)
        images.relu()
        if dropout:
            images.dropout()
    images.linear(last, classes)
    images.builder.loss(images.builder.samples, classes)
