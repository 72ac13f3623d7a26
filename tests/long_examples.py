"""Examples of which a few are tried by default, others with the long tests, and all others by hand."""

import pytest


def few_first(values, few=1, by_hand=()):
    """The first `few` values as they are, the others for the long tests, and those `by_hand` that are none of these."""
    values = [*values]
    rest = [(value, pytest.mark.long) for value in values[few:]]
    rest += [(value, pytest.mark.fuzz) for value in by_hand if value not in values]
    return [*values[:few], *(pytest.param(value, marks=mark) for value, mark in rest)]
