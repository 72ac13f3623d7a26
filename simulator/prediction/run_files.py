"""The files of one run: its result, its scenario, and tables of its traffic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from simulator.answers import plain
from simulator.engine.plan.plan import Plan
from simulator.files import write_text
from simulator.models.timeline import LinkUse
from simulator.prediction.run import Prediction

_PAIRS = 100_000


def store(folder: Path, prediction: Prediction) -> None:
    """Write `result.json` and the resolved `scenario.yaml`; `traffic.csv` if something is sent; `links.csv` if
    exchanges shared links during the simulation.

    Raises InputError where the folder cannot be written.
    """
    scenario, result = prediction.scenario, prediction.result
    if prediction.iteration.link_use is not None:
        write_text(folder / "links.csv", link_table(prediction.plan, prediction.iteration.link_use()))
    if prediction.plan.prices.traffic.sent.any():
        write_text(folder / "traffic.csv", traffic_table(prediction))
    write_text(folder / "scenario.yaml", f"# digest {scenario.digest}\n{as_yaml(scenario.resolved())}")
    write_text(folder / "result.json", json.dumps(plain(result), indent=2, allow_nan=False) + "\n")


def traffic_table(prediction: Prediction) -> str:
    """The bytes between all pairs in an iteration, without pairs that exchange nothing: `source,destination,bytes`.

    Places are workers and servers; where that makes more than 100,000 pairs, they are the nodes these stand on.
    """
    import pandas as pd

    plan, matrix = prediction.plan, prediction.plan.traffic_between()
    workers, places = plan.wiring.layout.workers, matrix.shape[0]
    names = [f"worker {place}" if place < workers else f"server {place - workers}" for place in range(places)]
    pairs = matrix.tocoo()
    source, destination = pairs.coords
    if pairs.nnz > _PAIRS:
        node = plan.wiring.layout.placement().node
        names = [f"node {number}" for number in range(int(node.max()) + 1)]
        source, destination = node[source], node[destination]
    rows = pd.DataFrame({"source": source, "destination": destination, "bytes": pairs.data})
    rows = rows[rows["bytes"] > 0].groupby(["source", "destination"], as_index=False).sum()
    label = np.array(names)
    rows = rows.assign(source=label[rows["source"]], destination=label[rows["destination"]])
    return str(rows.to_csv(index=False))


def link_table(plan: Plan, use: LinkUse) -> str:
    """The rate of every link in use over time: `time_s,link,bytes_per_s,utilisation`.

    A row is valid until the next row of its link; times count from the start of the first iteration.
    """
    import pandas as pd

    wiring, frames = plan.wiring, []
    for column in range(use.rates.shape[1]):
        rates = use.rates[:, column]
        # Only rows where the rate changes.
        kept = np.flatnonzero(np.diff(rates, prepend=np.nan) != 0)
        if not rates.any():
            continue
        for link in np.flatnonzero(use.of_link == column).tolist():
            share = rates[kept] / float(wiring.capacity[link])
            rows = {"time_s": use.times[kept], "link": wiring.names[link], "bytes_per_s": rates[kept]}
            frames.append(pd.DataFrame({**rows, "utilisation": share}))
    table = pd.concat(frames) if frames else pd.DataFrame(columns=["time_s", "link", "bytes_per_s", "utilisation"])
    return str(table.to_csv(index=False))


def as_yaml(data: Any) -> str:
    """A resolved scenario as YAML that `run` reads again: quantities carry their SI unit."""
    import yaml

    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110)
