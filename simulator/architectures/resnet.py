"""Residual networks."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from simulator.architectures.base import MOST, Architecture
from simulator.architectures.building import Builder
from simulator.architectures.convolutional import Image, Images
from simulator.records import replace

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
