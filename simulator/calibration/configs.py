"""What a calibration found, as the text of a config: with its evidence, and where it comes from."""

from __future__ import annotations

import datetime
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import yaml

from simulator.calibration.accuracy import Errors
from simulator.calibration.families import points_of
from simulator.calibration.kernels import KernelFit
from simulator.calibration.link_law import term
from simulator.calibration.network import NetworkFit
from simulator.models.curves import Affine

_WIDTH = 116
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"), (1e-12, "ps"))
_RATES = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s"))


@dataclass(frozen=True, slots=True)
class About:
    """What goes above the numbers: a name, where the data come from in words, and the files' SHA-256 by name."""

    name: str
    source: str
    digests: Mapping[str, str] = field(default_factory=dict)
    device: str = ""
    software: str = ""
    measured_on: str = ""
    command: str = "calibrate"

    def comment(self) -> list[str]:
        """Comment lines: tool and version, date, and each file with its digest."""
        today = datetime.date.today().isoformat()
        lines = [f"# Written by `sparsim {self.command}` {version('sparsim')} on {today}. SHA-256 of the data:"]
        lines += [f"# {digest}  {name}" for name, digest in self.digests.items()]
        return lines + ([f"# Measured on {self.measured_on}."] if self.measured_on else [])


def network_config(fit: NetworkFit, about: About) -> str:
    """A network config: the base with fitted links, and a measured curve for each series of a worker count.

    `held_out_mape` of the whole is the law's, at worker counts left out or beyond the sizes fitted; that of a curve its
    own, at sizes left out.
    """
    fabric, base = fit.fabric, fit.base.described("json")
    lines = ["# yaml-language-server: $schema=../schema/network.json", *about.comment()]
    lines += [f"kind: {fabric.kind}", f"name: {_scalar(about.name)}", *_folded("source", _said(fit, about))]
    lines += [f"bandwidth: {show_rate(fabric.bandwidth)}", f"latency: {show_time(fabric.latency)}"]
    if fit.law_mape is not None:
        lines.append(f"held_out_mape: {_percent(fit.law_mape)}")
    if fabric.intra_node is not None:
        inner = {"bandwidth": show_rate(fabric.intra_node.bandwidth), "latency": show_time(fabric.intra_node.latency)}
        kept = {key: value for key, value in base["intra_node"].items() if value and key not in inner}
        lines.append(f"intra_node: {_flow(inner | kept)}")
    given = ("kind", "name", "source", "bandwidth", "latency", "held_out_mape", "intra_node", "measured")
    usual = type(fabric).model_fields
    for key, value in base.items():
        if key not in given and getattr(fabric, key) != usual[key].default:
            lines.append(f"{key}: {_flow(value)}")
    lines.append("measured:")
    for measured, curve in fit.curves.items():
        sizes = curve.measured.sizes
        lines += [
            f"  - primitive: {measured.primitive}",
            f"    topology: {measured.topology}",
            f"    workers: {measured.workers}",
            f"    gpus_per_node: {measured.gpus_per_node}",
            f"    bandwidth: {show_rate(fabric.bandwidth)}",
            f"    latency: {show_time(fabric.latency)}",
        ]
        if curve.interpolation is not None:
            lines.append(f"    held_out_mape: {_percent(curve.interpolation.mape)}  # {curve.interpolation.n} sizes")
        spread = curve.measured.spread
        words = f"{len(sizes)} sizes, {curve.chosen.family} on log axes" + (
            f"; repeats of a size spread by {_percent(spread)} (median)" if spread is not None else ""
        )
        lines += [f"    source: {_scalar(words)}", "    points:"]
        points = points_of(curve.chosen.predict, sizes, _tolerance(curve.interpolation))
        lines += [f"      - [{show_bytes(size)}, {show_time(time)}]" for size, time in points]
    return "\n".join(lines) + "\n"


