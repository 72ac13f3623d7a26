"""Where the fold is exact: no message ever waits on a link for a message of another worker."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.engine.rounds.equivalence_classes import MessageClass, classify, structures
from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Round, Route
from simulator.models.wiring import Wiring

_SAME = 1e-9
_ROUNDING = 1e-12


def reasons_against_fold(
    rounds: Sequence[Round], wirings: Sequence[Wiring], src: Ints, dst: Ints, routes: Sequence[Route]
) -> list[str]:
    """Why `fold` would not be exact for these rounds on each of several wirings that differ only in numbers, alone on
    the network and started together; empty where it is exact.

    `src` and `dst` are those of all rounds (at least one), in order, and so is the route on each of the wirings. The
    fold is exact if every link serves one place over one start-up, or places that are alike and therefore have the same
    times, if no link in the middle of a route carries less than the messages that may cross it at the same time, and if
    every message may fill its links.
    """
    apart, known, made = messages_share_no_link(rounds, src, dst, routes[0]), dict[object, str](), list[str]()
    for wiring, route in zip(wirings, routes, strict=True):
        key: object = id(wiring)
        if apart:  # then only some numbers of a wiring matter, in proportion to each other
            one = bool((route.latency == route.latency[0]).all())
            narrow = None if route.middle is None else (wiring.capacity / wiring.capacity[0]).tobytes()
            burst = None if wiring.burst is None else (wiring.burst.tobytes(), wiring.capacity.tobytes())
            ceiling = None if wiring.ceiling is None else (wiring.ceiling / wiring.capacity).tobytes()
            key = (wiring.incast is None, burst, ceiling, narrow, None if one else route.latency.tobytes())
        if key not in known:
            known[key] = _reason_on(wiring, rounds, src, route, apart=apart)
        made.append(known[key])
    return made


def _reason_on(wiring: Wiring, rounds: Sequence[Round], src: Ints, route: Route, *, apart: bool) -> str:
    """The reason on one wiring; `apart`: no two messages share a link at once."""
    if senders_share_nic(wiring, src, route):
        return "several senders meet at one NIC, whose bandwidth depends on their number"
    if not apart and (reason := _find_meeting_messages(rounds, wiring, route)):
        return reason
    if not _one_to_one(route.last, route.latency):
        return "messages reach a link with different start-ups, so that they can overtake"
    if wiring.burst is not None:
        both = (each[route.first] != each[route.last] for each in (wiring.capacity, wiring.burst))
        if any(unlike.any() for unlike in both):
            return "the links of a message differ in bandwidth or token bucket"
    return _find_narrow_link(rounds, wiring, src, route)


def messages_share_no_link(rounds: Sequence[Round], src: Ints, dst: Ints, route: Route) -> bool:
    """Whether every link serves one place, with one message of a round."""
    own_links = _one_to_one(route.first, src) and _one_to_one(route.last, dst)
    return own_links and _used_once(rounds, route.first) and _used_once(rounds, route.last)


def senders_share_nic(wiring: Wiring, src: Ints, route: Route) -> bool:
    """Whether messages of several senders arrive at a NIC whose bandwidth depends on the number of senders."""
    return wiring.incast is not None and not _one_to_one(route.last, src)


def busiest_link_decides(rounds: Sequence[Round], route: Route, capacity: Floats) -> bool:
    """Whether messages that all flow at once take as long as the busiest link, whatever else they meet.

    A message of n bytes is never slower than the least fair share s of the links on its way, the capacity over the
    number of messages there, since the others only become fewer. So max n/s bounds the time from above, as the load of
    the busiest link over its capacity does from below; where both are equal, so is the time. Where messages meet only
    at their ends, the channels of a library load these evenly, and flows agree with the busiest link.
    """
    if route.middle is None:
        return True
    nbytes = np.concatenate([item.repeat * item.nbytes[0] for item in rounds])
    count, load = np.zeros(len(capacity)), np.zeros(len(capacity))
    for links in route.links:
        on = links >= 0
        count += np.bincount(links[on & (nbytes > 0)], minlength=len(capacity))
        load += np.bincount(links[on], weights=nbytes[on], minlength=len(capacity))
    share = np.full(len(nbytes), np.inf)
    fair = capacity / np.maximum(count, 1)
    for links in route.links:
        share = np.minimum(share, np.where(links >= 0, fair[links], np.inf))
    return bool((nbytes / share).max() <= (load / capacity).max() * (1 + _ROUNDING))


def _one_to_one(links: Ints, owners: Ints | Floats) -> bool:
    """Whether every link has one owner only."""
    owner = np.empty(int(links.max()) + 1, dtype=owners.dtype)
    owner[links] = owners
    return bool((owner[links] == owners).all())


def _used_once(rounds: Sequence[Round], links: Ints) -> bool:
    """Whether no round uses a link twice."""
    return bool(np.bincount(_round_numbers(rounds) * (int(links.max()) + 1) + links).max() <= 1)


def _find_meeting_messages(rounds: Sequence[Round], wiring: Wiring, route: Route) -> str:
    """Why messages that meet on a link are not in step, or change what it carries; empty if they do not."""
    if wiring.incast is not None and not _used_once(rounds, route.last):
        return "several messages arrive at one NIC at once, whose bandwidth depends on their number"
    if wiring.burst is not None:
        return "messages share the token bucket of a link"
    for shape in dict.fromkeys(shape for shape, _ in structures(rounds)):
        made = classify([shape], wiring.route, np.zeros(len(wiring.node)), wiring.capacity)
        for end in ("out", "into"):
            owner: dict[int, int] = {}
            for classes, _ in made.programmes[shape].rounds:
                seen: dict[int, MessageClass] = {}
                for item in classes:
                    place, link = getattr(item, end)
                    if seen.setdefault(link, item) is not item or owner.setdefault(link, place) != place:
                        name = wiring.names[int(np.flatnonzero(made.of_link == link)[0])]
                        return f"messages of different workers meet on {name}"
    return ""


def _find_narrow_link(rounds: Sequence[Round], wiring: Wiring, src: Ints, route: Route) -> str:
    """The reason that names a middle link which carries less than may cross it at once; empty if there is none."""
    if route.middle is None or not (route.middle >= 0).any():
        return ""
    rate = np.minimum(_even_shares(rounds, wiring, route.first), _even_shares(rounds, wiring, route.last))
    if wiring.ceiling is not None:
        most = np.where(route.middle >= 0, wiring.ceiling[route.middle], np.inf)
        most *= np.repeat([item.connections for item in rounds], [len(item.src) for item in rounds])[:, None]
        slow = np.argwhere(most < rate[:, None] / (1 + _SAME))
        if len(slow):
            name = wiring.names[int(route.middle[tuple(slow[0])])]
            return f"one message cannot fill its links over {name}"
    number = _round_numbers(rounds)
    links, messages = [], []
    inner = np.unique(route.middle[route.middle >= 0])
    for column in (route.first, *route.middle.T):
        on = np.flatnonzero(np.isin(column, inner))
        links.append(column[on])
        messages.append(on)
    link, message = np.concatenate(links), np.concatenate(messages)
    # A place sends its messages of one round at once, and rounds one after the other: its fastest round counts.
    keys, back = np.unique(np.stack([link, src[message], number[message]]), axis=1, return_inverse=True)
    at_once = np.bincount(back.ravel(), weights=rate[message])
    ends, place = np.unique(keys[:2], axis=1, return_inverse=True)
    fastest = np.zeros(ends.shape[1])
    np.maximum.at(fastest, place.ravel(), at_once)
    total = np.bincount(ends[0], weights=fastest, minlength=len(wiring.capacity))
    over = np.flatnonzero(total > wiring.capacity * (1 + _SAME))
    return f"more may cross {wiring.names[int(over[0])]} than it carries" if len(over) else ""


def _even_shares(rounds: Sequence[Round], wiring: Wiring, links: Ints) -> Floats:
    """Bytes/s of each message if the messages of a round share `links` evenly."""
    key = _round_numbers(rounds) * len(wiring.capacity) + links
    shares: Floats = wiring.capacity[links] / np.bincount(key)[key]
    return shares


def _round_numbers(rounds: Sequence[Round]) -> Ints:
    """The number of the round of each message."""
    return np.repeat(np.arange(len(rounds)), [len(item.src) for item in rounds])
