"""Jobs that ranks of the tests run: with and without the recorder, each leaving what the tests compare."""

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import simulator
from simulator.errors import SparsimError

ITERATIONS = 12


def network(bucket_megabytes=2**-8):
    torch.manual_seed(0)
    parts = (part for pair in pairwise((20, 40, 60, 30, 5)) for part in (nn.Linear(*pair), nn.ReLU()))
    # Buckets of about 4 KiB, each a layer or two: three sizes.
    return DistributedDataParallel(nn.Sequential(*parts), bucket_cap_mb=bucket_megabytes)


def train(model, seen=None, iterations=ITERATIONS):
    """Plain SGD; `seen` takes the averaged gradient of every iteration."""
    rank = distributed.get_rank()
    for number in range(iterations):
        random = torch.Generator().manual_seed(100 * number + rank)
        model.zero_grad()
        model(torch.randn(8, 20, generator=random)).square().mean().backward()
        if seen is not None:
            seen.append(torch.cat([item.grad.flatten() for item in model.parameters()]).numpy().copy())
        with torch.no_grad():
            for item in model.parameters():
                item.sub_(0.05 * item.grad)
    return torch.cat([item.detach().flatten() for item in model.parameters()]).numpy()


def power_sgd():
    return PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2, min_compression_rate=1)


def run_rank(rank, world, folder):
    """One rank of all jobs; writes `rank.npz`."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    folder = Path(folder)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world)
    made = {"plain": train(network())}
    averaged = []
    model = network()
    recorder = simulator.record.hook(folder / "all", sample=1.0, every=4, block=2)
    model.register_comm_hook(recorder.state, recorder.hook)
    made["recorded"] = train(model, averaged)
    recorder.close()
    made["averaged"] = np.array(averaged)

    # PowerSGD starts collectives when others end: with several buckets, ranks may start them in different orders.
    model = network(bucket_megabytes=25)
    model.register_comm_hook(power_sgd(), powerSGD_hook)
    made["inner_plain"] = train(model)
    model = network(bucket_megabytes=25)
    with simulator.record.hook(
        folder / "inner", model, sample=0.1, inner=powerSGD_hook, inner_state=power_sgd()
    ) as recorder:
        model.register_comm_hook(recorder.state, recorder.hook)
        made["inner_recorded"] = train(model)

    model = network()
    recorder = simulator.record.hook(folder / "short", model)
    model.register_comm_hook(recorder.state, recorder.hook)
    train(model, iterations=3)
    made["error"] = np.array("")
    try:
        recorder.close()
    except SparsimError as error:
        made["error"] = np.array(str(error))
    np.savez(folder / f"{rank}.npz", **made)
    distributed.destroy_process_group()
