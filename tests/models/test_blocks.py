"""Blocks of gradients, cut and counted element by element."""

import numpy as np
import pytest

from simulator.models.gradients import (
    ALL,
    Block,
    Choice,
    Outcome,
    are_among,
    count_selected,
    join_places,
    take_sent,
    top,
    without_noise,
)
from simulator.models.sampling import draw_uniformly
from simulator.records import replace

NUMELS = (4, 3, 5)


def held(per_tensor, weight=None, numels=NUMELS, workers=2, **more):
    """A block that holds these elements of each tensor, (tensor, position); values are their places in the model."""
    starts = np.cumsum([0, *numels])
    pairs = [(tensor, place) for tensor, places in enumerate(per_tensor) for place in places]
    flat = np.array([starts[tensor] + place for tensor, place in pairs])
    values = np.stack([flat + 100 * worker for worker in range(workers)]).astype(np.float32)
    given = np.ones(len(pairs)) if weight is None else np.array(weight, dtype=float)
    return Block(values, np.array([tensor for tensor, _ in pairs]), flat, given, numels, **more)


WHOLE = held([range(4), range(3), range(5)], shapes=((2, 2), (3,), (5, 1)), iteration=6)
SOME = held([(0, 3), (1,), (0, 2, 4)], weight=[1, 2, 3, 4, 5, 6])


@pytest.mark.parametrize("whole", [WHOLE, SOME], ids=["all", "sampled"])
@pytest.mark.parametrize(
    ("layers", "offset", "numels"),
    [((0,), 0, (4,)), ((1, 2), 0, (3, 5)), ((2, 0), 0, (5, 4)), ((2, 1, 0), 0, (5, 3, 4)), ((2,), 1, (3,)),
     ((0, 2), 0, (4, 5)), ((0, 1), 2, (2, 3))],
)  # fmt: skip
def test_a_bucket_is_its_elements_in_its_own_order(whole, layers, offset, numels):
    """Element by element: the next one of the bucket is the next one of its tensor; those that are not held are out."""
    position = {int(flat): column for column, flat in enumerate(whole.coordinate)}
    columns, pieces, coordinates = [], [], []
    for number, (layer, numel) in enumerate(zip(layers, numels, strict=True)):
        first = sum(NUMELS[:layer]) + (offset if number == 0 else 0)
        for place in range(numel):
            if first + place in position:
                columns.append(position[first + place])
                pieces.append(number)
                coordinates.append(sum(numels[:number]) + place)
    part = whole.cut(layers, offset, numels).of(whole)
    assert (part.values.tolist(), part.piece.tolist()) == (whole.values[:, columns].tolist(), pieces)
    assert (part.coordinate.tolist(), part.weight.tolist()) == (coordinates, whole.weight[columns].tolist())
    assert (part.numels, part.numel, part.iteration) == (numels, sum(numels), whole.iteration)
    assert part.shapes == (tuple(whole.shapes[layer] for layer in layers) if whole.shapes and not offset else ())
    cut = whole.cut(layers, offset, numels)
    assert cut.keys.values.shape == (0, len(columns))
    # What lies together is a view of the whole, which costs no memory.
    assert isinstance(cut.columns, slice) == (columns == list(range(columns[0], columns[-1] + 1)))


@pytest.mark.parametrize("whole", [WHOLE, SOME, held([(0, 1), (), (4,)])])
def test_units_are_the_tensors_that_are_held_or_the_whole_bucket(whole):
    m = len(whole.piece)
    assert whole.units("model") == [(slice(0, m), 12)]
    made = whole.units("layer")
    assert [numel for _, numel in made] == [n for tensor, n in enumerate(NUMELS) if (whole.piece == tensor).any()]
    assert np.concatenate([np.arange(m)[unit] for unit, _ in made]).tolist() == list(range(m))
    assert all(len(set(whole.piece[unit].tolist())) == 1 for unit, _ in made)


@pytest.mark.parametrize(
    ("weight", "numel", "sampled"),
    [((1, 1), 2, False), ((1, 1), 5, False), ((2, 2), 4, True), ((1, 2), 3, True), ((0.5, 1.5), 2, False)],
)
def test_a_block_is_sampled_where_some_coordinate_stands_for_more_than_itself(weight, numel, sampled):
    """Two coordinates; where all elements are held nothing is sampled, whatever the weights say."""
    block = held([(0, 1)], weight=weight, numels=(numel,))
    assert block.sampled is sampled
    assert (block.weight_of(slice(1, 2)) is None) is not sampled
    if sampled:
        assert block.weight_of(slice(1, 2)).tolist() == [weight[1]]


