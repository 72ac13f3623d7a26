"""Measuring on this machine with PyTorch: kernels, a model's layers, its gradients, collectives, and whole jobs.

Needs the extra `torch`, except for merging recorded traces. `simulator.record.hook` records a job under
DistributedDataParallel.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.errors import InputError, Problem, suggest_nearest
from simulator.record.environment import need_torch

if TYPE_CHECKING:
    from simulator.record.bucket_hook import JobRecorder

__all__ = ["hook"]


def hook(out: Path | str, model: Any = None, **options: Any) -> JobRecorder:
    """A recorder of a job under DistributedDataParallel, in three lines::

        recorder = simulator.record.hook("recorded", sample=0.01)
        model.register_comm_hook(recorder.state, recorder.hook)
        ...                                                       # training
        recorder.close()                                          # on every rank

    The folder `out` then is a trace (`workload: {trace: recorded}`) with the times of the layers. It also holds the
    buckets with their times, `collectives.csv` for `sparsim calibrate network`, and `job.yaml` with the time of an
    iteration. Averaged gradients are the same as without the hook.

    `model`: the DistributedDataParallel; left out, it is found at its first forward pass. Options:

    - `sample`: the share of each tensor whose gradients are kept, before they are averaged (default: 0.01).
    - `every`, `block`, `most`: of every 20 iterations the first 4 are recorded, 200 of them at most; the first three
      of the job are not.
    - `inner`, `inner_state`: another hook that averages, such as `powerSGD_hook`, and its state.
    - `scaler`: the GradScaler, by whose factor recorded gradients are divided.
    - `batch_size`: samples per rank; left out, the first dimension of the first tensor that the model is called with.
    - `seed`: of the sample.
    - `about`: other fields of trace.yaml, such as `model`.

    Raises InputError for wrong options, without a process group, and where `out` has a recording of more ranks.
    """
    need_torch("record")
    from simulator.record.bucket_hook import JobOptions, JobRecorder

    unknown = [name for name in options if name not in JobOptions.__struct_fields__]
    if unknown:
        hint = suggest_nearest(unknown[0], JobOptions.__struct_fields__)
        raise InputError(Problem("simulator.record.hook", "a known option", f"'{unknown[0]}'", hint))
    return JobRecorder(out, model, JobOptions(**options))
