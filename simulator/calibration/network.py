"""Calibration of a network: a link law, and a curve for every measured worker count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from simulator.calibration.collectives import CollectiveTimings, Key
from simulator.calibration.fits.accuracy import refuse_useless
from simulator.calibration.fits.families import Repeats
from simulator.calibration.fits.selection import fit_curve
from simulator.calibration.laws import (
    CALL_TERMS,
    FREE,
    IN_SWITCH,
    LinkLaw,
    NcclLaw,
    describe_library,
    fit_law,
    fit_nccl_law,
    fit_sums_in_switch,
    summed_in_switch,
    with_sums_in_switch,
)
from simulator.calibration.network_fit import LARGE, Fit, Law, LawFit, NetworkFit, law_errors, part_errors
from simulator.component import build, discover
from simulator.engine.refusals import as_input_error
from simulator.errors import InputError, Problem, suggest_nearest
from simulator.fabrics.base import Fabric
from simulator.models.curves import Floats
from simulator.models.exchange import PRIMITIVES
from simulator.models.groups import group_by, leave_out
from simulator.progress import Watch
from simulator.records import asdict
from simulator.scenario.named_parts import read_part
from simulator.topologies.base import Topology
from simulator.topologies.nccl_tuning import NEWEST, RING, SIMPLE, tables_of

_LEAST_SIZES = 3
_UPPER = 0.75
NCCL = "nccl"
_ORDER = {NCCL: 0, "ring": 1}


def calibrate_network(
    measured: CollectiveTimings,
    base: Fabric,
    *,
    free: Sequence[str] = (),
    algorithms: Mapping[str, str] | None = None,
    law_from: float = LARGE,
    hardware: bool = True,
    watch: Watch | None = None,
) -> NetworkFit:
    """Fit curves to every series of two sizes or more, and link laws to those of payloads of at least `law_from` bytes.

    Where NCCL chose the algorithm of series between nodes, and no terms to be fitted are given (`free`), the law is
    that of NCCL, for all sizes. `hardware`: `base` describes the machine that was measured, and is not only a start.

    `algorithms`: the topology of each primitive (default: the one that the log forced, otherwise ring). Where some
    series of an algorithm were forced and others were the choice of NCCL, the law is fitted to the forced ones only.
    `watch` is shown the progress. Raises InputError where no series has enough sizes for a law, or the one that goes
    into the config says nothing about the measurements.
    """
    watch = watch or Watch()
    series = measured.series()
    alone = [key for key, item in series.items() if len(item.sizes) < 2]
    measured.notes.extend(f"{key.text} is left out: it has one size only" for key in alone)
    series = {key: item for key, item in series.items() if key not in alone}
    watch.expect(len(series))
    curves = {}
    for key, item in series.items():
        # Moving bytes never takes n log n.
        curves[key] = fit_curve(item, lambda name: name != "n_log_n")
        watch.step()
    across = any(key.topology == NCCL and key.nodes > 1 for key in series)

    def algorithm_of(key: Key) -> str:
        # Inside one node NCCL's rings are those of the links; between nodes it changes algorithm and protocol.
        chosen = NCCL if across and not free else "ring"
        return (algorithms or {}).get(key.primitive) or (chosen if key.topology == NCCL else key.topology)

    laws, device = [], " ".join(measured.devices)
    groups = sorted(group_by(series, algorithm_of).items(), key=lambda pair: _ORDER.get(pair[0], 9))
    watch.expect(len(groups))
    for name, keys in groups:
        watch.step()
        if name == NCCL:
            members = {key: series[key] for key in keys}
            _check_feasible(members, NcclLaw(base, device))
            described = describe_library(base, measured.settings, hardware)
            found = _fit(members, partial(fit_nccl_law, base=described, device=device), ("bandwidth",))
            laws.append(LawFit(name, members, found, None))
            continue
        forced = [key for key in keys if key.topology != NCCL]
        used = _select_large_sizes({key: series[key] for key in forced or keys}, law_from)
        if used and name == "ring" and not (algorithms or free):
            laws.append(_fit_inside(used, base, device, measured.settings, hardware))
        elif used:
            laws.append(_fit_links(used, base, name, free))
    if not laws:
        what = f"a series of {_LEAST_SIZES} sizes or more"
        raise InputError(Problem("calibrate network", what, f"{len(series) + len(alone)} shorter ones"))
    error = float(np.abs(laws[0].chosen.fitted).mean())
    hint = "give the machine with --fabric (NICs, links inside a node), or fit fewer series together (--where)"
    what = f"a law of {laws[0].algorithm} that describes the measurements"
    if useless := refuse_useless("calibrate network", what, error, hint):
        raise InputError(useless)
    return NetworkFit(base, measured, curves, tuple(laws))


def judge_parts(fit: NetworkFit, others: CollectiveTimings | None = None) -> dict[str, Mapping[str, Any] | None]:
    """Errors by rate and start-up, as the cases of `configs/network_widths.yaml` have them.

    `described`: of the network from which the fit started, by NCCL's constants, where NCCL chose the algorithms;
    `left_out`: of the law at every second size; `judged`: of the law on other timings.
    """
    law = fit.laws[0]
    device = " ".join(fit.measured.devices)
    by_nccl = all(key.topology == NCCL for key in law.series)
    described = NcclLaw(describe_library(fit.base, fit.measured.settings, reported=True), device)
    found = {
        "described": part_errors(described, law.series) if by_nccl else None,
        "left_out": law.chosen.parts,
        "judged": part_errors(law.chosen.law, others.series()) if others is not None else None,
    }
    return {name: asdict(item) if item else None for name, item in found.items()}


def _fit_links(series: Mapping[Key, Repeats], base: Fabric, name: str, free: Sequence[str]) -> LawFit:
    """The link law of an algorithm; with other costs of a call, too, where several worker counts can show them."""
    _check_feasible(series, LinkLaw(base, name))

    def fit(terms: tuple[str, ...]) -> Fit:
        return _fit(series, partial(fit_law, base=base, algorithm=name, free=terms), terms)

    terms = tuple(free) or FREE[:2]
    several = len({key.workers for key in series}) > 1
    return LawFit(name, series, fit(terms), fit(tuple(dict.fromkeys((*terms, *CALL_TERMS)))) if several else None)


def _fit_inside(
    series: Mapping[Key, Repeats], base: Fabric, device: str, settings: Sequence[str], hardware: bool
) -> LawFit:
    """The link law of NCCL's rings inside a node, and the share of the rate that sums in the switch reach."""
    in_switch = summed_in_switch(series, NcclLaw(base, device), settings)
    rings = {key: item for key, item in series.items() if key not in in_switch}
    if not rings:
        fit = partial(fit_sums_in_switch, base=base, device=device, hardware=hardware)
        return LawFit(NCCL, series, _fit(series, fit, ()), None)
    if len({key.workers for key in rings}) > 1 or any(key.topology != NCCL for key in rings):
        made = _fit_links(rings, base, "ring", ())
    else:
        # One worker count does not separate steps from calls; NCCL's constant for a step of a ring over NVLink does.
        step = float(tables_of(NEWEST).hop["nvlink"][RING, SIMPLE])
        start = base.model_copy(update={"latency": base.latency or step})
        made = _fit_links(rings, start, "ring", ("bandwidth", "collective_start_up"))
    if not in_switch:
        return made
    return made.with_fabric(with_sums_in_switch(in_switch, NcclLaw(made.chosen.law.fabric, device)).fabric)