def test_draws_of_a_unit_are_those_of_its_coordinates_in_this_iteration():
    block = held([(0, 3), (1,), (0, 2, 4)], iteration=5)
    rows, places = np.array([0, 1, 1]), np.array([2, 0, 1])
    made = block.draws_of(slice(3, 6), slice(4, 6), seed=9)(rows, places)
    np.testing.assert_array_equal(made, draw_uniformly(9, 5, rows + 4, block.coordinate[3 + places]))
    first = block.draws_of(slice(3, 6))(rows, places)
    np.testing.assert_array_equal(first, draw_uniformly(0, 5, rows, block.coordinate[3 + places]))


def places(*each):
    return [np.array(some, dtype=np.int64) for some in each]


def test_coordinates_of_any_worker_are_joined():
    assert join_places(places([0, 3], [1, 3], []), 5).tolist() == [0, 1, 3]
    assert join_places([*places([0, 3]), ALL], 5) == ALL
    assert join_places([ALL, *places([0])], 5) == ALL
    same = np.array([2, 4])
    assert join_places([same, same], 5) is same
    assert join_places([same, *places([2])], 5).tolist() == [2, 4]
    assert join_places([*places([2]), same, same], 5).tolist() == [2, 4]
    found = are_among(np.array([1, 4]), places([0, 1, 2], [4], []), 5)
    assert [mask.tolist() for mask in found] == [[False, True, False], [True], []]


def test_what_is_sent_and_what_is_left_make_up_the_whole():
    """Squares of 3, 4 and 12 for one worker, of 1, 2 and 2 for the other; the first coordinate counts twice."""
    block = held([(0, 1, 2)], weight=[2, 1, 1], numels=(4,))
    u = np.array([[3, 4, 12], [1, 2, 2]], dtype=np.float32)
    choice = Choice([*places([0, 2]), ALL])
    sent, energy, lost = take_sent(choice, u, block)
    assert [values.tolist() for values in sent] == [[3, 12], [1, 2, 2]]
    assert u.tolist() == [[0, 4, 0], [0, 0, 0]]
    assert (energy.tolist(), lost.tolist()) == ([2 * 9 + 16 + 144, 2 * 1 + 4 + 4], [16, 0])
    outcome = Outcome(count_selected(choice, block, 3.0), choice, sent, u, energy, lost)
    assert outcome.energy_kept == pytest.approx(1 - 16 / (178 + 10))
    assert replace(outcome, energies=np.zeros(2), losses=np.zeros(2)).energy_kept == 1
    assert (outcome.mean().tolist(), outcome.mean().dtype) == ([(3 + 1) / 2, 2 / 2, (12 + 2) / 2], np.float32)
    kept = replace(outcome, choice=replace(choice, aggregated=np.array([1]), sums=np.array([6.0])))
    assert kept.mean().tolist() == [0, 3, 0]


def test_what_others_decode_is_sent_and_the_difference_is_left():
    block = held([(0, 1)], numels=(2,))
    u, decoded = np.array([[3.0, 4.0]], dtype=np.float32), np.array([[2.0, 4.5]], dtype=np.float32)
    sent, energy, lost = take_sent(Choice(places([0]), decoded=decoded), u, block)
    assert (sent[0].tolist(), u.tolist()) == ([2, 4.5], [[1, -0.5]])
    assert (energy, lost) == (25, 1.25)


def test_the_counts_of_a_choice():
    """Of 4 coordinates, 2 and 3 are selected, 4 of them by anyone; of a sample the weights count."""
    chosen = places([0, 2], [1, 2, 3])
    plain = count_selected(Choice(chosen, passes=2.0, detail={"a": 1.0}), held([range(4)], numels=(4,)), 2.5)
    assert (plain.selected.tolist(), plain.selected.dtype) == ([2, 3], float)
    assert (plain.aggregated, plain.largest, plain.target, plain.scanned, plain.passes) == (4, 3, 2.5, 4, 2)
    assert (plain.detail, plain.aggregated_error) == ({"a": 1.0}, 0)
    assert count_selected(Choice(chosen, scanned=1.0), held([range(4)], numels=(4,)), 2.5).scanned == 1
    assert count_selected(Choice(chosen, aggregated=np.array([0])), held([range(4)], numels=(4,)), 2.5).aggregated == 1
    # 1 + 3 and 2 + 3 + 4 elements in the sample; the method is known to take 2 and 3: 10 in all times 5/13.
    fixed = Choice(chosen, counts=np.array([2.0, 3.0]))
    found = count_selected(fixed, held([range(4)], weight=[1, 2, 3, 4], numels=(10,)), 2.5)
    assert found.selected.tolist() == [2, 3]
    assert found.aggregated == pytest.approx(10 * 5 / 13)
    assert found.aggregated_error == pytest.approx(5 / 13 * np.sqrt(0 + 2 + 6 + 12))
    one = Choice(places([], [0]), counts=np.array([1.0, 3.0]))
    assert count_selected(one, held([range(2)], weight=[2, 3], numels=(5,)), 2.5).aggregated == pytest.approx(2 * 4 / 2)
    none = Choice(places([], []), counts=np.array([0.0, 0.0]))
    assert count_selected(none, held([range(2)], weight=[2, 3], numels=(5,)), 2.5).aggregated == 0


