"""Record a job under DistributedDataParallel; three lines, marked (1) to (3), belong to the recorder.

    torchrun --nproc-per-node 2 examples/record_job.py OUT

A scenario with `workload: {trace: OUT}` then predicts what a method would change, and
`sparsim calibrate network OUT/collectives.csv --out mine.yaml` makes a network of its all-reduces.
"""

import os
import sys

import torch
from torch import distributed, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import simulator

BATCH = 32


def main(out: str, iterations: int = 40) -> None:
    """Train on random data: every rank draws its own samples."""
    distributed.init_process_group("gloo")
    torch.manual_seed(0)  # the same model on every rank ...
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)),
        bucket_cap_mb=0.2,
    )
    recorder = simulator.record.hook(out, sample=0.1, every=10)  # (1)
    model.register_comm_hook(recorder.state, recorder.hook)  # (2)
    teacher = torch.randn(64, 10)
    torch.manual_seed(1 + int(os.environ.get("RANK", "0")))  # ... and other samples
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(iterations):
        inputs = torch.randn(BATCH, 64)
        optimiser.zero_grad()
        F.cross_entropy(model(inputs), (inputs @ teacher).argmax(1)).backward()
        optimiser.step()
    recorder.close()  # (3)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
