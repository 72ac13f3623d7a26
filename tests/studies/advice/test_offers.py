"""What a framework offers, found part by part."""

from itertools import product

import pytest
from small_advice import scenario

from simulator.scenario.changes import with_value
from simulator.scenario.named_parts import read_runtime
from simulator.studies.advice.availability import availability_of
from simulator.studies.advice.candidates import Candidate, candidates
from simulator.studies.advice.offers import Offers


@pytest.mark.parametrize("runtime", ["pytorch-ddp", "horovod-0.19", "byteps-0.2", "gtopksgd-mpi-topk", "ideal"])
@pytest.mark.parametrize("topology", ["nccl", "halving_doubling"])
def test_parts_say_the_same_as_the_whole_combination(runtime, topology):
    spec = scenario(topology=topology)
    spec = with_value(spec, "cluster.runtime", read_runtime(f"runtimes/{runtime}"))
    grid, is_offered = candidates(spec, 0.01), Offers(spec)
    for number, parts in enumerate(product(grid.methods, grid.schedulers, grid.topologies)):
        if number % 7:
            continue
        method, scheduler, kind = parts
        item = Candidate(method.sparsifier, scheduler, kind, method.density, method.runtime)
        expected = availability_of(item.of(spec), spec.topology.kind).status == "offered"
        assert is_offered(item) == expected, item