@pytest.mark.parametrize(
    ("counts", "variance", "kept"),
    [((1, 3, 5), 3.0, 0.5), ((1, 3, 5), 0.0, 1.0), ((1, 3, 5), 4.0, 0.0), ((1, 3, 5), 9.0, 0.0),
     ((2, 3), 0.125, 0.75**0.5), ((7,), 1.0, 1.0), ((2, 2), 1.0, 1.0)],
)  # fmt: skip
def test_counts_keep_the_part_of_their_spread_that_is_no_noise(counts, variance, kept):
    """1, 3 and 5 have the variance 4 about 3, 2 and 3 one half: less that of the noise, as a ratio of deviations."""
    mean = sum(counts) / len(counts)
    expected = [mean + kept * (count - mean) for count in counts]
    assert without_noise(np.array(counts, dtype=float), variance).tolist() == pytest.approx(expected)


def test_the_top_of_each_tensor_or_of_the_whole_bucket():
    """Values are 0 to 11, and 100 more for the second worker, for which the first element is no zero."""
    assert [found.tolist() for found in top(WHOLE.values, WHOLE, "layer", lambda n: n - 3)] == [
        [3, 10, 11],
        [3, 10, 11],
    ]
    assert [found.tolist() for found in top(WHOLE.values, WHOLE, "model", lambda n: n)] == [
        list(range(1, 12)),
        list(range(12)),
    ]
    none = top(WHOLE.values, WHOLE, "layer", lambda n: 0)
    assert [(found.tolist(), found.dtype) for found in none] == 2 * [([], np.int64)]


DECODED = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=np.float32)


@pytest.mark.parametrize(
    ("choice", "valid"),
    [
        (Choice(places([0, 2], [])), True),
        (Choice([ALL, *places([1])], sent=places([0, 1, 2], [2])), True),
        (Choice(places([0], [1]), aggregated=np.array([0, 1, 2])), True),
        (Choice(places([0], [1]), decoded=DECODED), True),
        # Sums of what all send, each finite, at coordinates that are there.
        (Choice(places([0], [1]), aggregated=np.array([0, 1]), sums=np.array([1.0, 2.0])), True),
        (Choice(places([0], [3]), aggregated=np.array([0, 1]), sums=np.array([1.0, 2.0])), False),
        (Choice(places([0], [1]), aggregated=np.array([0, 1]), sums=np.array([1.0])), False),
        (Choice(places([0], [1]), aggregated=np.array([0, 1]), sums=np.array([1.0, np.inf])), False),
        (Choice(places([0], [1]), sums=np.array([1.0])), False),
        # One worker too few or too many, in either of both.
        (Choice(places([0])), False),
        (Choice(places([0], [1], [2])), False),
        (Choice(places([0], [1]), sent=places([0])), False),
        (Choice(places([0]), sent=places([0], [1])), False),
        # Places that are not there, that fall or repeat, that are no whole numbers, no list, or a part of a slice.
        (Choice(places([0], [3])), False),
        (Choice(places([-1, 0], [1])), False),
        (Choice(places([0, 2, 1], [1])), False),
        (Choice(places([0, 1, 1], [1])), False),
        (Choice(places([1, 0, 2], [1])), False),
        (Choice([np.array([0.0]), *places([1])]), False),
        (Choice([np.array([[0]]), *places([1])]), False),
        (Choice([slice(0, 2), *places([1])]), False),
        (Choice(places([0], [1]), sent=places([3], [1])), False),
        (Choice(places([0], [1]), aggregated=np.array([0, 3])), False),
        # Decoded values of another shape, or that are no numbers.
        (Choice(places([0], [1]), decoded=DECODED[:, :2]), False),
        (Choice(places([0], [1]), decoded=np.where(DECODED == 5, np.nan, DECODED)), False),
        (Choice(places([0], [3]), decoded=DECODED), False),
    ],
)
def test_a_choice_is_increasing_places_of_every_worker_and_finite_values(choice, valid):
    """Two workers at three coordinates."""
    assert choice.is_valid((2, 3)) is valid
