"""Tables of measured collectives: closed forms without a bucket, and what cannot be read."""

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.models.exchange import Layout
from simulator.studies.validate.collective_table import (
    ALGORITHMS,
    MESSAGES,
    PRIMITIVES,
    CollectiveRow,
    goodput,
    predict,
    read,
)
from simulator.studies.validate.validation import validate
from simulator.topologies.mpi_algorithms import choose
from simulator.topologies.tree import Tree

RATE, MTU, ALPHA, S = 1e8, 9000, 5e-5, 2.0**20
HEADER = "collective,workers,message_bytes,link_rate_bit_per_s,burst_bytes,mtu_bytes,half_round_trip_s,median_s,machine"
HEADER += "\n"
GOOD = "ring_all_reduce,2,1048576,100000000,0,9000,0.00005,0.0846,here\n"


def row(name, workers, **changes):
    values = {"message_bytes": S, "burst_bytes": 0, "median_s": 1.0} | changes
    return CollectiveRow(
        collective=name,
        workers=workers,
        link_rate_bit_per_s=RATE,
        mtu_bytes=MTU,
        half_round_trip_s=ALPHA,
        **values,
    )


def test_goodput_counts_the_headers_of_a_full_frame():
    """At MTU 1500 a frame is 1514 bytes to the shaper and carries 1448 of payload."""
    assert goodput(1e9, 1500) == pytest.approx(125e6 * 1448 / 1514)
    assert goodput(RATE, MTU) == pytest.approx(12.5e6 * 8948 / 9014)
    assert goodput(RATE, MTU, both_ways=True) == pytest.approx(12.5e6 * 2 * 8948 / (2 * 9014 + 66))


@pytest.mark.parametrize("p", [2, 4, 8])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_closed_forms(name, p):
    wire, steps = S / goodput(RATE, MTU, "ring" in name or "doubling" in name or "gloo_all" in name), np.log2(p)
    expected = {
        "ring_all_reduce": 2 * (p - 1) * (ALPHA + wire / p),
        "recursive_doubling_all_reduce": steps * (ALPHA + wire),
        "tree_all_reduce": 2 * steps * (ALPHA + wire),
        "parameter_server": 2 * (ALPHA + p * wire),
        "ring_all_gather": (p - 1) * (ALPHA + wire),
        "tree_broadcast": steps * (ALPHA + wire),
        "broadcast_at_once": steps * ALPHA + steps * (steps + 1) / 2 * wire,
        "gloo_all_gather": (p - 1) * wire + (p + 1) * ALPHA + (wire / 2 if p == 2 else wire * 2**17 / S),
    }[name.replace("gloo_all_reduce", "ring_all_reduce").replace("gloo_broadcast", "broadcast_at_once")]
    prices, _, flowed = predict(row(name, p))
    assert prices.seconds[0] == pytest.approx(expected, rel=1e-9)
    bucket = predict(row(name, p, burst_bytes=10_000))[0].seconds[0]
    saved = 8e-4 * {"tree_all_reduce": 2, "parameter_server": 2, "gloo_all_gather": 2}.get(name, 1)
    assert 0 < expected - bucket <= saved * steps + 2 * p * ALPHA
    # Children that differ share the root's link.
    assert flowed == (name in ("broadcast_at_once", "gloo_broadcast") and p > 2)


