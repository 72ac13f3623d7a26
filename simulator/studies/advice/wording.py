"""Names and figures as a person reads them, for what was looked at."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from simulator.component import Component
from simulator.scenario.scenario import Scenario
from simulator.studies.advice.candidates import Candidate
from simulator.units import show_bytes

_SIZES = ("bucket_size", "partition")


def method_of(scenario: Scenario, candidate: Candidate) -> str:
    """The method: `topk 0.01`."""
    return method_name(candidate.of(scenario))


def method_name(scenario: Scenario) -> str:
    """The scenario's method: `topk 0.01`."""
    density = getattr(scenario.sparsifier, "density", None)
    return scenario.sparsifier.kind + ("" if density is None else f" {density:.4g}")


def name_of(scenario: Scenario, candidate: Candidate) -> str:
    """A combination: `topk 0.01 (bucketed 4 MiB, ring)`."""
    made = candidate.of(scenario)
    return f"{method_name(made)} ({schedule_name(made)}, {topology_name(made)})"


def schedule_name(scenario: Scenario) -> str:
    """The schedule with the size of its buckets or slices, where it has one."""
    return scenario.scheduler.kind + _sized(scenario.scheduler)


def topology_name(scenario: Scenario) -> str:
    """The topology; where servers stand in turn, that too."""
    placement = getattr(scenario.topology, "placement", None)
    return scenario.topology.kind + (f" {placement}" if placement else "")


def _sized(component: Component) -> str:
    sizes = [value for key in _SIZES if isinstance(value := getattr(component, key, None), float)]
    return f" {show_size(sizes[0])}" if sizes else ""


def show_size(nbytes: float) -> str:
    """Bytes of a bucket, in binary units where they come out even.

    >>> show_size(4 * 2.0**20), show_size(4e6)
    ('4 MiB', '4 MB')
    """
    mebibytes = nbytes / 2.0**20
    return f"{mebibytes:g} MiB" if mebibytes == round(mebibytes) else show_bytes(nbytes)


def show_rate(value: float) -> str:
    """Bytes per second as network people say it.

    >>> show_rate(1.25e9), show_rate(1.1e7)
    ('10 Gbit/s', '88 Mbit/s')
    """
    bits = 8 * value
    return f"{bits / 1e9:.3g} Gbit/s" if bits >= 1e9 else f"{bits / 1e6:.3g} Mbit/s"


def settings(overrides: Mapping[str, Any]) -> str:
    """Overrides as options of the command line."""
    return " ".join(f"--set {quoted(f'{key}={_yaml(value)}')}" for key, value in overrides.items())


def _yaml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_yaml(item)}" for key, item in value.items()) + "}"
    return str(value)


def quoted(text: str) -> str:
    """A word of a shell's command line, in quotes where it needs them.

    >>> quoted("scheduler=mg_wfbp"), quoted("sparsifier={kind: topk}")
    ('scheduler=mg_wfbp', "'sparsifier={kind: topk}'")
    """
    return shlex.quote(text)
