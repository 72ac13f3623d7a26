"""An open simulation: workers that are interrupted, links that change, own messages and events, computed by hand.

The scenario is a ring of 8 workers: 10 ms forward pass, 20 ms backward pass, then an all-reduce in 14 rounds, in each
of which every worker sends 12.5 MB at 1.25 GB/s (10 ms) over 50 us: 170.7 ms.
"""

import pytest

from simulator.api.simulating import simulation
from simulator.errors import InputError

FORWARD, BACKWARD, ROUNDS, SENT, LATENCY = 0.01, 0.02, 14, 0.01, 50e-6
COMPUTED = FORWARD + BACKWARD
TIME = COMPUTED + ROUNDS * (SENT + LATENCY)
LAYERS = {"workload.layers": [{"name": "all", "numel": 25_000_000, "forward": "10 ms", "backward": "20 ms"}]}


def ring(*, messages=False, iterations=1, **more):
    return simulation("ring_check", messages, iterations=iterations, **LAYERS, **more)


def time_of(opened):
    (iteration,) = opened.run()
    return iteration.time


@pytest.mark.parametrize("messages", [False, True])
def test_nothing_added_takes_the_time_computed_by_hand(messages):
    assert time_of(ring(messages=messages)) == pytest.approx(TIME, rel=1e-12)


@pytest.mark.parametrize(
    ("interruptions", "seconds"),
    [
        ([(3, 0.05, 0.015)], TIME + 0.05),
        ([(3, 0.05, 0.015), (4, 0.03, 0.001)], TIME + 0.05),  # of several at the same time the longest counts
        ([(4, 0.05, 0.005), (3, 0.03, 0.015)], TIME + 0.05),  # slack covers the second
        ([(3, 0.05, COMPUTED + 0.01)], TIME),  # ends while the worker waits
        ([(3, 0.5, COMPUTED + 0.01)], COMPUTED + 0.01 + 0.5),  # begins while it waits, and delays what comes next
    ],
)
def test_interrupted_workers_make_the_iteration_longer_by_what_does_not_pass_while_they_wait(interruptions, seconds):
    opened = ring()
    for worker, length, begin in interruptions:
        opened.workers[worker].interrupt(length, at=begin)
    assert time_of(opened) == pytest.approx(seconds, rel=1e-12)


def test_an_interruption_from_a_process_counts_from_then_on():
    opened = ring()

    def interrupt(env):
        yield env.timeout(0.015)
        opened.workers[3].interrupt(0.05)

    opened.env.process(interrupt(opened.env))
    assert time_of(opened) == pytest.approx(TIME + 0.05, rel=1e-12)


def test_a_slowed_worker_computes_for_so_many_times_as_long_meanwhile():
    opened = ring()
    opened.workers[2].slow_down(2.0, 0.005, 0.015)  # 10 ms for 5 ms of compute
    assert time_of(opened) == pytest.approx(TIME + 0.005, rel=1e-12)
    opened = ring()
    opened.workers[2].slow_down(3.0)
    assert time_of(opened) == pytest.approx(TIME + 2 * COMPUTED, rel=1e-12)


def test_the_tasks_of_an_interrupted_worker_and_of_one_that_waits_for_it():
    opened = ring()
    assert (opened.workers[3].tasks, opened.workers[3].node) == ([], 3)
    opened.workers[3].interrupt(0.05, at=0.015)
    opened.run()
    longer = {span.label: span.duration for span in opened.workers[3].tasks if span.stream == "compute"}
    own = {span.label: span.duration for span in opened.workers[0].tasks if span.stream == "compute"}
    assert longer["backward"] == pytest.approx(BACKWARD + 0.05)
    assert own["backward"] == pytest.approx(BACKWARD)
    assert own["waiting for the slowest worker"] == pytest.approx(0.05)


def test_the_tasks_of_iterations_that_have_ended_are_there_while_later_ones_run():
    opened, seen = ring(iterations=3), []

    def look(env):
        yield env.timeout(1.5 * TIME)
        seen.append((len(opened.iterations), opened.workers[0].tasks))

    opened.env.process(look(opened.env))
    opened.run()
    ((count, tasks),) = seen
    assert count == 1
    assert max(span.end for span in tasks) == pytest.approx(TIME)


def test_own_traffic_on_a_nic_halves_the_rate_of_a_ring():
    opened = ring(messages=True)
    connection = opened.network.connect(0, 1)

    def send(env):
        yield env.timeout(COMPUTED)
        yield connection.send(1e12)

    opened.env.process(send(opened.env))
    # Worker 0 sends one message after the other at half the rate; the others wait for it.
    assert time_of(opened) == pytest.approx(COMPUTED + ROUNDS * 2 * SENT + LATENCY, rel=1e-12)


