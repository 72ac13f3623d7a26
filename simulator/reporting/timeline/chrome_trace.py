"""A timeline in Chrome's Trace Event Format (JSON), which Perfetto (https://ui.perfetto.dev) and others open.

Times are in microseconds. Every group of tracks is a process and every track a thread of it, named by metadata events
(`M`); slices are complete events (`X`), arrows pairs of flow events (`s`, `f`) that bind to the slices around them, and
counters counter events (`C`). Perfetto cuts times to whole nanoseconds; the file has all digits.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from math import nextafter
from typing import Any

from simulator.models.timeline import Slice, Timeline

_MICRO = 1e6


def trace_bytes(timeline: Timeline, compressed: bool = True) -> bytes:
    """The file's content; the same timeline gives the same bytes."""
    document = {
        "traceEvents": list(_events(timeline)),
        "displayTimeUnit": "ms",
        "otherData": timeline.about,
    }
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return gzip.compress(text.encode(), mtime=0) if compressed else text.encode()


def _events(timeline: Timeline) -> Iterator[dict[str, Any]]:
    drawn = [track.group for track in timeline.tracks]
    groups = dict.fromkeys([*drawn[:1], *(counter.group for counter in timeline.counters), *drawn])
    process = {group: number for number, group in enumerate(groups, 1)}
    for group, pid in process.items():
        yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": group}}
        yield {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}
    places = []
    for tid, track in enumerate(timeline.tracks, 1):
        place = {"pid": process[track.group], "tid": tid}
        places.append(place)
        yield {"ph": "M", **place, "name": "thread_name", "args": {"name": track.name}}
        yield {"ph": "M", **place, "name": "thread_sort_index", "args": {"sort_index": tid}}
    for place, track in zip(places, timeline.tracks, strict=True):
        for item in track.slices:
            yield {"ph": "X", **place, **_slice_event(item)}
    for number, arrow in enumerate(timeline.arrows, 1):
        common = {"cat": "gradient", "name": arrow.name, "id": number}
        (source, left), (target, arrives) = arrow.source, arrow.target
        yield {"ph": "s", **places[source], "ts": left * _MICRO, **common}
        yield {"ph": "f", "bp": "e", **places[target], "ts": arrives * _MICRO, **common}
    for counter in timeline.counters:
        named: dict[str, Any] = {"pid": process[counter.group], "name": counter.name}
        for moment, values in counter.points:
            yield {
                "ph": "C",
                **named,
                "ts": moment * _MICRO,
                "args": dict(zip(counter.series, values, strict=True)),
            }


def _slice_event(item: Slice) -> Mapping[str, Any]:
    start, end = item.start * _MICRO, item.end * _MICRO
    # A reader adds the two up again, and may first cut each to nanoseconds; neither may reach into the next slice.
    cut = int(end * 1e3) - int(start * 1e3)
    duration = end - start
    if int(duration * 1e3) > cut:
        duration = cut / 1e3
    while start + duration > end:  # by the last digit
        duration = nextafter(duration, 0.0)
    made = {"name": item.name, "cat": item.category, "ts": start, "dur": duration}
    return made | {"args": item.details} if item.details else made
