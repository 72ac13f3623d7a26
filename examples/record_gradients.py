"""Record the gradients of a training loop; three lines, marked (1) to (3), belong to the recorder.

    python examples/record_gradients.py OUT
    torchrun --nproc-per-node 4 examples/record_gradients.py OUT

The loop is plain data-parallel training on random data; under torchrun every rank draws its own samples.
`sparsim trace info OUT` then looks at the trace, and a scenario with `workload: {trace: OUT}` replays it.
"""

import os
import sys

import torch
from torch import distributed, nn
from torch.nn import functional as F

from simulator.record.gradients import GradientRecorder  # (1)

BATCH = 32


def main(out: str, iterations: int = 24) -> None:
    """Train for some iterations and record every second pair of them, at a tenth of the coordinates."""
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        distributed.init_process_group("gloo")
    torch.manual_seed(0)  # the same model on every rank ...
    model: nn.Module = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    model = nn.parallel.DistributedDataParallel(model) if ranks > 1 else model
    teacher = torch.randn(64, 10)
    torch.manual_seed(1 + int(os.environ.get("RANK", "0")))  # ... and other samples
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with GradientRecorder(model, out, every=4, block=2, sample=0.1, batch_size=BATCH) as recorder:  # (2)
        for _ in range(iterations):
            inputs = torch.randn(BATCH, 64)
            loss = F.cross_entropy(model(inputs), (inputs @ teacher).argmax(1))
            optimiser.zero_grad()
            loss.backward()
            recorder.step(loss)  # (3)
            optimiser.step()
    if ranks > 1:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
