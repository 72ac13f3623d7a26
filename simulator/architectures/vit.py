"""ViT: patches of an image as tokens."""

from __future__ import annotations

from pydantic import Field

from simulator.architectures.blocks import BlockNames
from simulator.architectures.building import MOST, Builder
from simulator.architectures.transformer import AnyTransformer
from simulator.component import expected

_SELF = "attention.attention."
_NAMES = BlockNames(
    "layernorm_before",
    (f"{_SELF}query", f"{_SELF}key", f"{_SELF}value"),
    "attention.output.dense",
    "layernorm_after",
    ("intermediate.dense",),
    "output.dense",
)


class Vit(AnyTransformer, kind="vit"):
    """Vision Transformer (Dosovitskiy et al. 2021); names are those of Hugging Face's ViTForImageClassification.

    - `image`: height and width of an image in pixels.
    - `patch`: height and width of a patch, each of which is a token.
    - `channels`: of the image.
    - `classes`: of the classifier.
    """

    image: int = Field(default=224, ge=1, le=MOST // 10)
    patch: int = Field(default=16, ge=1, le=MOST // 10)
    channels: int = Field(default=3, ge=1, le=MOST // 10)
    classes: int = Field(default=1000, ge=1, le=MOST)

    def refuse_unfit(self) -> None:
        super().refuse_unfit()
        if self.image % self.patch:
            raise expected(f"a patch that divides {self.image} pixels", str(self.patch))

    def build(self, builder: Builder) -> None:
        """Patches, class token and positions, blocks, classifier, loss."""
        patches = (self.image // self.patch) ** 2
        sequence = patches + 1
        tokens = builder.samples * sequence
        pixels = self.channels * self.patch**2
        builder.tensor("vit.embeddings.cls_token", self.hidden)
        builder.tensor("vit.embeddings.position_embeddings", sequence, self.hidden)
        # The convolution of patches that do not overlap is a product with each patch as a row.
        projection = "vit.embeddings.patch_embeddings.projection"
        builder.linear(projection, builder.samples * patches, pixels, self.hidden, first=True)
        builder.residual(tokens * self.hidden)
        if self.dropout:
            builder.dropout(tokens * self.hidden)
        block = self.block(sequence, _NAMES, causal=False)
        for layer in range(self.layers):
            block.add(builder, f"vit.encoder.layer.{layer}.", tokens)
        builder.norm("vit.layernorm", tokens, self.hidden)
        builder.linear("classifier", builder.samples, self.hidden, self.classes)
        builder.loss(builder.samples, self.classes)
