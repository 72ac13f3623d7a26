"""Runtimes over transports for which they were not fitted."""

import pytest

from simulator.hardware.runtime import FittedFor, Runtime, RuntimePrior

TCP = {"fitted_for": FittedFor(transport="tcp"), "endpoint_bandwidth": 7e8, "negotiation": 1e-4}
RDMA = RuntimePrior(transport="rdma", endpoint_bandwidth=5e9, width=3)


@pytest.mark.parametrize(
    ("transport", "endpoint"), [("tcp", 7e8), (None, 7e8), ("rdma", 5e9), ("mpi", None), ("gloo", None)]
)
def test_an_endpoint_belongs_to_its_transport_and_other_costs_are_kept(transport, endpoint):
    runtime = Runtime(name="r", priors=(RDMA,), **TCP)
    over = runtime.over(transport)
    assert over.endpoint_bandwidth == endpoint
    assert over.negotiation == 1e-4
    assert (over is runtime) == (transport in {"tcp", None})
    assert runtime.is_prior_over(transport) == (transport not in {"tcp", None})
    assert runtime.prior_over(transport) == (RDMA if transport == "rdma" else None)


def test_a_runtime_that_says_nothing_is_the_same_over_all():
    runtime = Runtime(endpoint_bandwidth=7e8)
    assert all(runtime.over(kind) is runtime for kind in ("tcp", "rdma", "mpi", "gloo"))
