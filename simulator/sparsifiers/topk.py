"""Top-k: the k largest magnitudes of each unit."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator

from simulator.component import expected
from simulator.models.exchange import AllGather, AllReduce, Bucket, Compute, Selection, Step
from simulator.models.gradients import Block, Choice, State, Values, join_places
from simulator.sparsifiers.base import LocalSelection, Style, per_call, split_evenly


class TopK(LocalSelection, kind="topk"):
    """Exact Top-k with error feedback: the k = density * n largest magnitudes of each unit, of equal ones the first.

    Two exchanges are published. `all_gather`: values and int32 indices, (n-1) k 8 bytes, then n scatter-adds (GRACE;
    Shi et al. 2019, 1911.08772). `union_all_reduce`: int64 indices are gathered and made unique, and the values of all
    workers at the union are summed, (n-1) k 8 + 2(n-1)/n K 4 bytes (the baselines of ExDyna, MiCRO and DEFT, 2023-24);
    here build-up enters through K.

    - `exchange_by`: how selected elements are exchanged.
    """

    exchange_by: Literal["all_gather", "union_all_reduce"] = "all_gather"

    @field_validator("exchange_by", mode="before")
    @classmethod
    def _summable(cls, value: object) -> object:
        if value == "all_reduce":
            hint = "workers select different coordinates, so that their payloads cannot be summed element by element"
            raise expected("'all_gather' or 'union_all_reduce'", value, hint)
        return value

    @property
    def selects_alone(self) -> bool:
        """With pairs of its own; a union tells every worker where the others select."""
        return self.exchange_by == "all_gather"

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """Each worker sends its own selection; with `union_all_reduce`, its values at the union of all selections."""
        chosen = self.top(u, block)
        union = [join_places(chosen, u.shape[1])] * len(u) if self.exchange_by == "union_all_reduce" else None
        return Choice(chosen, union, counts=self.top_counts(block))

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """All-gather of pairs, or of indices with an all-reduce at the union; with servers push and pull of pairs."""
        if style == "push_pull" or self.exchange_by == "all_gather":
            return super().exchange(selection, bucket, workers, style)
        units = len(self.units(bucket))
        total, union = float(selection.selected.sum()), selection.aggregated
        return [
            AllGather(tuple(bucket.long_index_bytes * selection.selected)),
            Compute("unique", (total,), 1, "combine"),
            Compute("gather", (union,), 1, "combine"),
            AllReduce(bucket.value_bytes * union),
            per_call("scatter_add", split_evenly(union, units), 3, "combine"),
        ]
