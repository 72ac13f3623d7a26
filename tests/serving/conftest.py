"""A page that is served to the tests of this folder."""

import pytest
from served_pages import served


@pytest.fixture(scope="session")
def port():
    with served() as (number, _):
        yield number
