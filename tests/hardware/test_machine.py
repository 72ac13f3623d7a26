"""What a collective library sees of a machine."""

import math

import numpy as np
import pytest

from simulator.hardware.machine import LibraryTerms, generation_of


@pytest.mark.parametrize(
    ("device", "links", "generation"),
    [
        ("NVIDIA GH200", 0.0, "hopper"), ("RTX_3090", 9e11, "ampere"), ("AMD Instinct MI300X", 0.0, "cdna"),
        ("", 1.6e11, "volta"), ("", 1.7e11, "ampere"), ("", 3.2e11, "hopper"), ("", 6e11, "hopper"),
        ("new", 6.1e11, "blackwell"),
    ],
)  # fmt: skip
def test_the_name_tells_the_generation_and_the_rate_of_its_links_where_it_does_not(device, links, generation):
    assert generation_of(device, links) == generation


def test_what_a_step_takes_beyond_its_bytes_is_read_over_the_logarithm_of_the_bytes():
    terms = LibraryTerms(step_overhead=((10.0, 2e-6), (1000.0, 6e-6)))
    sizes = np.array([0.0, 10.0, 10 * math.sqrt(10), 1000.0, 1e6])
    np.testing.assert_allclose(terms.overhead_of_step(sizes), [2e-6, 2e-6, 3e-6, 6e-6, 6e-6])
    for points in (((10.0, 1e-6), (5.0, 2e-6)), ((10.0, 1e-6), (10.0, 2e-6))):
        with pytest.raises(ValueError, match="points with rising bytes"):
            LibraryTerms(step_overhead=points)
