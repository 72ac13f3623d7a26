"""Building convolutional networks: the size of the image is followed from layer to layer."""

from __future__ import annotations

from simulator.architectures.building import Builder
from simulator.component import expected
from simulator.models.operators import OF_WEIGHT, Operator, OperatorKind, streaming
from simulator.records import Struct


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
        numel = outputs * inputs // groups * kernel**2
        depth = inputs // groups * kernel**2
        nbytes = self.builder.width * (moved_in + self.elements + numel)

        kind: OperatorKind = "winograd" if (kernel, stride, groups) == (3, 1, 1) else "convolution"

        def operator(what: str, m: float, n: float, k: float) -> Operator:
            return Operator(what, kind, nbytes, groups, m, n, k)

        tensor = self.builder.tensor(f"{name}.weight", numel)
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
        """Batch norm."""
        self.builder.batch_norm(name, self.channels, self.elements)

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