def gpu_config(fits: Mapping[str, KernelFit], about: About, notes: Mapping[str, str] | None = None) -> str:
    """A GPU config: one curve for each kernel, with its range, spread and held-out error."""
    lines = ["# yaml-language-server: $schema=../schema/gpu.json", *about.comment(), f"name: {_scalar(about.name)}"]
    if about.device:
        lines.append(f"device: {_scalar(about.device)}")
    if about.software:
        lines.append(f"software: {_scalar(about.software)}")
    lines += [*_folded("source", about.source), "kernels:"]
    for name, fit in fits.items():
        low, high = float(fit.measured.sizes[0]), float(fit.measured.sizes[-1])
        lines.append(f"  {name}:")
        curve = fit.fitted_curve.curve if fit.fitted_curve else None
        if curve is not None:
            factor = ("slope", curve.slope) if isinstance(curve, Affine) else ("coefficient", curve.coefficient)
            lines += [f"    curve: {curve.curve}", f"    intercept: {show_time(curve.intercept)}"]
            lines.append(f"    {factor[0]}: {show_time(factor[1])}")
        else:
            points = points_of(fit.predict, fit.measured.sizes, _tolerance(Errors.of(fit.held_errors)))
            lines += ["    curve: piecewise", "    points:"]
            lines += [f"      - [{size:.10g}, {show_time(time)}]" for size, time in points]
        lines.append(f"    range: [{low:.10g}, {high:.10g}]")
        if fit.spread > 0:
            lines.append(f"    spread: {_percent(fit.spread)}")
        if fit.held_out_mape is not None:
            lines.append(f"    held_out_mape: {_percent(fit.held_out_mape)}")
        words = f"{fit.count} timings, {fit.family}" + (f" over size and {fit.axis}" if fit.axis else "")
        note = (notes or {}).get(name, "")
        lines += _folded("source", f"{words}. {note}" if note else words, indent=4)
    return "\n".join(lines) + "\n"


def _said(fit: NetworkFit, about: About) -> str:
    """The source in words, with what the law rests on."""
    law = fit.laws[0]
    parts = [about.source.rstrip("."), f"link law: {law.algorithm} over {', '.join(key.text for key in law.series)}"]
    if law.plain.unseen:
        parts.append(f"these data say nothing about {', '.join(law.plain.unseen)}")
    extended = law.extended
    if extended.start_up or extended.local:
        own = [f"{name} {_shown_term(name, term(extended.fabric, name))}" for name in fit.free]
        own.append(f"{show_time(extended.start_up)} once")
        own.append(f"{show_time(1e9 * extended.local)} per GB within the GPU")
        errors = _mape(law.worker_errors(extended=True))
        known = f" ({errors} at worker counts left out)" if errors else ""
        parts.append(f"with two terms more, which a config does not carry{known}: {', '.join(own)}")
    return ". ".join(part[:1].upper() + part[1:] for part in parts if part) + "."


def _tolerance(held: Errors | None) -> float:
    """How far points may be off the curve: a fifth of what it is off itself, from 0.1 to 1 %."""
    return min(1e-2, max(1e-3, held.mape / 5)) if held else 2e-3


def _mape(signed: Any) -> str:
    return _percent(float(abs(signed).mean())) if len(signed) else ""


def _shown_term(name: str, value: float) -> str:
    return show_rate(value) if name.endswith("bandwidth") else show_time(value)


def show_time(seconds: float) -> str:
    """Seconds with five digits and a unit, as configs are written.

    >>> show_time(0.00111734), show_time(1.443e-11), show_time(0)
    ('1.1173 ms', '14.43 ps', '0 s')
    """
    return _scaled(seconds, _UNITS) if seconds > 0 else "0 s"


def show_rate(rate: float) -> str:
    """Bytes per second with five digits and a unit.

    >>> show_rate(1174300000.0)
    '1.1743 GB/s'
    """
    return _scaled(rate, _RATES)


def show_bytes(nbytes: float) -> str:
    """Bytes, in binary units where they are whole.

    >>> show_bytes(2**20), show_bytes(3048576)
    ('1 MiB', '3048576 B')
    """
    whole = round(nbytes)
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if whole >= 2**power and whole % 2**power == 0:
            return f"{whole >> power} {unit}"
    return f"{whole} B"


_QUANTITY = re.compile(r"(\d+(?:\.\d+)?(?:e[-+]?\d+)?) (s|B|B/s)")
_SHOWN = {"s": show_time, "B": show_bytes, "B/s": show_rate}


def _scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    factor, unit = next((pair for pair in units if value >= pair[0] * (1 - 1e-12)), units[-1])
    digits = f"{value / factor:.5g}"
    return f"{float(digits):.10g} {unit}" if math.isfinite(value) else f"{digits} {unit}"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2g} %" if fraction < 0.1 else f"{min(100.0, 100 * fraction):.3g} %"


def _folded(key: str, text: str, indent: int = 0) -> list[str]:
    """A key with folded text under it."""
    pad = " " * indent
    body = textwrap.wrap(text, _WIDTH - indent, break_long_words=False, break_on_hyphens=False)
    return [f"{pad}{key}: >-", *(f"{pad}  {line}" for line in body or [""])]


def _flow(value: Any) -> str:
    text: str = yaml.safe_dump(_tidy(value), default_flow_style=True, width=10**6, sort_keys=False)
    return text.strip().removesuffix("...").strip()


def _tidy(value: Any) -> Any:
    """Quantities as a person writes them, wherever they stand."""
    if isinstance(value, dict):
        return {key: _tidy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_tidy(item) for item in value]
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    return _SHOWN[match[2]](float(match[1])) if match else value


def _scalar(text: str) -> str:
    return _flow(text)
