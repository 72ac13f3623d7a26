"""What every method makes of all workers' gradients, against sums over the workers by its published definition.

Counts and residuals can be right while the update is not. Here each method's definition, in plain numpy and loops over
workers, gives the update of several iterations: what was left goes into the next gradients, as the method says.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import test_deft
import test_dgc
import test_eight_bit
import test_gaussiank
import test_gtopk
import test_inceptionn
import test_natural
import test_oktopk
import test_onebit
import test_powersgd
import test_qsgd
import test_redsync
import test_sidco
import test_sketch
import test_terngrad
from long_examples import few_first
from test_demo import transformed
from test_exdyna import published_parts
from test_micro import equal_parts, exclusive_reference
from test_skip_reduce import ring
from test_sparseloco import decoded_by_lists

from simulator.component import build, discover
from simulator.sparsifiers.base import Sparsifier
from simulator.sparsifiers.quantised_all_reduce import FORMATS
from simulator.training.exchange import GradientExchange

SHAPES, ITERATIONS, DENSITY = ((24, 20), (16, 10), (30,)), 6, 0.05
NUMELS = tuple(int(np.prod(shape)) for shape in SHAPES)
ENDS = np.cumsum([0, *NUMELS]).tolist()
TENSORS = [slice(a, b) for a, b in pairwise(ENDS)]
D = ENDS[-1]

Gradients = np.ndarray
"""Those of all iterations and workers, (t, n, d)."""


def made(workers):
    """Gradients of tensors of different sizes, in part common to all workers."""
    draws = np.random.default_rng(workers)
    scale = np.repeat([0.3, 0.05, 1.0], NUMELS) * np.exp(0.5 * draws.standard_normal(D))
    shared = draws.standard_normal((ITERATIONS, 1, D))
    return np.float32(scale * (shared + draws.standard_normal((ITERATIONS, workers, D))))


def with_residual(sent: Callable, kept: float = 1.0, filtered: float = 1.0) -> Callable:
    """The mean of what `sent(u, t, worker)` is of u = kept * residual + gradient; the rest is the next residual."""

    def updates(gradients: Gradients):
        residual = np.zeros(gradients.shape[1:], np.float32)
        for t, own in enumerate(gradients):
            u = np.float32(kept) * residual + own
            each = np.array([sent(row, t, worker, u) for worker, row in enumerate(u)])
            residual = np.float32((1 - filtered) * residual + filtered * (u - each))
            yield each.sum(axis=0) / len(u)

    return updates


def of_tensors(code: Callable) -> Callable:
    """`sent` of a method that codes the tensors of every worker by themselves."""
    return lambda u, t, worker, everyone: np.concatenate([code(u[own]) for own in TENSORS])


def at(places: Callable) -> Callable:
    """`sent` of a method that sends the values at places of every tensor as they are."""

    def sent(u, t, worker, everyone):
        out = np.zeros(D, np.float32)
        for number, own in enumerate(TENSORS):
            index = own.start + np.array(places(u[own], t, worker, number), dtype=int)
            out[index] = u[index]
        return out

    return sent


def top(u, *where):
    """The k largest magnitudes."""
    return np.argsort(-np.abs(u), kind="stable")[: max(1, round(DENSITY * len(u)))]


def of_leader(u, t, worker, everyone):
    """CLT-k: the Top-k of worker t mod n, whoever sends it."""
    return np.where(at(top)(everyone[t % len(everyone)], t, worker, everyone) != 0, u, 0)


def drawn(u, t, worker, number):
    """Random-k: the draws of all tensors come from one generator, the same on every worker."""
    draws = np.random.default_rng([0, t, 0])
    for own in NUMELS[: number + 1]:
        found = draws.choice(own, size=max(1, round(DENSITY * own)), replace=False)
    return found


def above(u, t, worker, everyone):
    return np.where(np.abs(u) >= 0.5, u, 0)


def sage(gradients: Gradients):
    """The thresholds of `test_sage`, for all workers; `seen` are their sampled means."""
    workers = gradients.shape[1]
    size, thresholds, seen = int(D / (1 + D * 0.0025)), np.full(workers, 0.5), np.zeros(workers)

    def sent(u, t, worker, everyone):
        mean = np.abs(u[np.random.default_rng([0, t, worker]).integers(D, size=size)]).mean(dtype=float)
        if t:
            alpha = mean / seen[worker]
            exam = np.count_nonzero(np.abs(u) >= np.float32(thresholds[worker] * alpha)) / D
            gamma = 0.95 if exam < 0.1 * DENSITY else 1.05 if exam > 10 * DENSITY else 1
            thresholds[worker] *= alpha * 2 / (1 + np.exp(DENSITY - exam)) * gamma
        seen[worker] = mean
        return np.where(np.abs(u) >= np.float32(thresholds[worker]), u, 0)

    return with_residual(sent)(gradients)


def dgc(gradients: Gradients):
    """Momentum correction and masking; sums of the velocities that were selected."""
    momentum, velocity = (np.zeros(gradients.shape[1:], np.float32) for _ in range(2))
    for t, own in enumerate(gradients):
        momentum = np.float32(0.9) * momentum + own
        velocity, total = velocity + momentum, np.zeros(D)
        for worker, row in enumerate(velocity):
            for number, tensor in enumerate(TENSORS):
                draws = np.random.default_rng([0, t, worker, number])
                index = tensor.start + np.array(test_dgc.reference(row[tensor].tolist(), DENSITY, draws)[0])
                total[index] += row[index]
                row[index] = momentum[worker, index] = 0
        yield total / len(own)


def gtopk(gradients: Gradients):
    residual = np.zeros(gradients.shape[1:], np.float32)
    for own in gradients:
        _, sums, residual = test_gtopk.reference(residual + own, round(DENSITY * D))
        update = np.zeros(D)
        update[list(sums)] = list(sums.values())
        yield update / len(own)


def oktopk(gradients: Gradients):
    released = test_oktopk.Reference(gradients.shape[1], D, round(DENSITY * D), (4, 8))
    for t, own in enumerate(gradients):
        u = [kept + row for kept, row in zip(released.residual, own, strict=True)]
        chosen, final = released.step(t, own)
        update = np.zeros(D)
        for row, index in zip(u, chosen, strict=True):
            for j in final.intersection(index):
                update[j] += row[j]
        yield update / len(own)


def of_residuals(residuals: Callable) -> Callable:
    """The mean of u less what stays, of a loop that yields residuals last."""

    def updates(gradients: Gradients):
        before = np.zeros(gradients.shape[1:], np.float32)
        for own, (*_, left) in zip(gradients, residuals(gradients), strict=True):
            yield (before + own - left).sum(axis=0, dtype=float) / len(own)
            before = left

    return updates


def exdyna(gradients: Gradients):
    parts, _ = published_parts(gradients.shape[1], D, D, 1)
    return exclusive_reference(gradients, DENSITY, parts)


def micro(gradients: Gradients):
    return exclusive_reference(gradients, DENSITY, lambda *_: equal_parts(gradients.shape[1], D))


def vote(momentum: float) -> Callable:
    """The sign that most workers send, of the momentum; a tie and 0 count as positive."""

    def updates(gradients: Gradients):
        own = np.zeros(gradients.shape[1:], np.float32)
        for values in gradients:
            own = np.float32(momentum) * own + np.float32(1 - momentum) * values
            yield np.where(2 * (own >= 0).sum(axis=0) >= len(own), 1.0, -1.0)

    return updates


def powersgd(gradients: Gradients):
    """Each worker multiplies its own matrices; factors that would not be smaller are not made."""
    workers, known, residual = gradients.shape[1], {}, np.zeros(gradients.shape[1:])
    for t, own in enumerate(gradients):
        u, draws = residual + own, np.random.default_rng([0, t, 0])
        update = u.mean(axis=0)
        for number in (0, 1):
            place, shape = TENSORS[number], SHAPES[number]
            each = [row[place].reshape(shape) for row in u]
            q = known[number] if t else draws.standard_normal((shape[1], 2))
            p = test_powersgd.orthogonal(sum(matrix @ q for matrix in each) / workers)
            known[number] = sum(matrix.T @ p for matrix in each) / workers
            update[place] = (p @ known[number].T).ravel()
        residual = u - update
        yield update


def alternating_powersgd(gradients: Gradients):
    """The library's loop: each iteration orthogonalises the last factor and averages the products with it."""
    workers, last, residual = gradients.shape[1], {}, np.zeros(gradients.shape[1:])
    for t, own in enumerate(gradients):
        u, draws = residual + own, np.random.default_rng([0, t, 0])
        update = u.mean(axis=0)
        for number in (0, 1):
            place, shape = TENSORS[number], SHAPES[number]
            factor = test_powersgd.orthogonal(last[number] if t else draws.standard_normal((shape[0], 2)))
            each = [row[place].reshape(shape) for row in u]
            if t % 2:  # P from Q
                last[number] = sum(matrix @ factor for matrix in each) / workers
                update[place] = (last[number] @ factor.T).ravel()
            else:
                last[number] = sum(matrix.T @ factor for matrix in each) / workers
                update[place] = (factor @ last[number].T).ravel()
        residual = u - update
        yield update


