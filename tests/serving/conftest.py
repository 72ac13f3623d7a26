"""A page that is served to the tests of this folder."""

import pytest
from served_pages import served


@pytest.fixture(scope="session")
def port():
    with served("ring_check") as (number, _):  # which its processes answer sooner than others before they begin
        yield number
