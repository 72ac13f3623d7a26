"""Messages on links worked out by hand, in the reference in Python and in the compiled loop alike.

Links carry 1 MB/s and a message has a million bytes unless a test says otherwise: it takes 1 s alone.
"""

import numpy as np
import pytest
import simpy

from examples import switch
from simulator.engine.rounds import compiled_loop
from simulator.engine.rounds.disturbances import NO_DISTURBANCES, Disturbances, LinkChange, Stalled, SteadyTraffic
from simulator.engine.rounds.equivalence_classes import structure
from simulator.engine.rounds.network import Network
from simulator.fabrics.single_switch import SingleSwitch
from simulator.models.exchange import Layout, Round

B = 1e6


@pytest.fixture(params=["reference", "as installed"], autouse=True)
def loop(request, monkeypatch):
    """Both event loops, where one is compiled."""
    if request.param == "reference":
        monkeypatch.setattr(compiled_loop, "load_library", lambda: None)


def one(src=0, dst=1, nbytes=B, repeat=1):
    return [Round(np.array([src]), np.array([dst]), np.array([[float(nbytes)]]), repeat)]


def followed(wiring, exchanges, overhead=0.0, around=NO_DISTURBANCES):
    """Exchanges (start, rounds, turn, stream): what the network says of each, and the network itself."""
    env, made = simpy.Environment(), {}
    shapes = [structure(rounds) for _, rounds, *_ in exchanges]
    colours = np.arange(float(wiring.layout.places))
    network = Network(
        env, wiring, [shape for shape, _ in shapes], overhead=overhead, colours=colours, disturbances=around, keep=True
    )

    def run(number, start, turn=0.0, stream=0):
        yield env.timeout(start)
        made[number] = network.start(shapes[number], turn=turn, stream=stream)
        yield made[number].done

    running = [env.process(run(number, start, *more)) for number, (start, _, *more) in enumerate(exchanges)]
    env.run(until=env.all_of(running))
    return [made[number] for number in range(len(exchanges))], network


def ends(*exchanges, wiring=None, **more):
    """When the last flow of each exchange has ended."""
    return [float(each.ended.max()) for each in followed(wiring or switch(3, 1, B), exchanges, **more)[0]]


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ((5, 1, 2, 3), [1, 2, 3, 4]),
        ((5, 3, 2, 1), [1, 4, 3, 2]),
        ((5, 2, 3, 1), [1, 3, 4, 2]),
        ((0, 1, 1, 0), [1, 3, 4, 2]),
        ((9, 9, 9, 9), [1, 2, 3, 4]),
    ],
)
def test_messages_of_one_pair_queue_by_turn_and_then_as_they_came(turns, expected):
    """The first is under way when the others come, a tenth of a second apart."""
    assert ends(*[(0.1 * number, one(), turn) for number, turn in enumerate(turns)]) == pytest.approx(expected)


def test_the_next_message_of_an_exchange_goes_before_others_of_a_later_turn():
    """Two rounds of turn 0 hold the connection for 2 s; a message of turn 1 that came in between is last."""
    assert ends((0.0, one(repeat=2), 0.0), (0.1, one(), 1.0)) == pytest.approx([2, 3])
    assert ends((0.0, one(repeat=2), 50.0), (0.1, one(), 60.0)) == pytest.approx([2, 3])
    # Of equal turns the one that waits goes first.
    assert ends((0.0, one(repeat=2), 0.0), (0.1, one(), 0.0)) == pytest.approx([3, 2])


def test_streams_and_other_pairs_share_links_at_once():
    """Each stream has connections of its own, and so has each pair: two messages on a link take 2 s together."""
    assert ends((0.0, one(), 0.0, 0), (0.0, one(), 0.0, 1)) == pytest.approx([2, 2])
    assert ends((0.0, one(0, 1)), (0.0, one(0, 2))) == pytest.approx([2, 2])
    assert ends((0.0, one(0, 1)), (0.0, one(1, 0))) == pytest.approx([1, 1])
    # In rounds of one exchange a sender's messages, and those that a receiver gets, go one after the other.
    for later in (one(0, 2, 0.25 * B), one(2, 1, 0.25 * B)):
        made, _ = followed(switch(3, 1, B), [(0.0, [*one(0, 1), *later])])
        assert made[0].ended.tolist() == pytest.approx([1, 1.25])
    # Half of the link for 1 s, then the rest of the other alone: 1 + 1/2 s.
    assert ends((0.0, one(0, 1)), (0.5, one(0, 2, 0.25 * B))) == pytest.approx([1.25, 1.0])