def chunks():
    """The places of every chunk, by tensor: blocks of at most 8 x 8 elements that leave nothing over."""
    for tensor, shape, (rows, columns) in zip(TENSORS, (*SHAPES[:2], (1, 30)), ((8, 5), (8, 5), (1, 6)), strict=True):
        places = np.arange(tensor.start, tensor.stop).reshape(shape)
        yield [
            places[y : y + rows, x : x + columns] for y in range(0, shape[0], rows) for x in range(0, shape[1], columns)
        ]


def demo(gradients: Gradients):
    """The sign of the mean of each coefficient over those who sent it."""
    momentum = np.zeros(gradients.shape[1:])
    for own in gradients:
        momentum, update = 0.9 * momentum + own, np.zeros(D)
        for places in (chunk for tensor in chunks() for chunk in tensor):
            codes = [transformed(row[places], places.shape, 64) for row in momentum]
            for row, code in zip(momentum, codes, strict=True):
                code.ravel()[np.argsort(-np.abs(code.ravel()), kind="stable")[3:]] = 0
                row[places] -= transformed(code, places.shape, 64, inverse=True)
            senders = np.maximum(1, np.count_nonzero(codes, axis=0))
            update[places] = transformed(np.sum(codes, axis=0) / senders, places.shape, 64, inverse=True)
        yield np.sign(update)


