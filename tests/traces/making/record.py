"""Train a small network with 16 data-parallel workers in one process and record their gradients as a trace.

    python tests/traces/making/record.py resnet|transformer OUT_DIR [--seed 0]

Needs torch, scikit-learn, pyarrow and PyYAML. Every worker has its own mini-batch and its own residual. It
sends the layer-wise Top-k, at density 0.01, of gradient + residual; what it sent leaves its residual. The
mean over the workers feeds SGD with momentum 0.9 at the server. Kept for two blocks of consecutive
iterations, early and late:

- ``gradients.parquet``: raw gradients (before the residual is added) at a fixed sample of coordinates;
- ``residuals.parquet``: the residuals at the start of each block, there too, for replay to start from;
- ``union.csv``: the union of the workers' Top-k indices, measured on the full gradients;
- ``layers.csv``, ``trace.yaml``: the tensors in forward order, and how the trace was made.
"""

import argparse
import datetime
import importlib.metadata
import platform
import statistics
import time
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
import yaml
from files import WHOLE, as_float16, sample, write_csv, write_parquet
from networks import WORKERS, Task, build
from torch import Tensor, nn
from torch.nn import functional as F
from training import DENSITY, MOMENTUM, SUBSETS, train

BLOCK, FIRST, COORDINATES = 16, 5, 4400
UNION = "iteration,granularity,error_feedback,density,workers,union_density,se"
SOURCE = f"""
Made by `python tests/traces/making/record.py {{name}} OUT_DIR --seed {{seed}}`: {{task.iterations}} iterations of
synchronous data-parallel SGD (learning rate {{task.learning_rate}}, momentum {MOMENTUM} on the averaged
sparse gradient, no weight decay) by {WORKERS} workers in one process, each with its own mini-batch and its
own residual; layer-wise Top-k at density {DENSITY} of gradient + residual, own selection cleared from the
residual. Stored are raw gradients times gradient_scale and, for the start of each block, before its first
gradient is added, residuals times residual_scale. union.csv is measured on all coordinates, with k = max(1,
round(density * numel)) in each layer or in the whole model, over {SUBSETS} random subsets of the workers
(se: over subsets, 0 where there is one subset). With error feedback the residuals are those of this
training run (layer-wise, density {DENSITY}) in every row. backward_s is the median time on this CPU between
one gradient becoming ready and the next (the first includes the loss); forward_s is not measured by
tensor but the model's forward time shared out in proportion to backward_s.
"""


def layer_times(model: nn.Module, x: Tensor, y: Tensor, repeats: int = 30) -> list[list[str]]:
    """Return forward and backward seconds of each tensor, as text.

    Backward is the median time from the gradient that was ready before it (or the start) to its own;
    forward is the median forward time of the model, shared out in the same proportion.
    """
    parameters, forward, backward = list(model.parameters()), [], []
    ready: list[tuple[int, float]] = []
    hooks = [
        p.register_post_accumulate_grad_hook(lambda _, i=i: ready.append((i, time.perf_counter())))  # type: ignore
        for i, p in enumerate(parameters)
    ]
    for _ in range(repeats):
        start = time.perf_counter()
        loss = F.cross_entropy(model(x), y)
        before = time.perf_counter()
        forward.append(before - start)
        ready.clear()
        torch.autograd.backward(loss)
        gaps = [0.0] * len(parameters)
        for index, moment in ready:
            gaps[index], before = moment - before, moment
        backward.append(gaps)
    for hook in hooks:
        hook.remove()
    model.zero_grad()
    medians = [statistics.median(times) for times in zip(*backward, strict=True)]
    share = statistics.median(forward) / sum(medians)
    return [[f"{share * seconds:.4g}", f"{seconds:.4g}"] for seconds in medians]


def processor() -> str:
    """Return the name of this machine's processor, as Linux gives it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def describe(name: str, seed: int, task: Task, blocks: Sequence[range], losses: Sequence[float]) -> dict[str, object]:
    """Return the part of trace.yaml that does not depend on the sampled coordinates."""
    packages = ("torch", "numpy", "scikit-learn", "pyarrow")
    recorded = [step for block in blocks for step in block]
    parameters = sum(p.numel() for p in task.model.parameters())
    return {
        "format": 1,
        "model": f"{task.description}, {parameters} parameters",
        "framework": f"PyTorch {torch.__version__.split('+')[0]}",
        "device": f"CPU ({processor()}), 1 thread",
        "batch_size": task.batch_size,
        "workers": WORKERS,
        "date": datetime.date.today(),
        "versions": {"python": platform.python_version()} | {p: importlib.metadata.version(p) for p in packages},
        "iterations": recorded,
        "blocks": [[block.start, block.stop - 1] for block in blocks],
        "loss": {step: round(losses[step], 4) for step in [0, *recorded]},
        "data_licence": task.data_licence,
        "source": SOURCE.format(name=name, seed=seed, task=task).replace("\n", " ").strip(),
    }


def record(name: str, out: Path, seed: int) -> None:
    """Train the network ``name`` and write its trace to the folder ``out``."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    task = build(name, torch.Generator().manual_seed(seed))
    layers = [(layer, p.numel()) for layer, p in task.model.named_parameters()]
    sizes = [size for _, size in layers]
    fraction, picked = sample(sizes, COORDINATES, torch.Generator().manual_seed(seed + 1))
    kept = torch.cat([start + p for start, p in zip(accumulate([0, *sizes[:-1]]), picked, strict=True)])
    blocks = [range(FIRST, FIRST + BLOCK), range(task.iterations - BLOCK, task.iterations)]
    inputs, targets = task.batches()
    times = layer_times(task.model, inputs[0], targets[0])
    done = train(task, blocks, kept)

    out.mkdir(parents=True, exist_ok=True)
    counts = [len(p) for p in picked]
    layer_keys = pa.array(np.repeat(np.arange(len(sizes), dtype=np.int16), counts))
    keys = {"layer": layer_keys, "coordinate": pa.array(torch.cat(picked).int().numpy())}
    weights = {"weight": pa.array(np.repeat(np.divide(sizes, counts, dtype=np.float32), counts))}
    gradient_scale, gradients = as_float16(torch.stack(list(done.gradients.values())))
    residual_scale, residuals = as_float16(torch.stack(done.residuals))
    write_parquet(out / "gradients.parquet", "iteration", keys | weights, list(done.gradients), gradients)
    write_parquet(out / "residuals.parquet", "block", keys, range(len(blocks)), residuals)
    write_csv(out / "union.csv", UNION, done.unions)
    rows = [(*layer, "float32", *seconds) for layer, seconds in zip(layers, times, strict=True)]
    write_csv(out / "layers.csv", "name,numel,dtype,forward_s,backward_s", rows)
    document = describe(name, seed, task, blocks, done.losses) | {
        "gradient_scale": gradient_scale,
        "residual_scale": residual_scale,
        "sampling": f"{len(kept)} coordinates, the same for every worker and iteration, uniform without "
        f"replacement in each layer: all of a layer of at most {WHOLE} elements, of a larger one "
        f"the fraction {fraction:.4f}, but at least {WHOLE}",
    }
    (out / "trace.yaml").write_text(yaml.safe_dump(document, sort_keys=False, width=110, default_flow_style=None))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("network", choices=("resnet", "transformer"))
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    record(arguments.network, arguments.out, arguments.seed)
