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
from simulator.reporting.page.charts import Chart, Page, View, charts_of, provenance
from simulator.reporting.page.pages.run_page import HELD_OUT_NOTE
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
    describe = _gpu if isinstance(config, Gpu) else _network if isinstance(config, Fabric) else _runtime
    what, unknown, glance, tables = describe(config)
    stated = {key: value for key in ("device", "software", "source") if (value := str(getattr(config, key, "")))}
    return Page(
        title=config.name or source.place,
        subtitle=f"a calibration: {what}",
        glance=glance,
        warnings=[f"the held-out error of {', '.join(unknown)} is not known"] if unknown else [],
        charts=[*charts_of(source, "cost_curves"), *_collectives(config)],
        tables=tables,
        provenance=provenance({"sparsim": versions()["sparsim"]}, **stated),
    )


Described = tuple[str, list[str], list[tuple[str, str]], list[Table]]
"""What is calibrated, what the error of is not known, figures at a glance, and tables."""


def _origin(curve: Any) -> tuple[float | None, str]:
    """The held-out error of a curve, and its source on one line."""
    return curve.held_out_mape, " ".join(curve.source.split())


def _gpu(gpu: Gpu) -> Described:
    rows = [
        (kernel, curve.curve, *(curve.range or (None, None)), curve.spread or None, *_origin(curve))
        for kernel, curve in gpu.kernels.items()
    ]
    glance = [("kernels with a curve", str(len(rows)))]
    if gpu.memory_bandwidth:
        glance.append(("memory bandwidth", f"{gpu.memory_bandwidth / 1e9:.4g} GB/s"))
    unknown = [kernel for kernel, curve in gpu.kernels.items() if curve.held_out_mape is None]
    return "the time of kernels on a GPU", unknown, glance, [Table("Kernels", _KERNELS, rows, HELD_OUT_NOTE)]


def _network(network: Fabric) -> Described:
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
    unknown = ["the link law"] * (network.held_out_mape is None)
    unknown += [item.id for item in network.measured if item.held_out_mape is None]
    tables = [Table("Measured collectives", _COLLECTIVES, rows, HELD_OUT_NOTE)] if rows else []
    return f"a network ({network.kind})", unknown, glance, tables


def _runtime(runtime: Runtime) -> Described:
    given = runtime.model_dump(mode="json", exclude={"name", "source", "held_out_mape"})
    rows = [[name.replace("_", " "), str(value)] for name, value in given.items() if value is not None]
    glance = [("held-out error of whole iterations", format_value("share", runtime.held_out_mape))]
    unknown, heads = ["the terms"] * (runtime.held_out_mape is None), columns("text", "term", "value")
    return "the costs of the training framework", unknown, glance, [Table("Terms", heads, rows)]


def _collectives(config: Any) -> Iterator[Chart]:
    measured = config.measured if isinstance(config, Fabric) else ()
    points = pd.DataFrame([(item.id, *point) for item in measured for point in item.points], columns=list("nxy"))
    if len(points):
        marks = compose_lines(points, *"nxy", said=["%{x:.4~s}B", "%{y:.4~s}s"])
        x, y = PanelAxis("payload", "bytes", log=True), PanelAxis("time of the collective", "time", log=True)
        question = "How long does a collective take, by its payload?"
        plot = draw_in_page(Panels([Panel(x, y, marks)], height=480))
        yield Chart("collective_curves", "Measured collectives", question, (View((), plot),))