def steps_of_chunks(u, t, worker, everyone):
    """SparseLoCo: of every chunk the 5 largest, decoded by the steps of their tensor."""
    out = np.zeros(D)
    for tensor in chunks():
        own = [places.ravel() for places in tensor]
        chosen = np.sort(np.concatenate([places[np.argsort(-np.abs(u[places]), kind="stable")[:5]] for places in own]))
        out[chosen] = decoded_by_lists(u[chosen].tolist(), 4)
    return out


def ring_of_codes(gradients: Gradients):
    """Prime's ring: of each of 2 n messages, every hop rounds the sum that it passes on."""
    workers = gradients.shape[1]
    length = -(-D // (2 * workers))
    for own in gradients:
        update = np.zeros(D)
        for message in range(2 * workers):
            places = slice(message * length, min(D, (message + 1) * length))
            total = np.zeros(max(0, places.stop - places.start))
            for hop in range(workers if len(total) else 0):
                total = FORMATS["uint8"].rounded(total + own[(message // 2 + 1 + hop) % workers, places], len(total))
            update[places] = total
        yield update / workers


def skipped_ring(gradients: Gradients):
    """Half of the reduce-scatter's steps are left out; the draw of the shift is the same on all workers."""
    workers = gradients.shape[1]
    parts = [np.flatnonzero(np.arange(D) * workers // D == chunk) for chunk in range(workers)]
    for t, own in enumerate(gradients):
        shift = int(np.random.default_rng([0, t, 0]).integers(workers))
        update = np.zeros(D)
        for i in range(max(map(len, parts))):
            places = [part[min(i, len(part) - 1)] for part in parts]
            update[places] = ring(own[:, places].astype(float), workers // 2, shift)[0]
        yield update / workers


def random_bits(code: Callable) -> Callable:
    """`sent` of a method that rounds all elements by one draw each."""

    def sent(u, t, worker, everyone):
        return code(u, np.random.default_rng([0, t, worker]).random(D, dtype=np.float32))

    return sent


def powers_of_two(u, draws):
    return [test_natural.reference(float(x), float(draw)) for x, draw in zip(u, draws, strict=True)]


def nearest_of_table(u):
    table, scale = test_eight_bit.magnitudes(), np.abs(u).max().astype(float)
    return np.copysign(table[np.abs(table[:, None] * scale - np.abs(u, dtype=float)).argmin(axis=0)] * scale, u)


def without_residual(sent: Callable) -> Callable:
    return with_residual(sent, kept=0.0)


SPARSE = {"density": DENSITY}
METHODS = {
    "cltk": (SPARSE | {"beta": 0.3}, with_residual(of_leader, filtered=0.3)),
    "deft": (SPARSE, of_residuals(lambda given: test_deft.reference(given, DENSITY, NUMELS))),
    "demo": ({"chunk": 8, "k": 3, "momentum": 0.9}, demo),
    "dense": ({}, without_residual(lambda u, *_: u)),
    "dgc": (SPARSE, dgc),
    "efsignsgd": ({}, with_residual(of_tensors(lambda u: np.where(u >= 0, 1, -1) * np.abs(u).mean(dtype=float)))),
    "eight_bit": ({}, without_residual(of_tensors(nearest_of_table))),
    "exdyna": (SPARSE, of_residuals(exdyna)),
    "gaussiank": (SPARSE, with_residual(at(lambda u, *_: test_gaussiank.reference(u.tolist(), DENSITY, 3)[0]))),
    "gtopk": (SPARSE, gtopk),
    "inceptionn": ({}, without_residual(of_tensors(lambda u: [test_inceptionn.reference(float(x), 10)[1] for x in u]))),
    "micro": (SPARSE, of_residuals(micro)),
    "natural": ({}, without_residual(random_bits(powers_of_two))),
    "oktopk": (SPARSE | {"interval": 4, "repartition": 8}, oktopk),
    "omnireduce": (SPARSE | {"block_size": 16}, with_residual(at(top))),
    "onebit": ({}, with_residual(of_tensors(lambda u: test_onebit.reference(u.tolist())))),
    "powersgd": ({"rank": 2}, powersgd),
    "qsgd": ({}, without_residual(random_bits(lambda u, draws: test_qsgd.reference(u, NUMELS, 128, 127, draws)))),
    "quantised_all_reduce": ({}, ring_of_codes),
    "randomk": (SPARSE, with_residual(at(drawn))),
    "redsync": (SPARSE, with_residual(at(lambda u, *_: test_redsync.reference(u.tolist(), DENSITY, 0.2)[0]))),
    "sage": (SPARSE | {"threshold": 0.5}, sage),
    "sidco": (
        SPARSE | {"distribution": "gamma", "stages": 2, "adapt": False},
        with_residual(at(lambda u, *_: test_sidco.reference(u.tolist(), DENSITY, "gamma", 2)[0])),
    ),
    "signsgd": ({}, vote(0.0)),
    "signum": ({}, vote(0.9)),
    "sketch": (
        {"bins": 16},
        without_residual(of_tensors(lambda u: test_sketch.reference(u.astype(float).tolist(), 16))),
    ),
    "skip_reduce": ({"smallest": 0}, skipped_ring),
    "sparseloco": ({"chunk": 8, "k": 5}, with_residual(steps_of_chunks, kept=0.95)),
    "terngrad": ({}, without_residual(random_bits(lambda u, draws: test_terngrad.reference(u, NUMELS, 2.5, draws)))),
    "threshold": (SPARSE | {"threshold": 0.5}, with_residual(above)),
    "topk": (SPARSE, with_residual(at(top))),
    "zen": (SPARSE, with_residual(at(top))),
}


OTHERS = {"powersgd, alternating": ({"rank": 2, "implementation": "alternating"}, alternating_powersgd)}


@pytest.mark.parametrize("workers", few_first([4, 16, 64]))
@pytest.mark.parametrize("kind", [*sorted(discover(Sparsifier)), *OTHERS])
def test_every_method_applies_its_published_update(kind, workers):
    given, updates = (METHODS | OTHERS)[kind]
    member = build(Sparsifier, {"kind": kind.partition(",")[0]} | given)
    exchange = GradientExchange(member, SHAPES, workers)
    gradients = made(workers)[: ITERATIONS if member.state_values(NUMELS) else 2]
    iteration = -1
    for iteration, expected in enumerate(updates(gradients)):
        update, _ = exchange.run(gradients[iteration].copy(), iteration)
        error = np.linalg.norm(update - expected) / np.linalg.norm(expected)
        assert error < 1e-6, f"iteration {iteration}: {error:.3g}"
    assert iteration + 1 == len(gradients)