def test_own_traffic_elsewhere_changes_nothing_and_arrives_at_its_own_time():
    opened, arrived = ring(messages=True), []
    connection = opened.network.connect(0, 1)

    def send(env):
        yield connection.send(12.5e6)
        arrived.append(env.now)
        yield connection.send(0.0)
        arrived.append(env.now)

    opened.env.process(send(opened.env))
    assert time_of(opened) == pytest.approx(TIME, rel=1e-12)
    assert arrived == pytest.approx([SENT + LATENCY, SENT + 2 * LATENCY], rel=1e-12)
    own = [each[:3] for each in opened.network.messages if each.exchange == "own message"]
    assert own == [(0, 1, 12.5e6), (0, 1, 0.0)]


def test_a_rate_that_is_set_counts_from_then_on():
    opened = ring(messages=True)
    link = opened.network.names[0]
    assert opened.network.rate(link) == 1.25e9

    def halve(env):
        yield env.timeout(COMPUTED + 0.05)
        opened.network.set_rate(link, opened.network.rate(link) / 2)

    opened.env.process(halve(opened.env))
    fifth_began, others = 4 * (SENT + LATENCY), ROUNDS - 5
    fifth_ends = 0.05 + 2 * (fifth_began + SENT - 0.05)
    assert time_of(opened) == pytest.approx(COMPUTED + fifth_ends + others * 2 * SENT + LATENCY, rel=1e-12)
    assert opened.network.rate(link) == 0.625e9


def test_a_rate_that_is_set_before_the_run_counts_from_its_start():
    opened = ring(messages=True)
    opened.network.set_rate(opened.network.names[0], 0.625e9)
    assert opened.network.rate(opened.network.names[0]) == 0.625e9
    assert time_of(opened) == pytest.approx(COMPUTED + ROUNDS * 2 * SENT + LATENCY, rel=1e-12)


RUN = {"ring_check": 3, "quickstart": 2, "straggler": 1, "priority_p3": 1, "ps_incast": 1, "slow_links": 2}


@pytest.mark.long
@pytest.mark.parametrize(("scenario", "iterations"), RUN.items())
def test_events_come_in_the_order_of_time_and_every_task_that_starts_ends(scenario, iterations):
    opened, seen, open_ones = simulation(scenario, iterations=iterations), [], {}
    for event in ("start", "end"):
        opened.on(event, lambda event, task, time: seen.append((event, task, time, opened.env.now)))
    opened.run()
    times = [time for _, _, time, _ in seen]
    assert times == sorted(times)
    if scenario != "slow_links":  # local steps in a row are told of at their end
        assert times == pytest.approx([now for *_, now in seen], rel=1e-12)
    for event, task, time, _ in seen:
        if event == "start":
            open_ones.setdefault(id(task), []).append(time)
        else:
            assert open_ones[id(task)].pop(0) <= time
    assert len(seen) >= 2 * len(opened.iterations)
    assert not any(open_ones.values())


@pytest.mark.parametrize("scenario", ["ring_check", "quickstart", "ps_incast"])
def test_messages_carry_the_bytes_of_the_plan_and_none_is_faster_than_its_links(scenario):
    opened = simulation(scenario, True, iterations=1, warmup=0)
    plan = opened.job.plan
    opened.run()
    expected, fastest = plan.traffic_between().toarray(), float(plan.wiring.capacity.max())
    sent = 0.0 * expected
    for source, destination, nbytes, start, end, exchange in opened.network.messages:
        sent[source, destination] += nbytes
        assert start < end
        assert end - start >= nbytes / fastest - 1e-12 * end
        assert ", bucket " in exchange
    assert sent == pytest.approx(expected, rel=1e-9, abs=1e-6)


def test_an_own_process_that_fails_is_not_taken_for_a_simulation_that_never_ends():
    opened = ring()

    def fail(env):
        yield env.timeout(TIME / 2)
        raise RuntimeError("my own")

    opened.env.process(fail(opened.env))
    with pytest.raises(RuntimeError, match="my own"):
        opened.run()


def test_a_simulation_that_can_never_end_is_refused():
    cut = {"cluster.links": [{"link": "node 3 NIC", "factor": 0, "start": "50 ms"}]}
    with pytest.raises(InputError, match=r"scenario '.*': expected every exchange to end, .*node 3 NIC out"):
        ring(messages=True, **cut).run()


