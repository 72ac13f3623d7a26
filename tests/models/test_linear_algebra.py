"""Linear algebra with one order of summation, against NumPy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.models.linear_algebra import (
    SparseRows,
    multiply,
    orthonormal_columns,
    singular_values,
    solve_symmetric,
    weigh,
    weigh_rows,
)

sizes = st.integers(1, 12)


def drawn(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


@given(sizes, sizes, sizes)
def test_products_are_those_of_numpy(m, k, n):
    left, right = drawn(1, m, k), drawn(2, k, n)
    np.testing.assert_allclose(multiply(left, right), left @ right, rtol=0, atol=1e-13)
    np.testing.assert_allclose(multiply(left.T, left), left.T @ left, rtol=0, atol=1e-13)
    np.testing.assert_allclose(weigh_rows(left[0], right), left[0] @ right, rtol=0, atol=1e-13)
    few, weights = np.where(left > 0.5, left, 0.0), drawn(3, m)
    np.testing.assert_allclose(SparseRows(few).square(weights), (few.T * weights) @ few, rtol=0, atol=1e-13)
    np.testing.assert_allclose(SparseRows(few).along(weights), weights @ few, rtol=0, atol=1e-13)
    assert weigh(left[0], right[:, 0]) == pytest.approx(left[0] @ right[:, 0], rel=0, abs=1e-13)


@pytest.mark.parametrize("shape", [(3, 70_000, 5), (70_000, 3, 5), (5, 3, 70_000), (700, 300, 500)])
def test_large_matrices_are_taken_in_parts(shape):
    m, k, n = shape
    left, right = drawn(1, m, k), drawn(2, k, n)
    np.testing.assert_allclose(multiply(left, right), left @ right, rtol=0, atol=1e-10)
    np.testing.assert_allclose(weigh_rows(right[:, 0], left.T), left @ right[:, 0], rtol=0, atol=1e-10)


@given(sizes, st.integers(0, 99))
def test_a_system_is_solved(n, seed):
    root = drawn(seed, 20, n)
    matrix, target = root.T @ root, drawn(seed + 1, n)
    np.testing.assert_allclose(solve_symmetric(matrix, target), np.linalg.solve(matrix, target), rtol=1e-9, atol=1e-12)


@given(sizes, sizes, st.integers(0, 99))
def test_singular_values_and_directions_give_the_matrix_back(m, n, seed):
    matrix = drawn(seed, m, n)
    values, directions = singular_values(matrix)
    np.testing.assert_allclose(np.sort(values)[::-1][: min(m, n)], np.linalg.svd(matrix)[1], atol=1e-12)
    np.testing.assert_allclose(directions @ directions.T, np.eye(n), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(matrix @ directions.T, axis=0), values, atol=1e-12)


def test_equal_columns_have_one_singular_value_of_zero():
    column = drawn(0, 6, 1)
    values, directions = singular_values(np.hstack([column, column]))
    assert values.min() < 1e-15
    np.testing.assert_allclose(np.abs(directions), np.full((2, 2), 0.5**0.5), atol=1e-12)


@given(sizes, sizes, st.integers(0, 99))
def test_orthonormal_columns_span_the_same_as_numpys(a, b, seed):
    matrix = drawn(seed, max(a, b), min(a, b))
    made, numpys = orthonormal_columns(matrix), np.linalg.qr(matrix)[0]
    np.testing.assert_allclose(made.T @ made, np.eye(min(a, b)), atol=1e-13)
    np.testing.assert_allclose(made @ (made.T @ matrix), matrix, atol=1e-12)
    np.testing.assert_allclose(np.abs(made), np.abs(numpys), atol=1e-9)


@pytest.mark.parametrize("matrix", [np.zeros((4, 2)), np.ones((4, 3)), np.eye(4)[:, [1, 1]]])
def test_columns_that_depend_on_others_are_replaced(matrix):
    made = orthonormal_columns(matrix)
    np.testing.assert_allclose(made.T @ made, np.eye(matrix.shape[1]), atol=1e-14)
    np.testing.assert_allclose(made @ (made.T @ matrix), matrix, atol=1e-14)
