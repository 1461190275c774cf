"""Variance, split by the factors of a full factorial experiment."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from netsim.analysis.intervals import explained_variance
from netsim.errors import InputError

CUBES = arrays(float, st.tuples(*[st.integers(1, 4)] * 3),
               elements=st.integers(-1000, 1000).map(lambda whole: whole / 10))


def test_effects_that_add_up_do_not_interact():
    """Of a_i + b_j + c_k each factor has its own variance: 1, 4 and 6, of 11 in all."""
    a, b, c = np.array([-1, 1]), np.array([2, -2]), np.array([-3, 0, 0, 3]) / np.sqrt(0.75)
    shares = explained_variance(a[:, None, None] + b[:, None] + c, ["a", "b", "c"])
    assert list(shares) == [("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c"),
                            ("a", "b", "c")]
    assert list(shares.values()) == pytest.approx([1 / 11, 4 / 11, 6 / 11, 0, 0, 0, 0])


def test_factors_that_multiply_interact_but_for_their_logarithms():
    """1, 2, 3 and 6: effects of 1/2 + 3/2 and so on; the logarithms add up."""
    product = np.outer([1, 2], [1, 3])
    shares = explained_variance(product, ["a", "b"])
    # Means of rows 2 and 4, of columns 1.5 and 4.5, of all 3: squares 1, 2.25, and 0.25 left.
    assert list(shares.values()) == pytest.approx(np.array([1, 2.25, 0.25]) / 3.5)
    logs = explained_variance(np.log(product), ["a", "b"])
    assert logs["a", "b"] == pytest.approx(0)


def test_of_parity_all_is_of_all_three():
    """(-1)^(i+j+k) has no mean along any axis."""
    signs = np.array([1, -1])
    shares = explained_variance(signs[:, None, None] * signs[:, None] * signs, ["a", "b", "c"])
    assert shares["a", "b", "c"] == 1
    assert sum(shares.values()) == 1


@given(CUBES)
def test_shares_add_up_whatever_the_order_and_the_unit(cube):
    shares = explained_variance(cube, "abc")
    assert all(share >= 0 for share in shares.values())
    assert sum(shares.values()) == pytest.approx(1 if np.ptp(cube) else 0)
    moved = explained_variance(7 - 3 * np.flip(cube).transpose(2, 0, 1), "cab")
    for factors, share in shares.items():
        other = next(moved[key] for key in moved if set(key) == set(factors))
        assert other == pytest.approx(share, abs=1e-9)


@given(CUBES)
def test_they_are_of_the_whole_variance(cube):
    """That of the means along an axis is what its factor explains."""
    shares = explained_variance(cube, "abc")
    total = cube.var()
    for axis, name in enumerate("abc"):
        rest = tuple(other for other in range(3) if other != axis)
        assert shares[name,] * total == pytest.approx(cube.mean(axis=rest).var(), abs=1e-6)


def test_what_is_not_known_is_not_explained():
    assert np.isnan(list(explained_variance([[1, 2], [np.nan, 3]], "ab").values())).all()
    for wrong in ([1, 2], [[]]):
        with pytest.raises(InputError, match="an axis for each of the factors a, b"):
            explained_variance(wrong, "ab")
