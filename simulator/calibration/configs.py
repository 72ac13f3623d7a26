"""The text of a config from the result of a calibration, with errors and source."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from simulator.calibration.fits.accuracy import ErrorStatistics
from simulator.calibration.fits.families import piecewise_points
from simulator.calibration.kernels import KernelFit
from simulator.calibration.network_fit import NetworkFit
from simulator.calibration.yaml_text import (
    bytes_text,
    flow_text,
    folded_lines,
    percent_text,
    rate_text,
    scalar_text,
    time_text,
)
from simulator.hardware.machine import LibraryTerms
from simulator.models.curves import Affine
from simulator.records import Record, field


class About(Record):
    """What a config says about its numbers: a name, the source of the data in words, and the SHA-256 of each file."""

    name: str
    source: str
    digests: Mapping[str, str] = field(default_factory=dict)
    device: str = ""
    software: str = ""
    measured_on: str = ""
    setting: str = ""
    memory_bandwidth: float | None = None
    command: str = "calibrate"

    def comment(self) -> list[str]:
        """The comment lines: tool and version, date, and each file with its digest."""
        today = datetime.date.today().isoformat()
        lines = [f"# Written by `sparsim {self.command}` {version('sparsim')} on {today}. SHA-256 of the data:"]
        lines += [f"# {digest}  {name}" for name, digest in self.digests.items()]
        lines += [
            f"# {label}: {text}" for label, text in (("Dates", self.measured_on), ("Setting", self.setting)) if text
        ]
        return lines


def network_config(fit: NetworkFit, about: About) -> str:
    """A network config: the base with fitted links, and a measured curve for each series of a worker count.

    `held_out_mape` of the network is that of the link law, at worker counts left out or at sizes beyond those fitted;
    that of a curve is its own, at sizes left out.
    """
    fabric = fit.fabric
    base = fabric.described("json")
    lines = ["# yaml-language-server: $schema=../schema/network.json", *about.comment()]
    lines += [
        f"kind: {fabric.kind}",
        f"name: {scalar_text(about.name)}",
        *folded_lines("source", _source_text(fit, about)),
    ]
    lines += [f"bandwidth: {rate_text(fabric.bandwidth)}", f"latency: {time_text(fabric.latency)}"]
    if fit.law_mape is not None:
        lines.append(f"held_out_mape: {percent_text(fit.law_mape)}")
    lines.append(f"fitted_for: {flow_text(_fitted_for(fit))}")
    if fabric.intra_node is not None:
        inner = {"bandwidth": rate_text(fabric.intra_node.bandwidth), "latency": time_text(fabric.intra_node.latency)}
        kept = {key: value for key, value in base["intra_node"].items() if value and key not in inner}
        lines.append(f"intra_node: {flow_text(inner | kept)}")
    given = (
        "kind",
        "name",
        "source",
        "bandwidth",
        "latency",
        "held_out_mape",
        "fitted_for",
        "intra_node",
        "nccl",
        "measured",
    )
    usual = type(fabric).model_fields
    for key, value in base.items():
        if key not in given and getattr(fabric, key) != usual[key].default:
            lines.append(f"{key}: {flow_text(value)}")
    lines += _nccl_lines(fabric.nccl)
    lines.append("measured:")
    for measured, curve in fit.curves.items():
        sizes = curve.measured.sizes
        lines += [
            f"  - primitive: {measured.primitive}",
            f"    topology: {measured.topology}",
            f"    workers: {measured.workers}",
            f"    gpus_per_node: {measured.gpus_per_node}",
            f"    bandwidth: {rate_text(fabric.bandwidth)}",
            f"    latency: {time_text(fabric.latency)}",
        ]
        if curve.interpolation is not None:
            lines.append(
                f"    held_out_mape: {percent_text(curve.interpolation.mape)}  # {curve.interpolation.n} sizes"
            )
        spread = curve.measured.spread
        words = f"{len(sizes)} sizes, {curve.chosen.family} on log axes" + (
            f"; repeats of a size spread by {percent_text(spread)} (median)" if spread is not None else ""
        )
        lines += [f"    source: {scalar_text(words)}", "    points:"]
        points = piecewise_points(curve.chosen.predict, sizes, _tolerance(curve.interpolation))
        lines += [f"      - [{bytes_text(size)}, {time_text(time)}]" for size, time in points]
    return "\n".join(lines) + "\n"


def _fitted_for(fit: NetworkFit) -> Mapping[str, Any]:
    """The clusters and the smallest payload that the law was fitted to, and its errors by part."""
    law, fabric = fit.laws[0], fit.fabric
    nodes = [key.workers // key.gpus_per_node for key in law.series]
    gpus = [key.gpus_per_node for key in law.series]
    made: dict[str, Any] = {"nodes": max(nodes), "gpus_per_node": max(gpus)}
    if min(nodes) < max(nodes):
        made["fewest_nodes"] = min(nodes)
    if min(gpus) < max(gpus):
        made["fewest_gpus_per_node"] = min(gpus)
    made |= {
        "bandwidth": rate_text(fabric.bandwidth),
        "latency": time_text(fabric.latency),
        "smallest": bytes_text(min(float(item.sizes[0]) for item in law.series.values())),
    }
    if fabric.nccl.version:
        made["version"] = fabric.nccl.version
    parts = law.chosen.parts
    errors = {"rate": parts.rate, "start_up": parts.start_up} if parts else {}
    return made | {name: percent_text(value) for name, value in errors.items() if value is not None}


def _nccl_lines(terms: LibraryTerms) -> list[str]:
    """What was found of NCCL, a line for each term and for each point of the time of a step."""
    lines = [f"  {name}: {scalar_text(value)}" for name in ("version",) if (value := getattr(terms, name)) is not None]
    if terms.ll128 is not None:
        lines.append(f"  ll128: {str(terms.ll128).lower()}")
    if terms.reported_bandwidth is not None:
        lines.append(f"  reported_bandwidth: {rate_text(terms.reported_bandwidth)}")
    if terms.latency is not None:
        lines.append(f"  latency: {time_text(terms.latency)}")
    if terms.hop_latency:
        latencies = {key: time_text(value) for key, value in terms.hop_latency.items()}
        lines.append(f"  hop_latency: {flow_text(latencies)}")
    if terms.efficiency:
        shares = {key: percent_text(value) for key, value in terms.efficiency.items()}
        lines.append(f"  efficiency: {flow_text(shares)}")
    if terms.step_overhead:
        lines.append("  step_overhead:")
        lines += [f"    - [{bytes_text(size)}, {time_text(time)}]" for size, time in terms.step_overhead]
    return ["nccl:", *lines] if lines else []


def gpu_config(fits: Mapping[str, KernelFit], about: About) -> str:
    """A GPU config: one curve for each kernel, with its range, spread and held-out error."""
    lines = ["# yaml-language-server: $schema=../schema/gpu.json", *about.comment(), f"name: {scalar_text(about.name)}"]
    if about.device:
        lines.append(f"device: {scalar_text(about.device)}")
    if about.software:
        lines.append(f"software: {scalar_text(about.software)}")
    if about.memory_bandwidth:
        lines.append(f"memory_bandwidth: {rate_text(about.memory_bandwidth)}  # vendor data sheet")
    lines += [*folded_lines("source", about.source), "kernels:"]
    for name, fit in fits.items():
        low, high = float(fit.sizes[0]), float(fit.sizes[-1])
        lines.append(f"  {name}:")
        curve = fit.curve
        if curve is not None:
            factor = ("slope", curve.slope) if isinstance(curve, Affine) else ("coefficient", curve.coefficient)
            lines += [f"    curve: {curve.curve}", f"    intercept: {time_text(curve.intercept)}"]
            lines.append(f"    {factor[0]}: {time_text(factor[1])}")
        else:
            points = piecewise_points(fit.predict, fit.sizes, _tolerance(ErrorStatistics.of(fit.held_errors)))
            lines += ["    curve: piecewise", "    points:"]
            lines += [f"      - [{size:.10g}, {time_text(time)}]" for size, time in points]
        lines.append(f"    range: [{low:.10g}, {high:.10g}]")
        if fit.spread > 0:
            lines.append(f"    spread: {percent_text(fit.spread)}")
        if fit.held_out_mape is not None:
            lines.append(f"    held_out_mape: {percent_text(fit.held_out_mape)}")
        words = f"{fit.count} timings, {fit.family}" + (f" over size and {fit.axis}" if fit.axis else "")
        lines.append(f"    source: {scalar_text(words)}")
    return "\n".join(lines) + "\n"


def _source_text(fit: NetworkFit, about: About) -> str:
    """The source in words, with the measurements that the link law is fitted to."""
    law = fit.laws[0]
    parts = [about.source.rstrip("."), f"Link law: {law.algorithm} over {', '.join(key.text for key in law.series)}"]
    if law.chosen.left_out:
        errors = [
            f"{percent_text(float(abs(found).mean()))} at {count}" for count, found in law.chosen.left_out.items()
        ]
        parts.append(f"Its error at worker counts left out: {', '.join(errors)}")
    if law.chosen.law.unseen:
        parts.append(f"These data say nothing about {', '.join(law.chosen.law.unseen)}")
    return ". ".join(part for part in parts if part) + "."


def _tolerance(held: ErrorStatistics | None) -> float:
    """Error that points may add to the curve: a fifth of the error of the curve itself, from 0.2 to 1 %."""
    return min(1e-2, max(2e-3, held.mape / 5)) if held else 2e-3
