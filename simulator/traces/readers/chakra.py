"""Chakra execution traces in their JSON forms: computation and communication of one worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, Literal

from simulator.errors import Problem, format_value
from simulator.records import Record
from simulator.traces.readers.collective_names import OF_CHAKRA, collective_within
from simulator.traces.readers.kineto.events import ITEMSIZE, MOST_TIME, text_of, whole
from simulator.traces.readers.streams import Contents, contents_of, json_members

MAX_PROBLEMS = 20
_MAX_KEYS = 100
_MOST_NAMED = 5
_KINDS: dict[int | str, Literal["compute", "collective", "send", "receive"]] = {
    **dict.fromkeys((4, "COMP_NODE"), "compute"),
    **dict.fromkeys((5, "COMM_SEND_NODE"), "send"),
    **dict.fromkeys((6, "COMM_RECV_NODE"), "receive"),
    **dict.fromkeys((7, "COMM_COLL_NODE"), "collective"),
}
"""By number and name of NodeType."""


class ChakraNode(Record):
    """One node: seconds (0: not recorded), bytes that it communicates, and the nodes that it depends on.

    `collective` is set for collectives; `group` is the number of workers where the trace says so, else 0.
    """

    id: int
    name: str
    kind: Literal["compute", "collective", "send", "receive"]
    seconds: float
    collective: str
    nbytes: int
    group: int
    waits_for: tuple[int, ...]


def read_chakra(path: Path) -> Contents[ChakraNode]:
    """Read a Chakra execution trace as JSON, plain or gzip, one node in memory at a time.

    Three forms: the output of `chakra_jsonizer` for the protobuf (objects one after another, camelCase), the feeder's
    `workload_graph`, and PyTorch's ExecutionTraceObserver (`nodes` with `attrs`, schema 1.0.2 to 1.1.1), where
    `record_param_comms` nodes are the collectives, and durations exist only after linking with a device trace.
    Protobuf files (.et) are not read: convert them with chakra_jsonizer. A malformed node is a problem with its number.
    """
    problems: list[Problem] = []
    nodes: list[ChakraNode] = []
    for count, item in enumerate(_items(path, problems), start=1):
        try:
            # None for metadata, memory and host operations.
            node = _graph_node(item) if "NodeType" in item or "type" in item else _observer_node(item)
        except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError):
            if len(problems) < MAX_PROBLEMS:
                problems.append(Problem(f"{path}: node {count}", "a node of a Chakra trace", format_value(item)))
            continue
        if node is not None:
            nodes.append(node)
    try:
        TopologicalSorter({node.id: node.waits_for for node in nodes}).prepare()
    except CycleError as error:
        got = " waits for ".join(map(str, error.args[1][::-1][:_MOST_NAMED]))
        problems.append(Problem(str(path), "nodes that wait for earlier ones", f"node {got}"))
    nothing = Problem(str(path), "a Chakra execution trace in JSON", "no compute or communication nodes")
    return contents_of(nodes, problems, nothing)


def _items(path: Path, problems: list[Problem]) -> Iterator[Any]:
    """The nodes of any of the forms; the first of several objects is metadata, or a node like the others."""
    first: dict[str, Any] | None = {}
    for key, item in json_members(path, {"nodes", "workload_graph"}, problems):
        if key and key not in ("nodes", "workload_graph"):
            if first is not None and len(first) < _MAX_KEYS:
                first[key] = item
            continue
        if first is not None and "type" in first:
            yield first
        first = None
        yield item
    if first is not None and "type" in first:
        yield first


def _graph_node(item: Mapping[str, Any]) -> ChakraNode | None:
    """A node of the protobuf as JSON (int64 as text, zeros left out), or of the feeder's `workload_graph`."""
    fed = "NodeType" in item
    kind = _KINDS.get(item["NodeType" if fed else "type"])
    if kind is None:
        return None
    attributes = item if fed else {entry["name"]: _attribute_value(entry) for entry in item.get("attr", ())}
    time = item.get("runtime", 0) if fed else item.get("durationMicros", item.get("duration_micros", 0))
    return ChakraNode(
        id=whole(item["Id"] if fed else item.get("id", 0)),
        name=text_of(item.get("Name" if fed else "name", "")),
        kind=kind,
        seconds=_seconds(time),
        collective=OF_CHAKRA[_count(attributes.get("comm_type", 0))] if kind == "collective" else "",
        nbytes=_count(attributes.get("comm_size", 0)),
        group=0,
        waits_for=_ids(item, *(("data_deps",) if fed else ("ctrlDeps", "ctrl_deps", "dataDeps", "data_deps"))),
    )


def _observer_node(item: Mapping[str, Any]) -> ChakraNode | None:
    """A node of PyTorch's observer: a collective, or a kernel that linking has added to the host operations."""
    attributes = {entry["name"]: entry["value"] for entry in item.get("attrs", ())}
    name, waits_for = text_of(item["name"]), _ids(item, "ctrl_deps")
    seconds = _seconds(item.get("exclusive_dur") or item.get("inclusive_dur") or 0)
    if "collective_name" in attributes:
        most = max(_count(attributes.get(key, 0)) for key in ("in_msg_nelems", "out_msg_nelems"))
        size = ITEMSIZE.get(str(attributes.get("dtype", "")).strip('"').lower(), 0)
        group = _count(attributes.get("pg_size", attributes.get("group_size", 0)))
        collective = collective_within(str(attributes["collective_name"]))
        return ChakraNode(whole(item["id"]), name, "collective", seconds, collective, most * size, group, waits_for)
    if item.get("cat") == "kernel":
        return ChakraNode(whole(item["id"]), name, "compute", seconds, "", 0, 0, waits_for)
    return None


def _attribute_value(entry: Mapping[str, Any]) -> Any:
    """The value of a protobuf attribute, under whichever of its names."""
    values = [value for key, value in entry.items() if key not in ("name", "docString", "doc_string")]
    return values[0] if values else 0


def _ids(item: Mapping[str, Any], *keys: str) -> tuple[int, ...]:
    found: list[Any] = []
    for key in keys:
        ids = item.get(key) or []
        found += ids if isinstance(ids, list) else [ids]
    return tuple(whole(number) for number in found)


def _seconds(microseconds: Any) -> float:
    value = float(microseconds)
    if not 0 <= value <= MOST_TIME:
        raise ValueError(value)
    return value * 1e-6


def _count(value: Any) -> int:
    number = whole(value)
    if number < 0:
        raise ValueError(number)
    return number
