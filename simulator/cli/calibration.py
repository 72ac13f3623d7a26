"""`sparsim calibrate`: constants from measurements."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simulator.cli.root import AS_JSON, main, show

if TYPE_CHECKING:
    from simulator.calibration.fits.accuracy import Drawn
    from simulator.errors import Problem

_FILE = click.Path(dir_okay=False, path_type=Path)
MEASURED = click.argument("measured", nargs=-1, required=True, metavar="MEASURED...", type=_FILE)
CONFIG = click.option("--out", required=True, type=_FILE, help="Config that is written, with its figures beside it.")
NAME = click.option("--name", default="", help="What the config calls itself.  [default: from --out]")
SOURCE = click.option("--source", default="", help="Where the measurements come from, in words, for the config.")
FIGURE = click.option(
    "--figure/--no-figure", default=True, help="Measured against fitted, as PNG and PDF.  [default: yes]"
)
WHERE = click.option(
    "--where", multiple=True, metavar="COLUMN=VALUE", help="Take only these rows of CSV files; may be repeated."
)


@main.group()
def calibrate() -> None:
    """Fit constants to measurements, with their error on measurements left out."""


@calibrate.command(
    name="kernels",
    examples="""
    sparsim calibrate kernels kernels.csv --out configs/gpus/mine.yaml
    sparsim calibrate kernels topk.csv --kernel topk --memory-bandwidth '760 GB/s' --out configs/gpus/mine.yaml
