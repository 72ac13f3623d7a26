"""Recommendation models: tables of embeddings, of which a sample looks up few rows, below small networks."""

from __future__ import annotations

from itertools import pairwise

from pydantic import Field

from simulator.architectures.building import MOST, MOST_LAYERS, Architecture, Builder
from simulator.bounds import Count
from simulator.models.operators import product

Units = tuple[Count, ...]


class Dlrm(Architecture, kind="dlrm"):
    """DLRM: a table for each categorical feature, and the dot products of all pairs of vectors (Naumov et al. 2019,
    1906.00091).

    The dense features go through the bottom network to a vector of the embeddings' width; the products of its pairs
    with the embeddings go, beside it, through the top network. Names are those of facebookresearch/dlrm.

    - `tables`: rows of each table.
    - `embedding`: width of a row.
    - `lookups`: rows of each table that a sample looks up, which are added up.
    - `dense`: dense features.
    - `bottom`: units of the bottom network's layers before the last, which has the embeddings' width.
    - `top`: units of the top network's layers before the last, which has one.
    """

    tables: Units = Field(min_length=1, max_length=MOST_LAYERS)
    embedding: int = Field(ge=1, le=MOST)
    lookups: int = Field(default=1, ge=1, le=MOST)
    dense: int = Field(default=13, ge=1, le=MOST)
    bottom: Units = Field(max_length=MOST_LAYERS)
    top: Units = Field(max_length=MOST_LAYERS)

    def build(self, builder: Builder) -> None:
        """Tables, bottom network, products of pairs, top network, loss."""
        samples, width, vectors = builder.samples, self.embedding, len(self.tables) + 1
        for number, rows in enumerate(self.tables):
            builder.embedding(f"emb_l.{number}.weight", rows, width, samples * self.lookups)
        _network(builder, "bot_l", (self.dense, *self.bottom, width))
        pairs = (vectors, vectors, width), (vectors, width, vectors)
        forward, backward = (product("pairs", *each, builder.width, batch=samples) for each in pairs)
        builder.add([forward], [backward])
        builder.keep(samples * vectors * width)
        _network(builder, "top_l", (width + vectors * (vectors - 1) // 2, *self.top, 1))
        builder.loss(samples, 1)


class NeuMf(Architecture, kind="ncf"):
    """NeuMF, the model of neural collaborative filtering: products of factors beside a network (He et al. 2017,
    1708.05031).

    - `users`, `items`: rows of the two pairs of tables.
    - `factors`: width of the rows whose products are taken.
    - `network`: units of the network's layers; half of the first is the width of its rows.
    """

    users: int = Field(ge=1, le=10**6 * MOST)
    items: int = Field(ge=1, le=10**6 * MOST)
    factors: int = Field(ge=1, le=MOST)
    network: Units = Field(min_length=1, max_length=MOST_LAYERS)

    def build(self, builder: Builder) -> None:
        """Four tables, the network, the layer that weighs both parts, loss."""
        samples = builder.samples
        for part, width in (("mf", self.factors), ("mlp", max(1, self.network[0] // 2))):
            builder.embedding(f"{part}.user_embedding", self.users, width, samples)
            builder.embedding(f"{part}.item_embedding", self.items, width, samples)
        _network(builder, "mlp.dense", self.network)
        builder.activation("product of factors", samples * self.factors)
        builder.linear("predict", samples, self.factors + self.network[-1], 1)
        builder.loss(samples, 1)


def _network(builder: Builder, name: str, units: Units) -> None:
    for number, (inputs, outputs) in enumerate(pairwise(units)):
        builder.linear(f"{name}.{number}", builder.samples, inputs, outputs)
        builder.activation("relu", builder.samples * outputs, keep=False)
