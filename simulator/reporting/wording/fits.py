"""Fits in blocks: how far they are off from what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simulator.reporting.wording.blocks import Block, Column, Table, columns
from simulator.units import count_of, show_bytes, show_time

_ERRORS = (
    *columns("figure", "n"),
    *columns("fine_size", mape="MAPE", median_ape="median", p95_ape="p95", max_ape="max"),
    *columns("fine_error", "bias"),
)
_CURVES = (*columns("words", "family", "range"), *_ERRORS, *columns("fine_size", repeat_spread="spread of repeats"))
_CONSTANTS = (
    *columns("words", name="constant"),
    *columns("figure", "before", "fitted"),
    *columns("fine_size", "error", error_of_residuals="by residuals", error_of_set_ups="by leaving out"),
)
_ROWS = (
    *columns("words", scenario="row", quantity="time"),
    *columns("fitted", fitted=""),
    *columns("time", "measured"),
    *columns("fine_error", "before", "after", "left out"),
)
_LAWS = (("links", "links only"), ("beside", "links and other costs"))
_OTHER_ERRORS = {
    "interpolation_on_cut": "on the curve that is written",
    "interpolation_typical": "2^14 to 2^28 elements",
    "size_extrapolation": "larger than fitted",
}
"""Errors of a kernel that are told where they differ from those of its curve."""


def network_fit_blocks(document: Mapping[str, Any]) -> Iterator[Block]:
    """Curves with their errors at sizes left out, then laws with their terms and errors."""
    rows = []
    for curve in document["curves"]:
        low, high = curve["range"]
        place = {"name": curve["id"], "range": f"{show_bytes(low)} to {show_bytes(high)}"}
        rows.append(_errors(curve["interpolation"], **{**curve, **place}))
    rows.append(_errors(document["interpolation"], name="all", repeat_spread=""))
    rows.append(_errors(document["interpolation_from_1_mib"], name="all from 1 MiB", repeat_spread=""))
    heads = (Column("name", "curve", "words"), *_CURVES)
    yield Table.of("sizes left out (every second one)", heads, rows, styles={len(rows) - 2: "bold"})
    for law in document["laws"]:
        for name, words in _LAWS:
            if law[name] is not None:
                chosen = ", chosen" if law["chosen"] == name else ""
                yield _law(law[name], f"law: {law['algorithm']}, {words}{chosen}")
                yield f"  {_terms(law[name])}"
    yield from _problems(document)


def kernel_fits_blocks(document: Mapping[str, Any]) -> Iterator[Block]:
    """Every kernel with its curve and its errors."""
    rows = []
    for kernel in document["kernels"]:
        low, high = kernel["range"]
        place = {"name": kernel["kernel"], "range": f"{low:.6g} to {high:.6g}"}
        rows.append(_errors(kernel["interpolation"], **{**kernel, **place}))
        for key, words in _OTHER_ERRORS.items():
            if kernel[key] is not None and kernel[key] != kernel["interpolation"]:
                rows.append(_errors(kernel[key], family=words, repeat_spread=""))
    yield Table.of("timings left out", (Column("name", "kernel", "words"), *_CURVES), rows)
    yield from _problems(document)


def iteration_fit_blocks(document: Mapping[str, Any]) -> Iterator[Block]:
    """Constants fitted to iterations with their errors, the rows before and after, and what was refused."""
    constants = [
        {
            **item,
            "before": _format_constant(item["unit"], item["before"]),
            "fitted": _format_constant(item["unit"], item["value"]),
        }
        for item in document["constants"]
    ]
    yield Table.of("fitted to whole iterations", _CONSTANTS, constants)
    rows = ({**row, "quantity": row["quantity"].replace("_", " ")} for row in document["rows"])
    yield Table.of("errors of the rows", _ROWS, rows)
    for item in document["refused"]:
        measure = f": {item['measure']}" if item["measure"] else ""
        yield f"not fitted: {item['name']}: {item['reason']}{measure}"
    yield from _problems(document)


def _errors(errors: Mapping[str, Any] | None, **more: Any) -> Mapping[str, Any]:
    """A row of errors; without any, of none."""
    return {"name": "", "family": "", "range": "", **more, **(errors or {"n": 0})}


def _format_constant(unit: str, value: float) -> str:
    if unit == "B/s":
        return f"{show_bytes(value)}/s"
    return show_time(value) if unit == "s" else f"{value:.4g}"


def _law(fit: Mapping[str, Any], title: str) -> Table:
    rows = [_errors(fit["fitted"], name="fitted")]
    if fit["size_interpolation"] is not None:
        rows.append(_errors(fit["size_interpolation"], name="every second size"))
    rows.append(_errors(fit["size_extrapolation"], name="larger sizes"))
    for noun in ("worker", "node"):
        left_out = fit[f"{noun}_extrapolation"]
        rows += [_errors(errors, name=f"{count} {noun}s left out") for count, errors in left_out.items()]
    return Table.of(title, (Column("name", "", "words"), *_ERRORS), rows)


def _terms(fit: Mapping[str, Any]) -> str:
    terms = {name: value for name, value in fit["terms"].items() if value is not None and name not in fit["unseen"]}
    text = ", ".join(
        f"{name} {_format_constant('B/s' if name.endswith('bandwidth') else 's', value)}"
        for name, value in terms.items()
    )
    hops = fit["nccl"].get("hop_latency", {})
    text += "".join(f", hop by {key} {show_time(value)}" for key, value in hops.items())
    shares = fit["nccl"].get("efficiency", {})
    text += "".join(f", {key} at {100 * value:.3g} % of the links' rate" for key, value in shares.items())
    steps = fit["nccl"].get("step_overhead", ())
    if steps:
        shown = [steps[0], steps[len(steps) // 2], steps[-1]]
        text += ", a step beyond its bytes " + ", ".join(f"{show_time(t)} at {show_bytes(s)}" for s, t in shown)
    unseen = [f"not visible in these data: {', '.join(fit['unseen'])}"] if fit["unseen"] else []
    return "; ".join([text.removeprefix(", "), *unseen])


def _problems(document: Mapping[str, Any]) -> Iterator[Block]:
    yield from (f"warning: {warning}" for warning in document.get("warnings", ()))
    yield from (f"note: {note}" for note in document["notes"])
    count = len(document.get("problems", ()))
    if count:
        verb = "was" if count == 1 else "were"
        yield f"{count_of(count, 'damaged line')} {verb} left out; the messages above name them"
