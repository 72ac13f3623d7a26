"""Sizes are refused just above what they say, and in words."""

import numpy as np
import pytest
from pydantic_core import PydanticCustomError

from simulator.engine.rounds.equivalence_classes import _latest_small
from simulator.errors import InputError
from simulator.models.exchange import Layout, all_to_all
from simulator.models.limits import refuse_collectives, refuse_draws, refuse_messages, refuse_turns
from simulator.prediction.run import run
from simulator.scenario.reading import load
from simulator.topologies.all_to_all import AllToAll
from simulator.topologies.parameter_server import ParameterServer


def refused(call, *arguments):
    with pytest.raises(PydanticCustomError) as caught:
        call(*arguments)
    return caught.value.context


BUCKETS = "at most 33,554,432 workers times buckets", "8,192 workers times 4,097 buckets"
DRAWS = "at most 25,165,824 workers times iterations of which each differs", "24,576 workers times 1,025 iterations"


@pytest.mark.parametrize(
    ("refuse", "fits", "more", "what", "got", "hint"),
    [
        (refuse_messages, (), 2**22, "an exchange of at most 4,194,304 messages", "4,194,305", "ring or tree"),
        (refuse_collectives, (2**13,), 2**12, *BUCKETS, "fewer buckets"),
        (refuse_draws, (3 * 2**13,), 2**10, *DRAWS, "fewer iterations"),
    ],
)
def test_as_many_as_are_said_and_no_more(*, refuse, fits, more, what, got, hint):
    refuse(*fits, more)
    context = refused(refuse, *fits, more + 1)
    assert (context["what"], context["got"]) == (what, got)
    assert hint in context["hint"]


