"""Options of `sparsim calibrate network`: the fabric to start from, the terms to fit, and algorithms."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.calibration.collectives import PRIMITIVES, CollectiveTimings
from simulator.calibration.link_law import IN_SWITCH
from simulator.calibration.terms import FREE
from simulator.component import build, discover
from simulator.errors import InputError, Problem, suggest_nearest
from simulator.fabrics.base import Fabric
from simulator.scenario.named_parts import read_part
from simulator.topologies.base import Topology


def base_fabric(name: str | None, measured: CollectiveTimings) -> Fabric:
    """The network config with a name or path; without one a switch, inside the node or between nodes.

    Bandwidth and latency of that switch are only the starting point of a fit. Raises InputError for a config that is
    missing or not a network.
    """
    if name is None:
        inside = all(item.key.nodes == 1 for item in measured.samples)
        return build(Fabric, {"kind": "nvswitch" if inside else "single_switch", "bandwidth": 1e9})
    made: Fabric = read_part(name, "networks", "--fabric")
    return made


def free_terms(names: Sequence[str], base: Fabric) -> tuple[str, ...]:
    """The terms to fit, as named. Raises InputError for an unknown one."""
    for name in names:
        if name not in FREE:
            raise InputError(Problem("--fit", "a term of a fabric", name, suggest_nearest(name, FREE)))
        if "." in name and base.intra_node is None:
            hint = "give a network that has `intra_node` as --fabric"
            raise InputError(Problem("--fit", "a fabric with `intra_node`", f"{name} of {base.kind}", hint))
    return tuple(dict.fromkeys(names))


def parse_algorithms(texts: Sequence[str]) -> dict[str, str]:
    """Algorithms by primitive, from texts such as all_reduce=in_switch. Raises InputError for any other text."""
    kinds = sorted({*discover(Topology), IN_SWITCH} - {"mpi", "nccl", "parameter_server"})
    made = {}
    for text in texts:
        primitive, _, kind = text.partition("=")
        if primitive not in PRIMITIVES or kind not in kinds:
            what = f"PRIMITIVE=ALGORITHM of {', '.join(PRIMITIVES)} and {', '.join(kinds)}"
            raise InputError(Problem("--algorithm", what, text))
        made[primitive] = kind
    return made