@pytest.mark.parametrize("name", MESSAGES)
def test_closed_forms_of_what_is_no_step(name):
    for p in (2, 4, 8):
        one = ALPHA + S / goodput(RATE, MTU, name == "exchange")
        expected = np.log2(p) * one if name == "reduce" else one
        assert predict(row(name, p))[0].seconds[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("library", ["open_mpi", "mpich"])
@pytest.mark.parametrize("name", [*PRIMITIVES, *MESSAGES])
def test_rows_of_a_library_are_its_own_topology(library, name):
    """Without a name, the library's own choice counts."""
    for nbytes in (4096.0, S):
        if name in ("send", "exchange"):
            continue
        chosen = choose(library, name, np.array([nbytes * (4 if name == "all_gather" else 1)]), 4)
        free = predict(row(name, 4, library=library, message_bytes=nbytes))[0].seconds
        assert free == predict(row(name, 4, library=library, message_bytes=nbytes, algorithm=chosen[0]))[0].seconds
    one = predict(row("send", 4, library=library))[0].seconds[0]
    assert one == pytest.approx(3 * ALPHA + S / goodput(RATE, MTU), rel=1e-9)


@pytest.mark.parametrize("nodes", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("gpus", [1, 3])
def test_at_once_sends_every_worker_the_payload_once(nodes, gpus):
    layout = Layout(nodes, gpus)
    rounds = Tree(children="at_once").broadcast(np.array([S]), layout)
    ends = [(int(a), int(b)) for item in rounds for a, b in zip(item.src, item.dst, strict=True)]
    assert sorted(b for _, b in ends) == list(range(1, layout.workers))
    have = {0}
    for item in rounds:
        assert set(item.src.tolist()) <= have
        have |= set(item.dst.tolist())
    senders = [set(item.src.tolist()) for item in rounds]
    assert sum(map(len, senders)) == len(set().union(*senders))  # nobody sends in two rounds


def test_rows_name_library_and_algorithm(tmp_path):
    header = HEADER.replace("machine", "library,algorithm")
    values = "4,1048576,100000000,0,9000,0.00005,0.0846"
    table = tmp_path / "collectives.csv"
    table.write_text(f"{header}all_reduce,{values},open_mpi,ring\nreduce,{values},,\nreduce,{values},mpich,\n")
    names = [found["scenario"].split(",")[0] for found in validate([table]).rows]
    assert names == ["open_mpi ring all_reduce", "reduce", "mpich reduce"]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ("all_reduce,{},,", "collective: expected one of ring_all_reduce, .*, got all_reduce"),
        ("ring_all_reduce,{},open_mpi,", "collective: expected one of all_reduce, .*: did you mean 'all_reduce'"),
        ("all_reduce,{},open_mpi,rings", "algorithm: expected one of linear, .*: did you mean 'ring'"),
        ("send,{},open_mpi,ring", "algorithm: expected no algorithm of this collective, got ring"),
        ("reduce,{},,binomial", "algorithm: expected no algorithm of this collective, got binomial"),
        ("reduce,{},openmpi,", "library: "),
    ],
)
def test_names_that_mean_nothing_are_refused(tmp_path, cells, said):
    path = tmp_path / "collectives.csv"
    values = "4,1048576,100000000,0,9000,0.00005,0.0846"
    path.write_text(HEADER.replace("machine", "library,algorithm") + cells.format(values) + "\n")
    with pytest.raises(InputError, match=said):
        read(path)


def test_a_table_is_validated_row_by_row(tmp_path):
    (tmp_path / "collectives.csv").write_text(HEADER + GOOD)
    for place in (tmp_path, tmp_path / "collectives.csv"):
        document = validate([place])
        (found,) = document.rows
        assert found["group"] == tmp_path.name
        assert found["signed_error"] == pytest.approx(predict(row("ring_all_reduce", 2))[0].seconds[0] / 0.0846 - 1)
        assert document.groups[tmp_path.name].n == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "1: expected the columns collective"),
        (HEADER, "expected at least one row"),
        (HEADER + GOOD + GOOD.replace("ring_all_reduce", "ring_allreduce"), ":3: collective: .*did you mean"),
        (HEADER + GOOD.replace("1048576", "-1"), ":2: message_bytes: expected above 0.0, got"),
        (HEADER + GOOD.replace("0.0846", "nan"), ":2: median_s: expected a finite number"),
        (HEADER + "ring_all_reduce,2\n", ":2: expected 9 cells, got 2"),
        (HEADER + GOOD.replace("ring_all_reduce", "ring\xff"), "collective"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, text, said):
    path = tmp_path / "collectives.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        read(path)
    with pytest.raises(InputError, match=said):
        validate([path])
