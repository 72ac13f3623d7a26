"""The times of a collective by its payload, as a table or a picture in a file."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from simulator.files import write_text
from simulator.prediction.collective import CollectiveTimes
from simulator.reporting.figures.lines import Lines
from simulator.reporting.figures.making import write_figure

_OVER, _QUANTITY = "payload_bytes", "bus bandwidth in GB/s"


def write_collective(answer: CollectiveTimes, out: Path) -> None:
    """Write the rows to a .csv file, or draw the bus bandwidth over the payload, with the figure's table beside it.

    Raises InputError for an unknown format and where the file cannot be written.
    """
    table = pd.DataFrame(answer.to_dict()["times"])
    if out.suffix == ".csv":
        ends = pd.DataFrame(table.pop("interval_s").tolist(), columns=["interval_low_s", "interval_high_s"])
        write_text(out, table.join(ends).to_csv(index=False, lineterminator="\n"))
        return
    rate = table["bus_bandwidth_bytes_per_s"] / 1e9
    drawn = {"line": answer.kind, "over": table[_OVER], "key": _OVER, "value": rate, "quantity": _QUANTITY}
    member = Lines(over=_OVER, quantity=_QUANTITY)
    write_figure(member, pd.DataFrame(drawn), out, f"{answer.kind} on {answer.network}")
