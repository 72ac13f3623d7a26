"""Convolutional networks, in which the size of the image is followed from layer to layer; AlexNet, VGG and ResNet."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from simulator.architectures.building import MOST, MOST_LAYERS, Architecture, Builder
from simulator.component import Spec, expected
from simulator.models.operators import OF_WEIGHT, Operator, OperatorKind, row_wise, streaming
from simulator.records import Struct, replace


class Images(Struct):
    """Images on their way through a network: channels, height and width after the layers so far.

    `flat`: how many features they were flattened to; 0 while they are images.
    """

    builder: Builder
    channels: int
    height: int
    width: int
    flat: int = 0

    @property
    def elements(self) -> float:
        """Elements of all samples."""
        return float(self.builder.samples) * (self.flat or self.channels * self.height * self.width)

    def convolution(
        self,
        name: str,
        outputs: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        bias: bool = True,
        first: bool = False,
    ) -> None:
        """A convolution as the matrix product that it is computed as (Chetlur et al. 2014, 1410.0759): per group, rows
        are places of the output, columns its channels, and k = input channels x kernel area.

        Raises an expected-error where groups do not divide the channels or the image is smaller than the kernel.
        """
        if self.flat:
            raise expected("convolutions before linear layers", name)
        if self.channels % groups or outputs % groups:
            raise expected(f"groups that divide {self.channels} and {outputs} channels", str(groups))
        inputs, moved_in = self.channels, self.elements
        self._reduce(name, kernel, stride, padding)
        self.channels = outputs
        places = self.builder.samples * self.height * self.width
        depth = inputs // groups * kernel**2
        nbytes = self.builder.width * (moved_in + self.elements + outputs * depth)

        kind: OperatorKind = "winograd" if (kernel, stride, groups) == (3, 1, 1) else "convolution"

        def operator(what: str, m: float, n: float, k: float) -> Operator:
            return Operator(what, kind, nbytes, groups, m, n, k)

        tensor = self.builder.tensor(f"{name}.weight", outputs, inputs // groups, kernel, kernel)
        per_group = outputs // groups
        tensor.forward.append(operator("convolution", places, per_group, depth))
        back = [] if first else [operator("convolution, of its input", places, depth, per_group)]
        tensor.backward[:0] = [*back, operator(f"convolution, {OF_WEIGHT}", depth, per_group, places)]
        self.builder.keep(moved_in)
        if bias:
            made = self.builder.tensor(f"{name}.bias", outputs)
            made.forward.append(streaming("bias", 2 * self.elements * self.builder.width))
            made.backward.insert(0, streaming("bias", self.elements * self.builder.width))

    def normalise(self, name: str) -> None:
        """Batch norm in training: statistics in one pass, the result in another, and the same backward."""
        self.builder.tensor(f"{name}.weight", self.channels)
        self.builder.tensor(f"{name}.bias", self.channels)
        moved = self.elements * self.builder.width
        self.builder.add([row_wise("batch norm", 3 * moved)], [row_wise("batch norm", 5 * moved)])
        self.builder.keep(self.elements)

    def relu(self) -> None:
        """ReLU in place: the next layer keeps its output."""
        self.builder.activation("relu", self.elements, keep=False)

    def pool(self, kernel: int, stride: int, padding: int = 0) -> None:
        """Maximum pooling: keeps its input and the places of the maxima (int64)."""
        before = self.elements
        self._reduce("a pooling layer", kernel, stride, padding)
        moved = (before + self.elements) * self.builder.width + self.elements * 8
        self.builder.add([streaming("pooling", moved)], [streaming("pooling", moved)])
        self.builder.keep(before)
        self.builder.keep(self.elements, 8)

    def average(self, places: int) -> None:
        """Adaptive average pooling to `places` x `places`."""
        before = self.elements
        self.height = self.width = places
        moved = (before + self.elements) * self.builder.width
        self.builder.add([streaming("pooling", moved)], [streaming("pooling", moved)])

    def linear(self, name: str, outputs: int, bias: bool = True) -> None:
        """A linear layer on the flattened image."""
        inputs = self.flat or self.channels * self.height * self.width
        self.builder.linear(name, self.builder.samples, inputs, outputs, bias=bias)
        self.flat = outputs

    def dropout(self) -> None:
        """Dropout."""
        self.builder.dropout(self.elements)

    def _reduce(self, name: str, kernel: int, stride: int, padding: int) -> None:
        sizes = [(side + 2 * padding - kernel) // stride + 1 for side in (self.height, self.width)]
        if min(sizes) < 1:
            got = f"{self.height} x {self.width} with padding {padding}"
            raise expected(f"an image of at least {kernel} x {kernel} at {name}", got, "use a larger input")
        self.height, self.width = sizes


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
        if self.steps[0].convolution is None and self.steps[0].linear is None:
            raise expected("a convolution or a linear layer first", "another layer")
        images = Images(builder, *self.image)
        for place, step in enumerate(self.steps):
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


_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


class ResNet(Architecture, kind="resnet"):
    """ResNet (He et al. 2016) with the stride in the 3x3 convolutions, as torchvision has it.

    - `depth`: layers with parameters.
    - `image`: channels, height and width of a sample.
    - `classes`: of the classifier.
    """

    depth: Literal[18, 34, 50, 101, 152] = 50
    image: Image = (3, 224, 224)
    classes: int = Field(default=1000, ge=1, le=MOST)

    def build(self, builder: Builder) -> None:
        """Stem, four stages of blocks, classifier, loss."""
        images = Images(builder, *self.image)
        images.convolution("conv1", 64, 7, stride=2, padding=3, bias=False, first=True)
        images.normalise("bn1")
        images.relu()
        images.pool(3, 2, 1)
        for stage, blocks in enumerate(_BLOCKS[self.depth], 1):
            for block in range(blocks):
                stride = 2 if stage > 1 and block == 0 else 1
                self._block(images, f"layer{stage}.{block}.", 32 * 2**stage, stride)
        images.average(1)
        images.linear("fc", self.classes)
        builder.loss(builder.samples, self.classes)

    def _block(self, images: Images, prefix: str, width: int, stride: int) -> None:
        """Two 3x3 convolutions, or 1x1, 3x3 and 1x1 with four times the channels; the sum with the shortcut."""
        entering = replace(images)
        deep = self.depth >= 50
        layers = [(width, 1, 1), (width, 3, stride), (4 * width, 1, 1)] if deep else [(width, 3, stride), (width, 3, 1)]
        for number, (outputs, kernel, step) in enumerate(layers, 1):
            images.convolution(f"{prefix}conv{number}", outputs, kernel, stride=step, padding=kernel // 2, bias=False)
            images.normalise(f"{prefix}bn{number}")
            if number < len(layers):
                images.relu()
        if stride > 1 or entering.channels != images.channels:
            entering.convolution(f"{prefix}downsample.0", images.channels, 1, stride=stride, bias=False)
            entering.normalise(f"{prefix}downsample.1")
        images.builder.residual(images.elements)
        images.relu()
