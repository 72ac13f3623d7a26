"""Results that are remembered by the objects that they were made of."""

from simulator.models.small_cache import ResultsOfObjects


def test_equal_objects_are_not_the_same_object():
    results, one, other = ResultsOfObjects(4), [1], [1]
    assert (results.get((one,), lambda: "one"), results.get((other,), lambda: "other")) == ("one", "other")
    assert results.get((one,), lambda: "again") == "one"
    assert results.get((one,), lambda: "with more", 3) == "with more"


def test_an_object_is_kept_as_long_as_its_result_so_that_no_other_takes_its_place():
    results = ResultsOfObjects(2)
    for number in range(100):
        assert results.get(([number],), lambda number=number: number) == number


def test_the_result_that_was_used_longest_ago_is_dropped():
    results, parts = ResultsOfObjects(2), [[0], [1], [2]]
    for part in parts:
        results.get((part,), lambda part=part: part[0])
    assert results.get((parts[2],), lambda: "again") == 2
    assert results.get((parts[0],), lambda: "again") == "again"
