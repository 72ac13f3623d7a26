"""The page of a calibration: a GPU, a network or a runtime, with what its numbers rest on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from simulator.fabrics.base import Fabric
from simulator.hardware.gpu import Gpu
from simulator.hardware.runtime import Runtime
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.panels import Panel, PanelAxis, Panels, compose_lines
from simulator.reporting.page.charts import charts_of
from simulator.reporting.page.pages.run_page import HELD_OUT_NOTE
from simulator.reporting.page.parts import Chart, Page, View, provenance
from simulator.reporting.page.plots import draw_in_page
from simulator.reporting.wording.blocks import Table, columns
from simulator.reporting.wording.values import format_value
from simulator.scenario.versions import versions
from simulator.units import show_bandwidth, show_time

_ORIGIN = (*columns("share", mape="held-out error (MAPE)"), *columns("text", "source"))
_KERNELS = (
    *columns("text", "kernel", "curve"),
    *columns("count", low="smallest size measured", high="largest size measured"),
    *columns("share", spread="spread between workers"),
    *_ORIGIN,
)
_COLLECTIVES = (
    *columns("text", "primitive", "topology"),
    *columns("count", "workers", gpus_per_node="GPUs per node"),
    *columns("count", "points"),
    *_ORIGIN,
)


def calibration_page(source: Source) -> Page:
    """The page of a GPU, network or runtime."""
    config = source.document
    if isinstance(config, Gpu):
        return _gpu(source, config)
    return _network(source, config) if isinstance(config, Fabric) else _runtime(config)


def _provenance(config: Any) -> list[tuple[str, str]]:
    stated = {key: value for key in ("device", "software", "source") if (value := str(getattr(config, key, "")))}
    return provenance({"sparsim": versions()["sparsim"]}, **stated)


def _origin(curve: Any) -> tuple[float | None, str]:
    """The held-out error of a curve, and its source on one line."""
    return curve.held_out_mape, " ".join(curve.source.split())


def _warn_unknown(names: list[str]) -> list[str]:
    return [f"the held-out error of {', '.join(names)} is not known"] if names else []


def _gpu(source: Source, gpu: Gpu) -> Page:
    rows = [
        (kernel, curve.curve, *(curve.range or (None, None)), curve.spread or None, *_origin(curve))
        for kernel, curve in gpu.kernels.items()
    ]
    glance = [("kernels with a curve", str(len(rows)))]
    if gpu.memory_bandwidth:
        glance.append(("memory bandwidth", f"{gpu.memory_bandwidth / 1e9:.4g} GB/s"))
    unstated = [kernel for kernel, curve in gpu.kernels.items() if curve.held_out_mape is None]
    return Page(
        title=gpu.name,
        subtitle="a calibration: the time of kernels on a GPU",
        glance=glance,
        warnings=_warn_unknown(unstated),
        charts=charts_of(source, "cost_curves"),
        tables=[Table("Kernels", _KERNELS, rows, HELD_OUT_NOTE)],
        provenance=_provenance(gpu),
    )


def _network(source: Source, network: Fabric) -> Page:
    glance = [
        ("bandwidth of a NIC and direction", show_bandwidth(network.bandwidth)),
        ("latency of a message", show_time(network.latency)),
        ("held-out error of the link law", format_value("share", network.held_out_mape)),
    ]
    if network.intra_node is not None:
        glance.append(("inside a node", show_bandwidth(network.intra_node.bandwidth)))
    rows = [
        (item.primitive, item.topology, item.workers, item.gpus_per_node, len(item.points), *_origin(item))
        for item in network.measured
    ]
    unstated = [item.id for item in network.measured if item.held_out_mape is None]
    return Page(
        title=network.name or source.place,
        subtitle=f"a calibration: a network ({network.kind})",
        glance=glance,
        warnings=_warn_unknown(["the link law"] * (network.held_out_mape is None) + unstated),
        charts=list(_collectives(network)),
        tables=[Table("Measured collectives", _COLLECTIVES, rows, HELD_OUT_NOTE)] if rows else [],
        provenance=_provenance(network),
    )


def _collectives(network: Fabric) -> Iterator[Chart]:
    rows = [(item.id, *point) for item in network.measured for point in item.points]
    points = pd.DataFrame(rows, columns=list("nxy"))
    if len(points):
        marks = compose_lines(points, *"nxy", said=["%{x:.4~s}B", "%{y:.4~s}s"])
        x, y = PanelAxis("payload", "bytes", log=True), PanelAxis("time of the collective", "time", log=True)
        question = "How long does a collective take, by its payload?"
        plot = draw_in_page(Panels([Panel(x, y, marks)], height=480))
        yield Chart("collective_curves", "Measured collectives", question, (View((), plot),))


def _runtime(runtime: Runtime) -> Page:
    given = runtime.model_dump(mode="json", exclude={"name", "source", "held_out_mape"})
    rows = [[name.replace("_", " "), str(value)] for name, value in given.items() if value is not None]
    return Page(
        title=runtime.name,
        subtitle="a calibration: the costs of the training framework",
        glance=[("held-out error of whole iterations", format_value("share", runtime.held_out_mape))],
        warnings=_warn_unknown(["the terms"] if runtime.held_out_mape is None else []),
        tables=[Table("Terms", columns("text", "term", "value"), rows)],
        provenance=_provenance(runtime),
    )