REFUSED = {
    "a time that has passed": (lambda opened: opened.workers[1].interrupt(0.1, at=-1), "worker 1: interrupt: expected"),
    "a worker that does not exist": (lambda opened: opened.workers[9], "workers: expected a number from 0 to 7, got 9"),
    "seconds below 0": (lambda opened: opened.workers[1].interrupt(-0.1), "at least 0 s, got -0.1 s"),
    "an interruption without end": (lambda opened: opened.workers[1].interrupt(float("inf")), "got inf s"),
    "a factor below 1": (lambda opened: opened.workers[1].slow_down(0.5), "worker 1: slow_down: expected a factor"),
    "an end before the start": (lambda opened: opened.workers[1].slow_down(2, 0.5, 0.1), "from 0.5 s on, got 0.1 s"),
    "an unknown link": (lambda opened: opened.network.rate("node 0 NIC ou"), "did you mean 'node 0 NIC out'"),
    "an unknown link to set": (lambda opened: opened.network.set_rate("x", 1.0), "network: set_rate: expected a link"),
    "a rate of 0": (lambda opened: opened.network.set_rate("node 0 NIC out", 0.0), "a rate above 0 bytes/s"),
    "a place that does not exist": (lambda opened: opened.network.connect(0, 8), "places from 0 to 7, got 0 and 8"),
    "a message to oneself": (lambda opened: opened.network.connect(1, 1), "two different places"),
    "bytes below 0": (lambda opened: opened.network.connect(7, 0).send(-1.0), "at least 0 bytes"),
    "a message before the run": (lambda opened: opened.network.connect(0, 7).send(1.0), "a simulation that runs"),
    "an unknown event": (lambda opened: opened.on("begin", print), "`start` or `end`"),
    "what cannot be called": (lambda opened: opened.on("start", 1), "on: expected a function of the event, .*, got 1"),
    "a place that is not whole": (lambda opened: opened.network.connect(0, 1.5), "places from 0 to 7, got 0 and 1.5"),
    "seconds without a unit": (lambda opened: opened.workers[1].interrupt("50"), "interrupt: expected a time with its"),
    "a time that is none": (lambda opened: opened.workers[1].interrupt(1, at=[2]), r"or a number in s, got \[2\]"),
    "a factor as text": (lambda opened: opened.workers[1].slow_down("2"), "a factor of at least 1, got '2'"),
    "a rate as a time": (lambda opened: opened.network.set_rate("node 0 NIC out", "1 s"), "a bandwidth in one of"),
    "bytes as a time": (lambda opened: opened.network.connect(7, 0).send("1 s"), "send: expected a size in one of"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_with_its_place(name):
    call, said = REFUSED[name]
    with pytest.raises(InputError, match=said):
        call(ring(messages=True))


def test_quantities_may_be_texts_with_their_units():
    opened, number = ring(messages=True), ring(messages=True)
    for one, (pause, at, until, rate, nbytes) in (
        (opened, ("50 ms", "15 ms", "20 ms", "5 Gbit/s", "20 MB")),
        (number, (0.05, 0.015, 0.02, 0.625e9, 20e6)),
    ):
        one.workers[3].interrupt(pause, at=at)
        one.workers[2].slow_down(2, 0, until)
        one.network.set_rate("node 0 NIC out", rate)
        connection = one.network.connect(0, 1)

        def send(env, connection=connection, nbytes=nbytes):
            yield env.timeout(COMPUTED)
            yield connection.send(nbytes)

        one.env.process(send(one.env))
    time = time_of(opened)
    assert time == time_of(number) > TIME + 0.05 and opened.network.messages == number.network.messages


LATE = {
    "on": lambda opened, _: opened.on("start", print),
    "worker 0: interrupt": lambda opened, _: opened.workers[0].interrupt(0.1),
    "worker 0: slow_down": lambda opened, _: opened.workers[0].slow_down(2),
    "network: set_rate": lambda opened, _: opened.network.set_rate("node 0 NIC out", 1e9),
    "network: send": lambda _, connection: connection.send(1.0),
}


@pytest.mark.parametrize("name", LATE)
def test_a_call_after_the_run_is_refused(name):
    opened = ring(messages=True)
    connection = opened.network.connect(0, 1)
    opened.run()
    with pytest.raises(InputError, match=f"{name}: expected to be called before or during the run, got a call after"):
        LATE[name](opened, connection)


def test_what_comes_too_late_is_refused():
    opened, refused = ring(messages=True), []

    def late(env):
        yield env.timeout(0.1)
        for call in (lambda: opened.workers[0].interrupt(0.1, at=0.05), lambda: opened.network.connect(0, 1)):
            with pytest.raises(InputError) as error:
                call()
            refused.append(str(error.value))

    opened.env.process(late(opened.env))
    opened.run()
    assert "a time from 0.1 s on, got 0.05 s" in refused[0]
    assert "before the run" in refused[1]
    with pytest.raises(InputError, match="run: expected a simulation that has not run yet"):
        opened.run()


def test_workers_that_push_at_their_own_pace_cannot_be_interrupted_during_the_run():
    jitter, refused = {"cluster.stragglers": {"jitter": 0.1}}, []
    opened = simulation("ps_incast", True, iterations=1, warmup=0, **jitter)

    def late(env):
        yield env.timeout(0.01)
        with pytest.raises(InputError, match="before the run"):
            opened.workers[0].interrupt(0.1)
        refused.append(env.now)

    opened.env.process(late(opened.env))
    opened.run()
    assert refused == [0.01]