@pytest.mark.parametrize(
    ("layered", "live", "most", "said"),
    [
        (False, False, 2**23, "8,388,608"),
        (True, False, 2**20, "1,048,576"),
        (False, True, 2**15, "32,768"),
        (True, True, 2**15, "32,768"),
    ],
)
def test_turns(layered, live, most, said):
    refuse_turns(1, most // 2**10, 2**10, layered=layered, live=live)
    context = refused(lambda: refuse_turns(1, most // 2**10 + 1, 2**10, layered=layered, live=live))
    assert context["what"] == f"at most {said} buckets times iterations of which each differs"
    assert context["got"] == f"{most // 2**10 + 1:,} buckets times 1,024 iterations"
    assert context["hint"] == "fewer iterations, or fewer buckets"


@pytest.mark.parametrize(("layered", "unlike"), [(True, False), (False, True)])
def test_times_of_every_layer_on_every_worker(layered, unlike):
    """2^27 where every layer waits for its own parameters or kernels of workers differ; elsewhere they cost nothing."""
    refuse_turns(2**12, 2**5, 2**10, layered=layered, live=False, unlike=unlike)
    context = refused(lambda: refuse_turns(2**12, 2**5, 2**10 + 1, layered=layered, live=False, unlike=unlike))
    assert context["what"] == "at most 134,217,728 workers and layers times iterations of which each differs"
    assert context["got"] == "131,072 workers and layers times 1,025 iterations"
    assert context["hint"] == "fewer iterations, or fewer workers and layers"
    refuse_turns(2**12, 2**5, 2**10 + 1, layered=False, live=False)


def test_workers_with_other_kernels_are_counted(monkeypatch):
    """A kernel whose time is random, on nodes of two kinds."""
    changes = ("cluster.nodes=4", "cluster.other_gpus=[{nodes: [2], gpu: gpus/v100, factor: 0.75}]")
    monkeypatch.setattr("simulator.models.limits.MAX_LAYERED_TIMES", 1000)
    run(load("quickstart", changes[:1]))
    with pytest.raises(InputError, match="at most 1,000 workers and layers times iterations"):
        run(load("quickstart", changes))


@pytest.mark.parametrize(
    "make", [lambda n: all_to_all(np.ones(1), Layout(n, 1)), lambda n: AllToAll().all_reduce(np.ones(1), Layout(n, 1))]
)
def test_all_to_all_up_to_2048_workers(make):
    """p (p - 1) messages: 4,192,256 of 2,048 workers."""
    rounds = make(2048)
    assert len(rounds) % 2047 == 0
    assert rounds[-1].dst[0] == 2047
    assert refused(make, 2049)["got"] == "4,196,352"


def test_push_and_pull_counts_workers_times_servers():
    topology = ParameterServer(servers=4097)
    refused(topology.push_pull, np.ones(1), np.ones(1), topology.layout(2048, 1))
    assert len(topology.push_pull(np.ones(1), np.ones(1), topology.layout(4, 1))[0][0].src) == 4 * 4097


def test_messages_of_all_buckets_that_are_on_the_links_at_once_are_counted_together(monkeypatch):
    """Two workers and one server of their own: each bucket is two pushes and two pulls."""
    monkeypatch.setattr("simulator.models.limits.MAX_MESSAGES", 8)
    keys = ("cluster.nodes=2", "topology=parameter_server", "scheduler=wfbp")
    layers = "workload={batch_size: 1, layers: [%s]}"
    two, three = (layers % ", ".join(f"{{name: l{i}, numel: 10}}" for i in range(n)) for n in (2, 3))
    run(load("ring_check", (*keys, two)))
    with pytest.raises(InputError, match="expected an exchange of at most 8 messages, got 12"):
        run(load("ring_check", (*keys, three)))


UNEVEN = ("cluster.nodes=64", "topology=ring", "cluster.links=[{link: node 3 NIC, factor: 0.5}]")


@pytest.mark.parametrize(
    ("limit", "most", "changes", "words"),
    [
        # Trees with 32 and with 64 chunks of each payload: 240 messages, each with a round of its own or repeated.
        ("models.limits.MAX_PRICED", 100, ("topology=double_binary_tree",), "at most 100 messages, got [0-9]+"),
        ("models.limits.MAX_UNEVEN", 1000, UNEVEN, "at most 1,000 messages in rounds that differ, got 64 messages"),
        ("engine.rounds.equivalence_classes._MOST_COMPARED", 600, (*UNEVEN, "fidelity=flows"), "got 64 messages"),
        (
            "engine.rounds.equivalence_classes._MOST_UNLIKE",
            5,
            (*UNEVEN, "cluster.nodes=65", "fidelity=flows"),
            "65 messages",
        ),
        (
            "engine.rounds.event_loop.MOST_WORK",
            5,
            (*UNEVEN, "cluster.nodes=66", "fidelity=flows"),
            "[0-9]+ messages: fewer",
        ),
    ],
)
def test_what_takes_long_is_refused_before_it_is_worked_out(monkeypatch, limit, most, changes, words):
    """Each limit, lowered, refuses a job that is answered without it."""
    _latest_small.clear()
    with monkeypatch.context() as lowered:
        lowered.setattr(f"simulator.{limit}", most)
        with pytest.raises(InputError, match=words):
            run(load("ring_check", changes))
    run(load("ring_check", changes))


def test_a_fold_is_answered_where_it_is_not_known_which_messages_meet(monkeypatch):
    changes = ("topology=double_binary_tree", "cluster.nodes=16", "cluster.gpus_per_node=2", "fidelity=fold")
    monkeypatch.setattr("simulator.engine.rounds.equivalence_classes._MOST_COMPARED", 10)
    made = run(load("ring_check", changes)).result
    assert made.fidelity.reason.startswith("messages of different workers may meet on a link (there are too many")


def test_servers_beside_workers_stand_behind_the_gpus_of_their_node():
    placed = Layout(2, 3, servers=5, colocated=True).placement()
    assert placed.node.tolist() == [0, 0, 0, 1, 1, 1, 0, 1, 0, 1, 0]
    assert placed.rank.tolist() == [0, 1, 2, 0, 1, 2, 3, 3, 4, 4, 5]
