"""Examples of which a few are tried by default, and all others with the long tests."""

import pytest


def few_first(values, few=1):
    """The first `few` values as they are, and the others for the long tests."""
    values = [*values]
    return [*values[:few], *(pytest.param(value, marks=pytest.mark.long) for value in values[few:])]
