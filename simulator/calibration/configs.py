"""What a calibration writes: the text of a config, with errors and source, and the figure of the fit."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from simulator.calibration.collectives import Key
from simulator.calibration.fits.accuracy import FittedLine, mean_error
from simulator.calibration.fits.families import piecewise_points
from simulator.calibration.fits.selection import CurveFit
from simulator.calibration.kernels import KernelFit
from simulator.calibration.network_fit import NetworkFit
from simulator.calibration.yaml_text import block_text, percent_text
from simulator.component import Component, Spec
from simulator.fabrics.base import Fabric
from simulator.fabrics.collectives import FittedLaw, MeasuredCollective
from simulator.hardware.gpu import Gpu
from simulator.hardware.machine import LibraryTerms
from simulator.models.curves import Curve, Piecewise, Points
from simulator.records import Record, field

_ORDER = {"curve": -1, "range": 1, "spread": 2, "held_out_mape": 3, "derived": 4, "source": 5}
"""Place of the keys of a curve; its numbers come after its kind."""
_SHARES = ("held_out_mape", "spread")
_OWN_SHARES: dict[type[Spec], tuple[str, ...]] = {FittedLaw: ("rate", "start_up"), LibraryTerms: ("efficiency",)}
"""Fields that are written in percent: of any spec, and of some."""


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
        labels = {"Dates": self.measured_on, "Setting": self.setting}
        return [
            f"# Written by `sparsim {self.command}` {version('sparsim')} on {today}. SHA-256 of the data:",
            *(f"# {digest}  {name}" for name, digest in self.digests.items()),
            *(f"# {label}: {text}" for label, text in labels.items() if text),
        ]


def config_text(kind: str, spec: Spec, comments: Sequence[str] = ()) -> str:
    """A config as a person writes it: its schema, comments, and the fields that are not left at their defaults."""
    schema = f"# yaml-language-server: $schema=../schema/{kind}.json"
    return "\n".join([schema, *comments, block_text(stated(spec)), ""])


def stated(spec: Spec) -> dict[str, Any]:
    """The fields of a spec, and of those inside it, that are not left at their defaults."""
    dumped = spec.described("json") if isinstance(spec, Component) else spec.model_dump(mode="json")
    shares = (*_SHARES, *_OWN_SHARES.get(type(spec), ()))
    made = {}
    for key in sorted(dumped, key=lambda key: _ORDER.get(key, 0)) if "curve" in dumped else dumped:
        if key in ("kind", "curve"):
            made[key] = dumped[key]
        elif (value := getattr(spec, key)) != type(spec).model_fields[key].get_default(call_default_factory=True):
            made[key] = _stated_value(value, dumped[key], key in shares)
    return made


def _stated_value(value: Any, dumped: Any, share: bool) -> Any:
    """A value of a field as it stands in a config; shares in percent."""
    if isinstance(value, Spec):
        return stated(value)
    if isinstance(value, dict):
        return {key: _stated_value(value[key], item, share) for key, item in dumped.items()}
    if isinstance(value, tuple):
        return [_stated_value(item, as_data, share) for item, as_data in zip(value, dumped, strict=True)]
    return percent_text(value) if share and value is not None else dumped


def network_config(fit: NetworkFit, about: About) -> str:
    """A network config: the base with fitted links, and a measured curve for each series of a worker count.

    `held_out_mape` of the network is that of the link law, at worker counts left out or at sizes beyond those fitted;
    that of a curve is its own, at sizes left out.
    """
    fabric = fit.fabric
    changes = {
        "name": about.name,
        "source": _source_text(fit, about),
        "held_out_mape": mean_error(fit.laws[0].chosen.held) if fit.shows_links else None,
        "fitted_for": _fitted_for(fit) if fit.shows_links else None,
        "measured": tuple(_measured_collective(key, curve, fabric) for key, curve in fit.curves.items()),
    }
    return config_text("network", fabric.model_copy(update=changes), about.comment())


def _measured_collective(key: Key, curve: CurveFit, fabric: Fabric) -> MeasuredCollective:
    spread, held = curve.measured.spread, mean_error(curve.held_errors)
    words = f"{len(curve.measured.sizes)} sizes, {curve.chosen.family} on log axes" + (
        f"; repeats of a size spread by {percent_text(spread)} (median)" if spread is not None else ""
    )
    made = MeasuredCollective(
        **key._asdict(), bandwidth=fabric.bandwidth, latency=fabric.latency, points=_points(curve), source=words
    )
    return made.model_copy(update={"held_out_mape": held})


def _points(fit: CurveFit) -> Points:
    """Points of a curve, which add at most a fifth of the error of the curve itself, from 0.2 to 1 %."""
    held = mean_error(fit.held_errors)
    tolerance = min(1e-2, max(2e-3, held / 5)) if held else 2e-3
    return piecewise_points(fit.chosen.predict, fit.measured.sizes, tolerance)


def _fitted_for(fit: NetworkFit) -> FittedLaw:
    """The clusters and the smallest payload that the law was fitted to, and its errors by part."""
    law, fabric = fit.laws[0], fit.fabric
    nodes, gpus = zip(*((key.nodes, key.gpus_per_node) for key in law.series), strict=True)
    made = FittedLaw(
        nodes=max(nodes),
        gpus_per_node=max(gpus),
        fewest_nodes=min(nodes) if min(nodes) < max(nodes) else None,
        fewest_gpus_per_node=min(gpus) if min(gpus) < max(gpus) else None,
        bandwidth=fabric.bandwidth,
        latency=fabric.latency,
        smallest=min(float(item.sizes[0]) for item in law.series.values()),
        version=fabric.nccl.version or "",
    )
    return made.model_copy(update={"rate": law.chosen.parts.rate, "start_up": law.chosen.parts.start_up})


def gpu_config(fits: Mapping[str, KernelFit], about: About) -> str:
    """A GPU config: one curve for each kernel, with its range, spread and held-out error."""
    gpu = Gpu(
        name=about.name,
        device=about.device,
        software=about.software,
        memory_bandwidth=about.memory_bandwidth,
        source=about.source,
        kernels={kernel: _curve_of(fit) for kernel, fit in fits.items()},
    )
    return config_text("gpu", gpu, about.comment())


def _curve_of(fit: KernelFit) -> Curve:
    curve, sizes = fit.fit.chosen, fit.fit.measured.sizes
    changes = {
        "range": (float(sizes[0]), float(sizes[-1])),
        "spread": fit.spread,
        "held_out_mape": fit.held_out_mape,
        "source": f"{fit.count} timings, {curve.family}" + (f" over size and {fit.axis}" if fit.axis else ""),
    }
    return (curve.curve or Piecewise(points=_points(fit.fit))).model_copy(update=changes)


def _source_text(fit: NetworkFit, about: About) -> str:
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


def write_fit_figure(lines: Sequence[FittedLine], path: Path, size_label: str) -> None:
    """Measured (dots) and fitted (lines) times over the size, and the relative error; format by the file's name.

    Raises InputError where the file can't be written.
    """
    from simulator.reporting.figures.style.panels import GREY, PanelAxis, assign_looks
    from simulator.reporting.figures.style.paper import Picture, house_style, save_figure, set_axis

    with house_style():
        canvas = Picture(figsize=(10, 4.3), layout="constrained")
        left, right = canvas.subplots(1, 2)
        looks = assign_looks([line.label for line in lines])
        for line in lines:
            colour = looks[line.label].colour
            left.plot(line.sizes, line.measured, ".", color=colour, markersize=4)
            left.plot(line.sizes, line.fitted, "-", color=colour, linewidth=1, label=line.label)
            right.plot(line.sizes, line.fitted / line.measured - 1, ".", color=colour, markersize=4)
        left.set_yscale("log")
        set_axis(left, "y", PanelAxis("time", "time"))
        left.set_title("dots: measured, lines: fitted")
        left.legend()
        right.axhline(0, color=GREY, linewidth=0.8)
        set_axis(right, "y", PanelAxis("fitted / measured - 1", "percent"))
        for axes in (left, right):
            axes.set_xscale("log", base=2)
            axes.set_xlabel(size_label)
    save_figure(canvas, path)