def _check_feasible(series: Mapping[Key, Repeats], law: LinkLaw | NcclLaw) -> None:
    for key, item in series.items():
        with as_input_error(f"{key.text} by {law.algorithm} on {law.fabric.kind}"):
            law.time(key, item.sizes[:1])


def _fit(series: Mapping[Key, Repeats], fit: Callable[[Mapping[Key, Repeats]], Law], free: tuple[str, ...]) -> Fit:
    """A law, and its errors where worker counts, every second size and the largest sizes were left out.

    Of the law of NCCL also those where numbers of nodes were.
    """

    def left_out(of: Callable[[Key], int]) -> dict[int, Floats]:
        made = {}
        for count, held, others in sorted(leave_out(series.items(), lambda pair: of(pair[0])), key=itemgetter(0)):
            law = fit(dict(others)) if not by_nccl or any(key.nodes > 1 for key, _ in others) else None
            if law and not any(name.endswith("bandwidth") and name not in CALL_TERMS for name in law.unseen):
                made[count] = law_errors(law, dict(held))
        return made

    law = fit(series)
    by_nccl = isinstance(law, NcclLaw)
    lower, upper = _split_sizes(series)
    odd, even = ({key: item.at(slice(start, None, 2)) for key, item in series.items()} for start in (0, 1))
    half = fit(odd)
    return Fit(
        law=law,
        free=free,
        left_out=left_out(lambda key: key.workers),
        nodes_left_out=left_out(lambda key: key.nodes) if by_nccl else {},
        beyond=law_errors(fit(lower), upper) if lower else np.zeros(0),
        fitted=law_errors(law, series),
        between=law_errors(half, even) if by_nccl else np.zeros(0),
        parts=part_errors(half, even),
    )


def _split_sizes(series: Mapping[Key, Repeats]) -> tuple[dict[Key, Repeats], dict[Key, Repeats]]:
    """The series below, and above, three quarters of the range of their sizes on a log axis."""
    lower, upper = {}, {}
    for key, item in series.items():
        logs = np.log(item.sizes)
        above = logs > logs[0] + _UPPER * (logs[-1] - logs[0])
        if (~above).sum() >= _LEAST_SIZES:
            lower[key], upper[key] = item.at(~above), item.at(above)
    return lower, upper


def _select_large_sizes(series: Mapping[Key, Repeats], law_from: float) -> dict[Key, Repeats]:
    """Sizes from `law_from` on, or all sizes of a series that has too few such."""
    large = {key: item.at(item.sizes >= law_from) for key, item in series.items()}
    kept = {key: item if len(item.sizes) >= _LEAST_SIZES else series[key] for key, item in large.items()}
    return {key: item for key, item in kept.items() if len(item.sizes) >= _LEAST_SIZES}


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
