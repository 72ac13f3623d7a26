"""Sites over a wide area: what their nodes send to each other shares uplinks, lines and downlinks."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any, Self

import numpy as np
from pydantic import Field

from simulator.component import expected
from simulator.errors import suggest_nearest
from simulator.fabrics.base import Fabric
from simulator.fabrics.sites import STORE, Between, Line, Pair, Site, Store, times_rates
from simulator.models.exchange import Ints, Layout, Placement, Route
from simulator.models.wiring import Links


class WideArea(Fabric, kind="wide_area"):
    """Sites with their nodes, joined by lines with a rate each way, a delay, loss and a number of TCP streams.

    Nodes fill the sites in order. `bandwidth` and `latency` are those of a NIC and of the local network, which has no
    bottleneck. A message to another site leaves through its NIC, crosses its site's uplink, the line between the two
    sites and the downlink of the other, and has the start-up of the line. Messages share each of them fairly; one
    message gets no more of a line than its streams reach by their law of TCP (`fabrics/sites.py`). Over an idle network
    S bytes take

        latency + jitter E_n + S / min(bandwidth, up, rate, streams * rate of a stream, down).

    Through a relay the message crosses the downlink and the uplink of a third site, too, and both lines; it is passed
    on as it arrives, so that start-ups add up and the slowest link counts. Connections have reached their rate: the
    start of a connection is not in it. A server on a machine of its own stands at the `store`, outside all sites.

    - `sites`: in the order of the nodes.
    - `between`: the line between any two sites.
    - `pairs`: pairs of sites with other lines, or with a relay.
    - `store`: where servers on machines of their own are: an object store, or parameter servers.
    """

    sites: tuple[Site, ...] = Field(min_length=1, max_length=64)
    between: Between
    pairs: tuple[Pair, ...] = ()
    store: Store | None = None

    def refuse_unfit(self) -> None:
        names = [site.name for site in self.sites]
        twice = sorted({name for name in names if names.count(name) > 1 or name == STORE})
        if twice:
            raise expected("a name of its own for each site", ", ".join(twice), f"`{STORE}` is not the name of a site")
        unknown = [name for pair in self.pairs for name in (*pair.sites, pair.through or names[0]) if name not in names]
        if unknown:
            raise expected("the name of a site", f"'{unknown[0]}'", suggest_nearest(unknown[0], names))
        given = [frozenset(pair.sites) for pair in self.pairs]
        again = next((pair for pair in given if given.count(pair) > 1), None)
        if again:
            raise expected("each pair of sites once", " and ".join(sorted(again)), "`rate` and `back` are its two ways")
        relayed = {frozenset(pair.sites) for pair in self.pairs if pair.through}
        for pair in self.pairs:
            if pair.through and any({name, pair.through} in relayed for name in pair.sites):
                hint = "only one relay may lie between two sites"
                raise expected("a relay that both sites reach directly", pair.through, hint)

    def across(self, placement: Placement, nic: float) -> Links:
        """The NICs, the uplinks and downlinks of the sites, then the lines between them and to the store."""
        ends, site, count = self.nics(placement, nic), self._site_of(placement), len(self.sites)
        capacity = ends.capacity.copy()
        if self.store is not None and len(placement.servers):
            at_store = placement.servers[:, None] * self.rails + np.arange(self.rails)
            capacity[at_store] = capacity[at_store + len(capacity) // 2] = self.store.bandwidth
        whole = self.bandwidth * self.nics_per_node * np.array([each.nodes for each in self.sites])
        up, down = (
            np.array([getattr(each, way) or most for each, most in zip(self.sites, whole.tolist(), strict=True)])
            for way in ("up", "down")
        )
        lines = self._lines()
        start = len(capacity) + 2 * count
        leg, start_up = np.full((count + 1, count + 1), -1), np.zeros((count + 1, count + 1))
        within = len(np.unique(site[site < count])), len(np.unique(placement.node[site < count]))
        rates = []
        for number, ((one, other), (rate, line)) in enumerate(lines.items()):
            leg[one, other] = start + number
            start_up[one, other] = line.start_up(within[count in (one, other)])
            rates.append(rate or min(up[one], down[other]))
        ups, downs = (np.append(len(capacity) + first + np.arange(count), -1) for first in (0, count))
        via = self._relays()

        def route(src: Ints, dst: Ints) -> Route:
            edge, a, b = ends.route(src, dst), site[src], site[dst]
            relay = via[a, b]
            passed = relay >= 0
            then = np.where(passed, relay, b)
            middle = np.stack([ups[a], leg[a, then], downs[b]], axis=1)
            delay = start_up[a, then] + np.where(passed, start_up[then, b], 0.0)
            if (via >= 0).any():
                further = np.stack([downs[then], ups[then], leg[then, b]], axis=1)
                further[~passed] = -1
                middle = np.concatenate([middle[:, :2], further, middle[:, 2:]], axis=1)
            middle[a == b] = -1
            return Route(edge.first, edge.last, np.where(a == b, edge.latency, delay), middle)

        ceiling = np.full(start + len(lines), np.inf)
        ceiling[start:] = [line.streams * line.of_stream for _, line in lines.values()]
        return Links(
            np.concatenate([capacity, up, down, np.array(rates)]),
            ends.names + self._names(),
            route,
            ceiling=ceiling if np.isfinite(ceiling).any() else None,
        )

    def shared_by(self, groups: int, in_node: int, stride: int = 1) -> Self:
        """The network with a group's share of NICs and lines, on which its messages have connections of their own."""
        nodes, share, every = groups // in_node, 1 / groups, [site.nodes for site in self.sites]
        if any(each % nodes for each in every):
            hint = f"one GPU of {nodes} nodes exchanges with one of each other {nodes}"
            raise expected(f"sites of a multiple of {nodes} nodes", ", ".join(map(str, every)), hint)
        sites = (
            site.model_copy(update={"nodes": site.nodes // nodes} | times_rates(site, share)) for site in self.sites
        )
        pairs = (pair.model_copy(update=times_rates(pair, share)) for pair in self.pairs)
        changes: dict[str, Any] = {"sites": tuple(sites), "pairs": tuple(pairs)}
        for name in ("between", "store"):
            changes |= {name: line.model_copy(update=times_rates(line, share))} if (line := getattr(self, name)) else {}
        return super().shared_by(groups, in_node, stride).model_copy(update=changes)

    def empty_sites(self, nodes: int) -> list[str]:
        """The names of the sites that have no node where a cluster has so many."""
        before = np.cumsum([0, *(site.nodes for site in self.sites)])
        return [site.name for site, first in zip(self.sites, before, strict=False) if first >= nodes]

    def far_latency(self, layout: Layout) -> float:
        """Seconds of a way through all nodes in order and back that lines take beyond the local network."""
        return self.latency_around(layout)

    def times(self, rates: float, streams: float, start_ups: float) -> dict[str, Any]:
        """Sites and lines with their rates, those of streams and their delays multiplied."""
        pairs = (
            pair
            if pair.through
            else pair.model_copy(
                update=times_rates(pair, rates) | pair.line(self.between).times(rates, streams, start_ups).model_dump()
            )
            for pair in self.pairs
        )
        return {
            "sites": tuple(site.model_copy(update=times_rates(site, rates)) for site in self.sites),
            "between": self.between.times(rates, streams, start_ups),
            "pairs": tuple(pairs),
            "store": self.store and self.store.times(rates, streams, start_ups),
        }

    def _site_of(self, placement: Placement) -> Ints:
        """The number of the site of each place (P,), that of the store after those of all sites."""
        last = np.cumsum([site.nodes for site in self.sites])
        served = np.isin(placement.node, placement.servers)
        if served.any() and self.store is None:
            what = f"at most {int(placement.node[~served].max()) + 1} nodes without a `store`"
            hint = "servers on machines of their own stand at the `store`, co-located ones in the sites"
            raise expected(what, f"{placement.nodes} nodes", hint)
        most = int(placement.node[~served].max()) + 1
        if most > last[-1]:
            raise expected(f"at most {last[-1]} nodes, as the sites have", f"{most} nodes", "raise `nodes` of a site")
        return np.where(served, len(self.sites), np.searchsorted(last, placement.node, side="right"))

    def _lines(self) -> dict[tuple[int, int], tuple[float | None, Line]]:
        """The rate and the line of each direction between two sites that are joined directly, and to the store."""
        number = {site.name: place for place, site in enumerate(self.sites)}
        known = {frozenset(pair.sites): pair for pair in self.pairs}
        made: dict[tuple[int, int], tuple[float | None, Line]] = {}
        usual = self.between.rate, self.between.back or self.between.rate
        for names in combinations(number, 2):
            pair = known.get(frozenset(names), Pair.model_construct(sites=names))
            if not pair.through:
                line, own = pair.line(self.between), (pair.rate, pair.back or pair.rate)
                own = own if pair.sites == names else own[::-1]
                for (one, other), given, rate in zip(permutations(names), own, usual, strict=True):
                    made[number[one], number[other]] = given or rate, line
        if self.store is not None:
            for place in number.values():
                made[place, len(number)] = made[len(number), place] = self.store.bandwidth, self.store
        return dict(sorted(made.items()))

    def _relays(self) -> Ints:
        """The site through which messages between two sites go, (S + 1, S + 1); -1 where they go directly."""
        names = [site.name for site in self.sites]
        made = np.full((len(names) + 1, len(names) + 1), -1)
        for pair in self.pairs:
            if pair.through:
                for one, other in permutations(map(names.index, pair.sites)):
                    made[one, other] = names.index(pair.through)
        return made

    def groups_on(self, link: str, part: Fabric, groups: int) -> float:
        """Those of a node on its NIC, and all on the lines between sites."""
        return groups if link in self._names() else super().groups_on(link, part, groups)

    def _names(self) -> tuple[str, ...]:
        names = [*(site.name for site in self.sites), STORE]
        ways = [f"{name} {way}" for way in ("up", "down") for name in names[:-1]]
        return (*ways, *(f"{names[one]} to {names[other]}" for one, other in self._lines()))