def test_overhead_occupies_links_and_latency_does_not():
    """Two messages of 1 s, with 0.25 s of overhead and 0.5 s of latency each; the second waits for the first."""
    wiring = switch(3, 1, B, 0.5)
    assert ends((0.0, one()), wiring=wiring, overhead=0.25) == pytest.approx([1.25])
    made, _ = followed(wiring, [(0.0, [*one(0, 1), *one(1, 2)])], overhead=0.25)
    assert made[0].ended.tolist() == pytest.approx([1.25, 1.25 + 0.5 + 1.25])
    assert made[0].times.tolist() == pytest.approx([0.0, 1.75, 3.5])
    assert [each.tolist() for each in made[0].round_ends()] == [[[1.25]], [[3.0]]]


def test_a_message_of_nothing_ends_at_once_and_its_receiver_has_it_a_latency_later():
    made, _ = followed(switch(2, 1, B, 0.5), [(2.0, one(nbytes=0.0))])
    assert (made[0].ended.tolist(), made[0].times.tolist()) == ([2.0], [2.0, 2.5])


@pytest.mark.parametrize(
    ("times", "factor", "end"),
    [((0.5,), 0.5, 1.5), ((0.25, 0.75), 0.5, 1.25), ((0.25, 0.75), 0.0, 1.5), ((2.0,), 0.0, 1.0)],
)
def test_links_carry_their_share_of_what_is_stated_from_each_change_on(times, factor, end):
    """Half of the rate for what is left, and all of it again after a second change; later changes matter no more."""
    wiring = switch(2, 1, B)
    link = wiring.names.index("node 1 NIC in")
    changes = [LinkChange(time, (link,), share) for time, share in zip(times, (factor, 1.0), strict=False)]
    assert ends((0.0, one()), wiring=wiring, around=Disturbances(tuple(changes))) == pytest.approx([end])


def test_an_exchange_over_a_link_that_stays_dead_ends_with_its_name():
    wiring = switch(3, 1, B)
    dead = LinkChange(0.5, (wiring.names.index("node 1 NIC in"),), 0.0)
    with pytest.raises(Stalled) as caught:
        ends((0.0, one()), (0.0, one(0, 2)), wiring=wiring, around=Disturbances((dead,)))
    assert caught.value.args[0] == ["node 1 NIC in"]


@pytest.mark.parametrize(("rate", "end"), [(0.25 * B, 4 / 3), (0.5 * B, 2.0), (9 * B, 2.0)])
def test_steady_traffic_takes_what_it_asks_for_up_to_its_fair_share(rate, end):
    around = Disturbances((), (SteadyTraffic(2, 1, rate),))
    assert ends((0.0, one()), around=around) == pytest.approx([end])


def test_what_links_carried_is_known_from_change_to_change():
    """Place 0 sends 1 MB to place 1 from 0 s and 0.25 MB to place 2 from 0.5 s on, which halves its rates."""
    wiring = switch(3, 1, B)
    _, network = followed(wiring, [(0.0, one(0, 1)), (0.5, one(0, 2, 0.25 * B))])
    use = network.link_use()

    def rate(name, time):
        return use.rates[np.flatnonzero(use.times <= time)[-1], use.of_link[wiring.names.index(name)]] / B

    for name, rates in {
        "node 0 NIC out": [1, 1, 1, 0],
        "node 1 NIC in": [1, 0.5, 1, 0],
        "node 2 NIC in": [0, 0.5, 0, 0],
        "node 1 NIC out": [0, 0, 0, 0],
    }.items():
        assert [rate(name, time) for time in (0.25, 0.75, 1.125, 1.5)] == pytest.approx(rates), name


def test_a_bucket_lets_its_bytes_through_at_once_and_fills_again():
    """0.25 MB of bucket: 0.75 s; after 0.125 s of rest it holds half of that, which the next message saves."""
    wiring = SingleSwitch(bandwidth=B, latency=0.0, burst=0.25 * B).wire(Layout(2, 1))
    made, network = followed(wiring, [(0.0, one()), (0.875, one())])
    assert [float(each.ended[0]) for each in made] == pytest.approx([0.75, 0.875 + 1 - 0.125])
    content = network.token_bucket_content()[network.classes.of_link]
    used = [wiring.names.index(name) for name in ("node 0 NIC out", "node 1 NIC in")]
    assert content[used].tolist() == pytest.approx([0.0, 0.0])
    idle = [wiring.names.index(name) for name in ("node 1 NIC out", "node 0 NIC in")]
    assert content[idle].tolist() == pytest.approx([0.25 * B] * 2)
