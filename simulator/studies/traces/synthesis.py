"""Generated gradient traces, from a description or similar to a recorded trace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simulator.errors import InputError, Problem
from simulator.loading.documents import read_document, validate_document
from simulator.models.exchange import Ints
from simulator.models.layers import Layer
from simulator.models.sampling import mean_of, quantile_of
from simulator.progress import Watch
from simulator.studies.traces.trace_study import folder_of
from simulator.traces.format.trace import FILES, Trace, TraceSpec, with_iterations
from simulator.traces.format.writer import TraceWriter
from simulator.traces.synthetic import Synthetic, blocks


def synthesize(
    spec: str | None,
    like: str | None,
    sample: float | None,
    out: Path,
    watch: Watch | None = None,
    *,
    mantissa_bits: int | None = None,
) -> None:
    """Write a generated trace, from a spec file or fitted to a recorded trace, unless it is there already.

    `sample`: share of the coordinates of every layer, at least 64 of each; None: the share that the recorded trace
    holds of all, or all of a spec. `mantissa_bits`: of the stored values; None: as in the recorded trace, or all. An
    interruption (Ctrl-C) ends the trace with the iterations that are written, once there is one. Raises InputError for
    bad input.
    """
    watch = watch or Watch()
    if (spec is None) == (like is None):
        raise InputError(Problem("trace synthesize", "either a spec or --like", "both" if spec else "neither"))
    if like is not None:
        trace = Trace.open(folder_of(like))
        generator, share = fit_generator(trace), len(trace.keys.layer) / sum(trace.numels)
        mantissa_bits = trace.spec.mantissa_bits if mantissa_bits is None else mantissa_bits
    else:
        generator, share = validate_document(Synthetic.model_validate, read_document(Path(str(spec)))), 1.0
    layers = [Layer(name=f"layer {i}", numel=layer.numel) for i, layer in enumerate(generator.layers)]
    share = share if sample is None else sample
    kept = None if share == 1 else _sample([layer.numel for layer in layers], share, generator.seed)
    drawn = (
        "" if kept is None else f"a share of {share:.4g} of each layer, but at least 64 coordinates, drawn uniformly"
    )
    about: dict[str, Any] = {
        "sampling": drawn,
        "mantissa_bits": mantissa_bits,
        "model": f"synthetic, seed {generator.seed}",
        "framework": "sparsim",
        "source": generator.model_dump_json(),
    }
    description = TraceSpec(format=1, workers=generator.workers, iterations=(0,), **about)
    watch.expect(generator.iterations)
    if _is_there(out, description, generator.iterations):
        watch.step(generator.iterations)
        return
    with TraceWriter(out, description, layers) as writer:
        with watch.part("the iterations"):
            for block in blocks(generator, kept):
                writer.append(block)
                watch.step()
        if watch.interrupted and not watch.done:
            raise KeyboardInterrupt


def _is_there(out: Path, description: TraceSpec, iterations: int) -> bool:
    """Whether the folder holds a finished trace with this description. Raises InputError for one that was recorded."""
    if not all((out / name).is_file() for name in FILES):
        return False
    known = validate_document(TraceSpec.model_validate, read_document(out / FILES[0]))
    if known.framework != description.framework:
        what, got = "a folder without a recorded trace", f"one of {known.framework or 'another program'}"
        raise InputError(Problem(str(out), what, got, "recorded gradients are not overwritten: name another folder"))
    return with_iterations(known, (0,)) == with_iterations(description, (0,)) and len(known.iterations) == iterations


def _sample(numels: Sequence[int], share: float, seed: int) -> Ints:
    """Positions of a uniform sample of every layer, at least 64 of each."""
    rng = np.random.default_rng([seed, len(numels)])
    starts = np.concatenate([[0], np.cumsum(numels)[:-1]])
    counts = [min(n, max(64, round(share * n))) for n in numels]
    drawn = [np.sort(rng.choice(n, size=count, replace=False)) for n, count in zip(numels, counts, strict=True)]
    return np.concatenate([start + part for start, part in zip(starts, drawn, strict=True)])


def fit_generator(trace: Trace) -> Synthetic:
    """A generator with each layer's scale, tail and hot coordinates, and the correlation and drift, of a trace.

    Scale: standard deviation. Tail, by excess kurtosis: Gaussian below 1, Laplace below 4, else Student's t with
    4 + 6/kurtosis degrees of freedom. Correlation of workers: from the variance of their mean. Hot coordinates: mean
    square over workers and iterations 16 times the median or more. Drift: between the first and the last iteration. A
    coordinate counts as often as the elements that it stands for.
    """
    recorded = list(trace.blocks())
    values, weight = np.stack([block.values for block in recorded]).astype(float), recorded[0].weight
    n = trace.spec.workers
    power = np.square(values) * weight
    shared = float((np.square(values.mean(axis=1)) * weight).sum() * n / max(power.mean(axis=1).sum(), 1e-300))
    correlation = min(1.0, max(0.0, (shared - 1) / (n - 1))) if n > 1 else 0.0
    layers = []
    for unit, numel in recorded[0].units("layer"):
        own, mean_square = weight[unit], np.square(values[:, :, unit]).mean(axis=(0, 1))
        usual = float(quantile_of(mean_square, own, np.array([0.5]))[0]) or mean_of(mean_square, own) or 1e-30
        hot = mean_square > 16 * usual
        kept = ~hot if not hot.all() else hot
        ordinary = values[:, :, unit][:, :, kept]
        stands = np.broadcast_to(own[kept], ordinary.shape)
        mean = np.average(ordinary, weights=stands)
        deviation = math.sqrt(np.average(np.square(ordinary - mean), weights=stands))
        kurtosis = float(np.average(((ordinary - mean) / deviation) ** 4, weights=stands)) - 3 if deviation else 0.0
        tail = "gaussian" if kurtosis < 1 else "laplace" if kurtosis < 4 else "student_t"
        strength = math.sqrt(mean_of(mean_square[hot], own[hot]) / usual) if hot.any() else 1.0
        layer: dict[str, Any] = {"numel": numel, "scale": max(deviation, 1e-30), "tail": tail}
        layer |= {"hot_share": float(own[hot].sum() / own.sum()), "hot_strength": min(strength, 1e6)}
        if tail == "student_t":
            layer["degrees_of_freedom"] = 4 + 6 / kurtosis
        layers.append(layer)
    first, last = (float(np.sqrt(power[i].mean())) for i in (0, -1))
    span = max(1, trace.spec.iterations[-1] - trace.spec.iterations[0])
    drift = (last / first) ** (1000 / span) if first and last else 1.0
    return Synthetic.model_validate(
        {
            "layers": layers,
            "workers": n,
            "iterations": len(trace.spec.iterations),
            "correlation": correlation,
            "drift": min(1e6, max(1e-6, drift)),
        }
    )