""",
)
@MEASURED
@CONFIG
@NAME
@SOURCE
@WHERE
@click.option("--kernel", help="What all rows time, whatever the file calls it.")
@click.option("--dtype", default="fp32", show_default=True, help="Rows of this type of number.")
@click.option("--order", default="random", show_default=True, type=click.Choice(["random", "sorted"]))
@click.option("--density", default=0.001, show_default=True, type=click.FloatRange(0, 1, min_open=True))
@click.option("--smallest", default=1, show_default=True, type=click.IntRange(1), help="Leave out sizes below.")
@click.option("--largest", type=click.IntRange(1), help="Leave out sizes above.")
@click.option("--memory-bandwidth", default="", help="The data sheet's, such as 760 GB/s, for kernels without a curve.")
@FIGURE
@AS_JSON
def calibrate_kernels(
    *,
    measured: tuple[Path, ...],
    out: Path,
    name: str,
    source: str,
    where: tuple[str, ...],
    kernel: str | None,
    dtype: str,
    order: str,
    density: float,
    smallest: int,
    largest: int | None,
    memory_bandwidth: str,
    figure: bool,
    as_json: bool,
) -> None:
    """Fit a GPU's kernels to CSV tables of timings, such as those of `sparsim record kernels`.

    \b
    Columns: elements (or elements_per_row), kernel (or operation), one or more of times with a unit
    (seconds, median_s, time_ms, latency_us, ...), and where they were varied k, contributions, slices (or
    rows_batch), dtype, order; device, software, pytorch, cuda, driver and date name the config.

    Where k varied, the curve is that of k = DENSITY * elements.
    """
    from simulator.calibration.bases import quantity
    from simulator.calibration.configs import About, gpu_config
    from simulator.calibration.kernels import calibrate_kernels as fit_kernels
    from simulator.calibration.tables import Wanted
    from simulator.calibration.timings import TimingRows, read_timings

    how = TimingRows(Wanted.parsed(where), dtype, order, kernel, smallest, largest)
    timings = read_timings(measured, how)
    device, software = timings.only()
    fits = fit_kernels(timings, density)
    about = About(
        name=name or out.stem,
        source=source or f"Timings in {', '.join(path.name for path in measured)}",
        digests=timings.digests,
        device=device,
        software=software,
        measured_on=", ".join(timings.dates),
        memory_bandwidth=quantity("--memory-bandwidth", memory_bandwidth, "bandwidth") if memory_bandwidth else None,
        command="calibrate kernels",
    )
    document = {
        "kernels": [fit.described() for fit in fits.values()],
        "device": device,
        "software": software,
        "problems": [str(problem) for problem in timings.problems],
        "notes": timings.notes,
        "digests": timings.digests,
    }
    lines = [line for fit in fits.values() for line in fit.drawn] if figure else None
    _put(out, gpu_config(fits, about), lines, "elements")
    _answer(document, timings.problems, as_json, "print_kernel_fits")


@calibrate.command(
    name="network",
    examples="""
    sparsim calibrate network all_reduce.log --out configs/networks/mine.yaml
    sparsim calibrate network logs/*.log --fabric networks/nvlink-mesh-v100 --out configs/networks/mine.yaml
""",
)
@MEASURED
@CONFIG
@NAME
@SOURCE
@WHERE
@click.option("--fabric", help="Network to start from: its kind and what is known of it.  [default: one switch]")
@click.option("--fit", "terms", multiple=True, help="Term to fit; may be repeated.  [default: bandwidth and latency]")
@click.option("--workers", type=click.IntRange(2), help="Workers, where a file does not say how many.")
@click.option("--gpus-per-node", type=click.IntRange(1), help="GPUs per node, where a file does not say how many.")
@click.option(
    "--topology", help="Topology under which all curves are written.  [default: as forced in the log, or nccl]"
)
@click.option("--algorithm", "algorithms", multiple=True, metavar="PRIMITIVE=ALGORITHM", help="What a law rests on.")
@click.option("--law-from", default="1 MiB", show_default=True, help="Smallest payload that the law rests on.")
@FIGURE
@AS_JSON
def calibrate_network(
    *,
    measured: tuple[Path, ...],
    out: Path,
    name: str,
    source: str,
    where: tuple[str, ...],
    fabric: str | None,
    terms: tuple[str, ...],
    workers: int | None,
    gpus_per_node: int | None,
    topology: str | None,
    algorithms: tuple[str, ...],
    law_from: str,
    figure: bool,
    as_json: bool,
) -> None:
    """Fit a network to collectives: a link law, and a curve for each worker count.

    MEASURED are logs of nccl-tests, output of OSU benchmarks, traces of torch.profiler, and CSV tables such as those of
    `sparsim record collectives`, in any mixture.
    """
    from simulator.calibration import bases
    from simulator.calibration.collectives import Reading, read_collectives
    from simulator.calibration.configs import About, network_config
    from simulator.calibration.network import calibrate_network as fit_network
    from simulator.calibration.tables import Wanted

    collectives = read_collectives(measured, Reading(Wanted.parsed(where), workers, gpus_per_node, topology))
    base = bases.base_fabric(fabric, collectives)
    fit = fit_network(
        collectives,
        base,
        free=bases.free_terms(terms, base),
        algorithms=bases.algorithms(algorithms),
        law_from=bases.quantity("--law-from", law_from, "size"),
    )
    about = About(
        name=name or out.stem,
        source=source or f"Timings in {', '.join(path.name for path in measured)}",
        digests=collectives.digests,
        setting="; ".join((*collectives.devices, *collectives.settings)),
        command="calibrate network",
    )
    _put(out, network_config(fit, about), fit.drawn if figure else None, "payload (bytes)")
    _answer(fit.described(), collectives.problems, as_json, "print_network_fit")


@calibrate.command(
    name="runtime",
    examples="""
    sparsim calibrate runtime scenarios/validation/rtx2080ti-10gbe-ps --term endpoint_bandwidth
""",
)
@click.argument("places", nargs=-1, required=True, metavar="SCENARIO_OR_DIR...")
@click.option("--term", "terms", multiple=True, required=True, help="Runtime term to fit; may be repeated.")
@AS_JSON
def calibrate_runtime(places: tuple[str, ...], terms: tuple[str, ...], as_json: bool) -> None:
    """Fit runtime terms to whole iterations, using the rows marked `used_in_fit` only."""
    from simulator.scenario.reading import load
    from simulator.studies.validate.runtime_fit import fit_runtime
    from simulator.studies.validate.validation import scenario_files

    fit = fit_runtime([load(path) for path in scenario_files(places)], terms)
    if as_json:
        document = {"terms": fit.terms, "signed_error": fit.errors, "rms": fit.rms}
        document |= {"held_out_signed_error": fit.held_out, "held_out_mape": fit.held_out_mape}
        click.echo(json.dumps(document, indent=2))
        return
    for term, value in fit.terms.items():
        click.echo(f"{term}: {value:.6g} (SI)")
    for name, error in fit.errors.items():
        left_out = f", {100 * fit.held_out[name]:+.1f} % where it was left out" if name in fit.held_out else ""
        click.echo(f"  {100 * error:+.1f} %{left_out}  {name}")
    if fit.held_out_mape is not None:
        click.echo(f"held-out error: {100 * fit.held_out_mape:.1f} %")


def _put(out: Path, text: str, lines: Sequence[Drawn] | None, size_label: str) -> None:
    """The config, and its figures beside it."""
    from simulator.reporting.figures.fit_figure import write_fit_figure
    from simulator.studies.storage.files import write_text

    write_text(out, text)
    for suffix in (".png", ".pdf") if lines is not None else ():
        write_fit_figure(lines or (), out.with_suffix(suffix), size_label)


def _answer(document: dict[str, Any], problems: Sequence[Problem], as_json: bool, printer: str) -> None:
    """Damaged lines on stderr, then the document."""
    for problem in problems:
        click.echo(str(problem), err=True)
    show(document, as_json, printer, "fits")
