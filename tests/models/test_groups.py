"""Groups by a key, and each left out in turn."""

from simulator.models.groups import group_by, leave_out


def test_groups_keep_the_order_of_their_first_items():
    assert group_by([3, 1, 4, 1, 5], lambda n: n % 2) == {1: [3, 1, 1, 5], 0: [4]}


def test_every_group_is_left_out_once_and_one_alone_never():
    assert list(leave_out([3, 4, 5], lambda n: n % 2)) == [(1, [3, 5], [4]), (0, [4], [3, 5])]
    assert not list(leave_out([3, 5], lambda n: n % 2))
