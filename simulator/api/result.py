"""The result of a run: its figures by name, as a table, and as a notebook shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from simulator.api.texts import first_sentence, shorten
from simulator.prediction.run import Prediction
from simulator.records import Record, asdict
from simulator.units import count_of, show_time

if TYPE_CHECKING:
    import pandas as pd

Interval = tuple[float, float]


class BusiestLink(Record):
    """The link that is busy longest: what it carries in an iteration (bytes), and the share of the time."""

    name: str
    nbytes: float
    utilisation: float


class Traffic(Record):
    """Bytes of an iteration: sent by a worker (mean, and the one that sends most), by all, and on the busiest link."""

    sent_per_worker: float
    sent_per_worker_max: float
    total: float
    busiest_link: BusiestLink


class Density(Record):
    """Shares of the elements: asked for, selected by a worker, and touched by the sum of all workers.

    `build_up`: aggregated over selected. `padding`: workers times the largest selection, over the sum of selections.
    """

    target: float
    selected: float
    aggregated: float
    build_up: float
    padding: float


class Memory(Record):
    """Bytes of a worker's GPU memory: all known parts together, least and most, and what the smallest GPU has.

    `capacity`: None where no GPU states it; `fits`: None where that is not known; `parts`: bytes by part, None where a
    part is not known.
    """

    total: float
    interval: Interval
    capacity: float | None
    fits: bool | None
    parts: dict[str, float | None]


class Comparison(Record):
    """The answer to a scenario's question.

    - `word`: `yes`, `no`, `alike` or `undecided`; None where an iteration takes no time.
    - `text`: the answer in words, with what it is due to.
    - `question`: what is asked.
    - `probability`: that this run is faster than the opponent.
    - `speed_up`: the opponent's iteration time over this one's; `speed_up_interval`: its 90 % interval.
    - `opponent`: what this run is compared with; `opponent_time`: its iteration time in seconds.
    """

    word: str | None
    text: str
    question: str
    probability: float | None
    speed_up: float | None
    speed_up_interval: Interval | None
    opponent: str
    opponent_time: float

    def __str__(self) -> str:
        return self.text


class Result(Prediction):
    """What `run` returns. Times are in seconds, amounts in bytes; `document` has every key of `sparsim run --json`."""

    @classmethod
    def of(cls, prediction: Prediction) -> Self:
        """A prediction as a result, with what was added to its document."""
        made = cls(**asdict(prediction))
        made.document = prediction.document
        return made

    @property
    def name(self) -> str:
        """The scenario's name."""
        return str(self.document["scenario"])

    @property
    def workers(self) -> int:
        """GPUs in all."""
        return int(self.document["workers"])

    @property
    def iteration_time(self) -> float:
        """Seconds of one training iteration, mean."""
        return float(self.document["iteration_time_s"])

    @property
    def interval(self) -> Interval:
        """The 90 % interval of the iteration time: 5th and 95th percentile, in seconds."""
        return _pair(self.document["iteration_time_interval_s"])

    @property
    def intervals(self) -> dict[int, Interval]:
        """The intervals of the iteration time by the per cent of cases that they are to hold: 50, 80, 90."""
        return {int(percent): _pair(ends) for percent, ends in self.document["intervals_s"].items()}

    @property
    def throughput(self) -> float | None:
        """Samples per second of all workers together; None where an iteration takes no time."""
        return _number(self.document["throughput_samples_per_s"])

    @property
    def scaling_efficiency(self) -> float | None:
        """Throughput over that of as many single GPUs that exchange nothing; None where an iteration takes no time."""
        return _number(self.document["scaling_efficiency"])

    @property
    def breakdown(self) -> dict[str, float]:
        """Where the time goes: seconds by term, which sum to the iteration time."""
        return dict(self.document["breakdown_s"])

    @property
    def traffic(self) -> Traffic:
        """What is sent."""
        made = self.document["traffic"]
        link = made["busiest_link"]
        return Traffic(
            sent_per_worker=float(made["sent_bytes_per_worker"]),
            sent_per_worker_max=float(made["sent_bytes_per_worker_max"]),
            total=float(made["total_bytes"]),
            busiest_link=BusiestLink(link["name"], float(link["bytes"]), float(link["utilisation"])),
        )

    @property
    def density(self) -> Density:
        """Which share of the gradients is sent."""
        made = self.document["density"]
        return Density(*(float(made[name]) for name in Density.__struct_fields__))

    @property
    def verdict(self) -> Comparison | None:
        """The answer to the scenario's question; None where it is compared with nothing."""
        made = self.document.get("comparison")
        if made is None:
            return None
        interval = made.get("speed_up_interval")
        return Comparison(
            word=made.get("verdict"),
            text=made["answer"],
            question=self.document.get("question", ""),
            probability=_number(made.get("probability")),
            speed_up=_number(made["speed_up"]),
            speed_up_interval=None if interval is None else _pair(interval),
            opponent=made["opponent"] or made["baseline"],
            opponent_time=float(made["baseline_iteration_time_s"]),
        )

    @property
    def memory(self) -> Memory | None:
        """What a worker needs of its GPU's memory; None where a result was stored by an older version."""
        made = self.document.get("memory")
        if made is None:
            return None
        parts = {name: _number(nbytes) for name, nbytes in made["parts_bytes"].items()}
        interval = float(made["least_bytes"]), float(made["most_bytes"])
        return Memory(float(made["total_bytes"]), interval, _number(made["capacity_bytes"]), made["fits"], parts)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the prediction should know, each with its size, the largest first."""
        return tuple(self.document["warnings"])

    def to_dict(self) -> dict[str, Any]:
        """A copy of the document, as `sparsim run --json` prints it."""
        from copy import deepcopy

        return deepcopy(self.document)

    def to_frame(self) -> pd.DataFrame:
        """One row, with the columns of a sweep's table; `frame.attrs["units"]` has the unit of each quantity."""
        from simulator.api.frames import with_units
        from simulator.studies.storage.row_table import frame_of, table_of
        from simulator.studies.storage.rows import row_of

        return with_units(frame_of(table_of({"scenario": [self.name]}, [row_of(self.document)])).drop(columns="error"))

    def __repr__(self) -> str:
        low, high = self.interval
        spread = f" ({show_time(low)} to {show_time(high)})" if high > low else ""
        parts = [shorten(self.name, 160), f"{show_time(self.iteration_time)}{spread}"]
        if self.throughput is not None:
            parts.append(f"{self.throughput:.5g} samples/s on {count_of(self.workers, 'worker')}")
        if self.verdict is not None:
            parts.append(shorten(first_sentence(self.verdict.text), 200))
        return f"<Result {'; '.join(parts)}>"

    def _repr_html_(self) -> str:
        from simulator.reporting.notebook import result_html

        return result_html(self.document)


def _pair(ends: Any) -> Interval:
    low, high = ends
    return float(low), float(high)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
