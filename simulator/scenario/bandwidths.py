"""What "bandwidth" means of a scenario: of all rates that messages between nodes meet, the narrowest that can vary.

Behind a narrow line a faster NIC changes nothing, and a search along its bandwidth would say that no bandwidth helps.
"""

from __future__ import annotations

from typing import NamedTuple

from simulator.fabrics.wide_area import WideArea
from simulator.scenario.changes import value_at
from simulator.scenario.scenario import Scenario
from simulator.units import join_words

_NETWORK = "cluster.network."
_LINES, _STORE = (f"{_NETWORK}between.rate", f"{_NETWORK}between.back"), (f"{_NETWORK}store.bandwidth",)
NIC, INSIDE = f"{_NETWORK}bandwidth", f"{_NETWORK}intra_node.bandwidth"
WORDS = {
    _LINES[0]: "bandwidth between sites",
    _LINES[1]: "bandwidth back between sites",
    _STORE[0]: "bandwidth of the store",
    f"{_NETWORK}uplink": "bandwidth of the uplinks",
    NIC: "bandwidth of the NICs",
    INSIDE: "bandwidth inside the node",
}
"""Keys of bandwidths, in words. Of equal ones the first one counts, which more messages share."""


class MetRate(NamedTuple):
    """A rate that messages meet, in bytes/s; `key`: where it stands, empty where it is not one value that can vary."""

    rate: float
    words: str
    key: str = ""


def met_rates(scenario: Scenario) -> list[MetRate]:
    """The rates that messages between nodes meet, as stated, the narrowest first; of one node that inside of it.

    With servers on machines of their own, messages go to the store and not from site to site.
    """
    network, nodes = scenario.cluster.network, scenario.cluster.nodes
    layout = scenario.topology.layout(nodes, scenario.cluster.gpus_per_node)
    served = layout.servers > 0 and not layout.colocated
    if nodes == 1:
        keys = [INSIDE if network.intra_node is not None else NIC]
    else:
        keys = [key for key in WORDS if key not in (INSIDE, *(_LINES if served else _STORE))]
    made = [MetRate(rate, WORDS[key], key) for key in keys if (rate := value_at(scenario, key)) is not None]
    if nodes > 1 and isinstance(network, WideArea):
        ends = [
            (getattr(site, end), f"{end}link of site {site.name}") for site in network.sites for end in ("up", "down")
        ]
        between = [] if served else network.pairs
        pairs = [(rate, f"line of {join_words(pair.sites)}") for pair in between for rate in (pair.rate, pair.back)]
        line = network.store if served and network.store is not None else network.between
        streams = line.streams * line.of_stream, f"rate of {line.streams} TCP streams, by their law or as measured,"
        made += [MetRate(rate, words) for rate, words in (*ends, *pairs, streams) if rate is not None]
    return sorted(made, key=lambda item: item.rate)


def bandwidth_key(scenario: Scenario) -> str:
    """The key of the narrowest rate that can vary: what `plan` and `advise` mean by the bandwidth."""
    return next(item.key for item in met_rates(scenario) if item.key)
