"""The choice of combinations that contain each pair of values."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.pairs import every_pair


@pytest.mark.parametrize(("sizes", "n_expected"), [((17, 2, 2), 34), ((11, 2, 2, 2), 24)])
def test_every_pair_occurs(sizes: tuple[int, ...], n_expected: int) -> None:
    parameters = [[f"{p}-{value}" for value in range(size)] for p, size in enumerate(sizes)]
    found = every_pair(*parameters)
    assert len(found) <= n_expected
    for one, other in combinations(range(len(sizes)), 2):
        pairs = {(each[one], each[other]) for each in found}
        assert pairs == set(product(parameters[one], parameters[other]))
    assert found == every_pair(*parameters)
