"""`sparsim calibrate`: constants from measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from simulator.cli.arguments import AsJson, Count, Overrides, ScenarioName, Share, Where
from simulator.cli.root import exit_if_interrupted, main, print_document
from simulator.cli.signatures import command, written
from simulator.errors import InputError, Problem
from simulator.files import write_text
from simulator.records import replace
from simulator.reporting.terminal.progress import watch_steps

if TYPE_CHECKING:
    from simulator.calibration.fits.accuracy import FittedLine

OutConfig = Annotated[Path, "Config to write; figures get the same name."]
Name = Annotated[str, "Name in the config.  [default: from --out]"]
Source = Annotated[str, "Origin of the measurements, in words, for the config."]
Figure = Annotated[
    bool, "Draw measured against fitted times, as PNG and PDF.  [default: yes]", written("--figure/--no-figure")
]


@main.group()
def calibrate() -> None:
    """Fit constants to measurements.

    Every fit states its error on measurements that were left out of it.
    """


@command(calibrate)
def calibrate_kernels(
    measured: Annotated[tuple[Annotated[Path, click.Path(path_type=Path)], ...], "MEASURED..."],
    *,
    out: OutConfig,
    name: Name = "",
    source: Source = "",
    where: Where,
    kernel: Annotated[str | None, "Kernel that all rows time, whatever the file calls it."],
    dtype: Annotated[str, "Use rows of this type of number."] = "fp32",
    order: Annotated[Literal["random", "sorted"], "Use rows with this order of indices."] = "random",
    density: Annotated[Share, "Share of the elements at which a kernel that was timed at several k is fitted."] = 0.001,
    smallest: Annotated[Count, "Leave out smaller sizes."] = 1,
    largest: Annotated[Count | None, "Leave out larger sizes."],
    memory_bandwidth: Annotated[str, "From the data sheet, such as 760 GB/s; for kernels not measured."] = "",
    from_iterations: Annotated[bool, "Fit to whole iterations or phases instead of timed kernels."],
    constants: Annotated[
        tuple[str, ...],
        "Constant to fit to iterations: kernels.NAME, runtime.NAME or network.NAME; may be repeated.  "
        "[default: what was not measured]",
        written(metavar="NAME"),
    ],
    fit_to: Annotated[
        tuple[str, ...],
        "Measured time to fit to, such as iteration_time or selection; may be repeated.  "
        "[default: those marked `used_in_fit`]",
        written(metavar="TIME"),
    ],
    figure: Figure = True,
    as_json: AsJson,
) -> None:
    """Fit a GPU's kernels to timings, or to whole iterations.

    \b
    MEASURED are CSV tables such as those of `sparsim record kernels`. Columns: elements (or elements_per_row),
    kernel (or operation), and one or more times with a unit (seconds, median_s, time_ms, latency_us, ...); where
    they were varied also k, contributions, slices (or rows_batch), dtype and order. The columns device, software,
    pytorch, cuda, driver and date go into the description of the config.

    With --from-iterations, MEASURED are scenarios with `measured:`, folders of them, or CSV tables with a column
    `template` (a scenario) and columns of dotted keys that a row sets. The config of a runtime or a network is written
    where its constants are fitted. No figure is drawn: the table has every row.

    Examples:
        sparsim calibrate kernels kernels.csv --out configs/gpus/mine.yaml
        sparsim calibrate kernels topk.csv --kernel topk --memory-bandwidth '760 GB/s' --out configs/gpus/mine.yaml
        sparsim calibrate kernels runs/ --from-iterations --constants kernels.topk --out configs/gpus/mine.yaml
    """
    from simulator.calibration.configs import About, gpu_config
    from simulator.calibration.kernels import calibrate_kernels as fit_kernels
    from simulator.calibration.kernels import refuse_impossible
    from simulator.calibration.timings import TimingRows, parse_filter, read_timings
    from simulator.units import read_quantity

    if from_iterations:
        _calibrate_from_iterations(measured, constants, fit_to, out=out, name=name, source=source, as_json=as_json)
        return
    alone = [option for option, given in (("--constants", constants), ("--fit-to", fit_to)) if given]
    if alone:
        raise InputError([Problem(option, "--from-iterations with it", "none") for option in alone])
    timings = read_timings(measured, TimingRows(parse_filter(where), dtype, order, kernel, smallest, largest))
    device, software = timings.device_and_software()
    with watch_steps("kernels") as watch:
        fits = fit_kernels(timings, density, watch)
    rate = read_quantity("--memory-bandwidth", memory_bandwidth, "bandwidth") if memory_bandwidth else None
    about = About(
        name or out.stem,
        source or _tell_files("Timings", measured),
        timings.digests,
        device,
        software,
        ", ".join(timings.dates),
        memory_bandwidth=rate,
        command="calibrate kernels",
    )
    document = {
        "kernels": [fit.as_dict() for fit in fits.values()],
        "device": device,
        "software": software,
        "warnings": refuse_impossible(fits, device, rate),
        **timings.as_dict(),
    }
    if not watch.interrupted:
        lines = [line for fit in fits.values() for line in fit.lines] if figure else None
        _write_config(out, gpu_config(fits, about), lines, "elements")
    _print_fits(document, timings.problems, as_json, "kernel_fits_blocks")
    exit_if_interrupted(watch, f"{out} was not written")


def _calibrate_from_iterations(
    places: Sequence[Path],
    constants: Sequence[str],
    fit_to: Sequence[str],
    *,
    out: Path,
    name: str,
    source: str,
    as_json: bool,
) -> None:
    """Fit constants to measured iterations; one config is `out`, of several each has its owner in its name."""
    from simulator.calibration.configs import About
    from simulator.studies.fit.from_iterations import fit_from_iterations, fitted_configs

    names = [part.strip() for text in constants for part in text.split(",") if part.strip()]
    with watch_steps("fits") as watch:
        fit, digests = fit_from_iterations(places, names, fit_to, watch)
    source = source or f"{_tell_files('Measured iterations', places)}."
    about = About(name or out.stem, source, digests, command="calibrate kernels --from-iterations")
    configs = fitted_configs(fit, about)
    for owner, text in configs.items():
        place = out if len(configs) == 1 else out.with_suffix(f".{owner}{out.suffix}")
        _write_config(place, text, None, "")
    _print_fits(fit.as_dict(), (), as_json, "iteration_fit_blocks")


def _tell_files(what: str, paths: Sequence[Path]) -> str:
    return f"{what} in {', '.join(path.name for path in paths)}"


@command(calibrate)
def calibrate_network(
    measured: Annotated[tuple[Path, ...], "MEASURED..."],
    *,
    out: OutConfig,
    name: Name = "",
    source: Source = "",
    where: Where,
    fabric: Annotated[str | None, "Network config to start from, for its kind and known terms.  [default: one switch]"],
    terms: Annotated[
        tuple[str, ...], "Term to fit; may be repeated.  [default: bandwidth and latency]", written("--fit")
    ],
    workers: Annotated[int | None, click.IntRange(2), "Number of workers, for files that do not state it."],
    gpus_per_node: Annotated[Count | None, "GPUs per node, for files that do not state it."],
    topology: Annotated[str | None, "Topology of all curves.  [default: the one that was forced in the log, or nccl]"],
    algorithms: Annotated[
        tuple[str, ...],
        "Algorithm by which a collective travels, for the link law; may be repeated.",
        written("--algorithm", metavar="PRIMITIVE=ALGORITHM"),
    ],
    law_from: Annotated[str, "Smallest payload that the link law is fitted to."] = "1 MiB",
    judge: Annotated[tuple[Path, ...], "Other timings of the network, to judge its law by; may be repeated."],
    judge_where: Annotated[tuple[str, ...], "Use only these rows of --judge.", written(metavar="COLUMN=VALUE")],
    figure: Figure = True,
    as_json: AsJson,
) -> None:
    """Fit a network to timed collectives.

    The result is a link law, and a curve for each number of workers. MEASURED are logs of nccl-tests, output of OSU
    benchmarks, traces of torch.profiler, and CSV tables such as those of `sparsim record collectives`, in any mixture.

    Examples:
        sparsim calibrate network all_reduce.log --out configs/networks/mine.yaml
        sparsim calibrate network logs/*.log --fabric networks/nvlink-mesh-v100 --out configs/networks/mine.yaml
    """
    from simulator.calibration.collectives import Reading, read_collectives
    from simulator.calibration.configs import About, network_config
    from simulator.calibration.network import base_fabric, free_terms, judge_parts, parse_algorithms
    from simulator.calibration.network import calibrate_network as fit_network
    from simulator.calibration.timings import parse_filter
    from simulator.units import read_quantity

    setting = workers, gpus_per_node, topology
    collectives = read_collectives(measured, Reading(parse_filter(where), *setting))
    base = base_fabric(fabric, collectives)
    with watch_steps("curves and laws") as watch:
        fit = fit_network(
            collectives,
            base,
            free=free_terms(terms, base),
            algorithms=parse_algorithms(algorithms),
            law_from=read_quantity("--law-from", law_from, "size"),
            hardware=fabric is not None,
            watch=watch,
        )
    others = read_collectives(judge, Reading(parse_filter(judge_where), *setting)) if judge else None
    document = {**fit.as_dict(), "parts": judge_parts(fit, others)}
    about = About(
        name or out.stem,
        source or _tell_files("Timings", measured),
        collectives.digests,
        setting="; ".join((*collectives.devices, *collectives.settings)),
        command="calibrate network",
    )
    _write_config(out, network_config(fit, about), fit.lines if figure else None, "payload (bytes)")
    _print_fits(document, collectives.problems, as_json, "network_fit_blocks")


@command(calibrate)
def calibrate_widths(cases: Path) -> None:
    """Print how wrong links may be, from laws judged on what was left out of them.

    CASES is a table of errors by network and distance. Those of one's own timings are in the result of `sparsim
    calibrate network --json`, below `parts`: of the network as --fabric describes it, of its law at every second size,
    and of its law on the timings of --judge.

    Examples:
        sparsim calibrate widths docs/developers/network-cases.csv > configs/network_widths.yaml
    """
    from simulator.calibration.network_widths import Case, learn_widths, widths_yaml
    from simulator.loading.csv_tables import read_models

    click.echo(widths_yaml(learn_widths(read_models(cases, Case))), nl=False)


@command(calibrate)
def calibrate_runtime(
    places: Annotated[tuple[str, ...], "SCENARIO_OR_DIR..."],
    *,
    terms: Annotated[tuple[str, ...], "Runtime term to fit; may be repeated.", written("--term", required=True)],
    as_json: AsJson,
) -> None:
    """Fit runtime terms to measured iterations.

    Only scenarios and rows of tables that are marked `used_in_fit` are fitted.

    Examples:
        sparsim calibrate runtime scenarios/validation/rtx2080ti-10gbe-ps --term endpoint_bandwidth
    """
    from simulator.prediction.measured import ITERATION
    from simulator.studies.fit.iteration_fit import fit_constants, refusal_problem
    from simulator.studies.fit.iteration_model import parse_constants
    from simulator.studies.validate.measured_rows import measured_rows, read_measured

    found = read_measured(places)
    if found.problems:
        raise InputError(found.problems)
    constants = parse_constants([f"runtime.{term}" for term in terms], found.samples)
    rows = [row for row in measured_rows(found.samples) if row.fitted and row.quantity == ITERATION]
    with watch_steps("fits") as watch:
        fit = fit_constants(rows, constants, watch=watch)
    refused = [refusal_problem(item) for item in fit.refused if not item.weak]
    if refused:
        raise InputError(refused)
    weak = [f"{item.name} is hardly determined: {item.reason}" for item in fit.refused]
    document = replace(fit, refused=(), notes=(*fit.notes, *weak)).as_dict()
    _print_fits(document, (), as_json, "iteration_fit_blocks")


@command(calibrate)
def calibrate_link(
    scenario: ScenarioName,
    *,
    synchronisation: Annotated[str, "Median of some ten, without the first.", written(metavar="TIME")],
    out: OutConfig,
    name: Name = "",
    overrides: Overrides,
) -> None:
    """Fit the rate of a link to one probe of ten minutes.

    Run your training with one local step between exchanges (H = 1), leave out the first synchronisation, and take the
    median of some ten others. SCENARIO describes that run. The network that is written predicts other numbers of local
    steps on the same link.

    Examples:
        sparsim calibrate link my.yaml --synchronisation '8.25 s' --out configs/networks/mine.yaml
    """
    from simulator.calibration.configs import config_text
    from simulator.scenario.reading import load
    from simulator.studies.fit.link_probe import probe_link
    from simulator.units import read_quantity, show_bandwidth, show_time

    seconds = read_quantity("--synchronisation", synchronisation, "time")
    network, predicted = probe_link(load(scenario, overrides), seconds)
    fabric = network.model_copy(update={"name": name or out.stem})
    write_text(out, config_text("network", fabric))
    click.echo(
        f"the exchange moves {show_bandwidth(fabric.bandwidth)}; at the scenario's bandwidth it would have taken "
        f"{show_time(predicted)}\nwritten to {out}"
    )


@command(calibrate)
def calibrate_operators(
    measured: Path,
    *,
    out: Annotated[Path, "Rates to write."],
    source: Annotated[str, "Origin of the measurements, in words, for the file."] = "",
    trainings: Annotated[
        tuple[str, ...], "Scenarios of measured trainings in 16 bits; without them those rates stay."
    ] = (),
    trainings_source: Annotated[str, "Origin of the trainings, in words."] = "",
) -> None:
    """Fit how operators of models run on GPUs.

    MEASURED is a CSV table of timings in fp32: device, fp32_rate, memory_bandwidth, multiprocessors (of its data
    sheet), model, measurement (what was timed together), kind (product, streaming or rows), batch, m, n, k, nbytes and
    seconds.
    Prints predicted over measured time of each model, from the other GPUs and from the other models.

    Examples:
        sparsim calibrate operators operators.csv --out configs/operator_rates.yaml
    """
    from simulator.calibration.operators import (
        fit_operators,
        operator_rates_yaml,
        read_operators,
        with_convolutions,
        with_tensor_cores,
    )
    from simulator.hardware.operator_times import shipped_operator_rates
    from simulator.studies.fit.tensor_cores import fit_tensor_cores, read_trainings
    from simulator.studies.validate.measured_rows import read_measured

    fit = fit_operators(read_operators(measured))
    for (device, model), ratio in fit.other_gpu.items():
        other = fit.other_model[device, model]
        click.echo(f"{device}, {model}: {ratio:.2f} from other GPUs, {other:.2f} from other models")
    known = shipped_operator_rates()
    rates = replace(fit.rates, matrix_byte=known.matrix_byte, tensor_devices=known.tensor_devices)
    if trainings:
        found = read_measured(trainings)
        if found.problems:
            raise InputError(found.problems)
        rates = fit_tensor_cores(read_trainings(found.samples), rates, trainings_source)
    write_text(out, operator_rates_yaml(with_convolutions(with_tensor_cores(rates)), source))
    click.echo(f"{out}: written")


def _write_config(out: Path, text: str, lines: Sequence[FittedLine] | None, size_label: str) -> None:
    from simulator.calibration.configs import write_fit_figure

    write_text(out, text)
    for suffix in (".png", ".pdf") if lines is not None else ():
        write_fit_figure(lines or (), out.with_suffix(suffix), size_label)


def _print_fits(document: Mapping[str, Any], problems: Sequence[Problem], as_json: bool, printer: str) -> None:
    for problem in problems:
        click.echo(str(problem), err=True)
    print_document(document, as_json, printer, "fits")
