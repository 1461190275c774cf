"""Ties: which times, sizes and ratios count as equal, so that rounding decides no schedule.

Numbers that are equal on paper differ in their last digits when they have been added up in
different orders. Whatever orders jobs, coflows, chunks or places by such numbers compares them
with these functions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["EQUAL", "below", "equal", "merge_equal", "rank", "reached"]

#: Relative to the smaller magnitude: numbers that differ by no more are equal.
EQUAL = 1e-9


def equal(a: Any, b: Any) -> bool:
    """Return whether two numbers are equal within 1e-9 of the smaller magnitude.

    Parameters
    ----------
    a, b : float
        Or fractions, whose difference is then exact. Zero and the infinities equal themselves
        alone.

    Examples
    --------
    >>> equal(0.1 + 0.2, 0.3), equal(0.3, 0.31)
    (True, False)
    """
    return bool(a == b or abs(a - b) <= EQUAL * min(abs(a), abs(b)) < np.inf)


def below(a: Any, b: Any) -> bool:
    """Return whether one number is less than another, and not `equal` to it.

    Examples
    --------
    >>> below(0.3, 0.31), below(0.3, 0.1 + 0.2)
    (True, False)
    """
    return bool(a < b and not equal(a, b))


def rank(keys: ArrayLike) -> NDArray[np.int64]:
    """Return the order of keys, the least first; equal keys keep their places.

    Keys are sorted exactly. Within each run of sorted keys whose neighbours are `equal`, the order
    in which they were given is then restored. Give them in the order that decides ties, such as
    that of (arrival, id). The order is total whatever the keys, which sorting by `below` would
    not be: a run may be wider than 1e-9.

    Parameters
    ----------
    keys : array_like of float, shape (N,)

    Returns
    -------
    ndarray of int, shape (N,)
        Places in `keys`.

    Examples
    --------
    >>> rank([0.3, 0.1 + 0.2, 0.2]).tolist(), rank([0.1 + 0.2, 0.3, 0.2]).tolist()
    ([2, 0, 1], [2, 0, 1])
    """
    return np.argsort(merge_equal(keys), kind="stable")


def merge_equal(keys: ArrayLike) -> NDArray[np.float64]:
    """Return keys in which those of each run are the same number, the least of the run.

    See `rank` for what a run is. Where keys do not change, merge them once, and compare them
    exactly from then on.

    Parameters
    ----------
    keys : array_like of float, shape (N,)

    Returns
    -------
    ndarray of float, shape (N,)

    Examples
    --------
    >>> merge_equal([0.1 + 0.2, 0.5, 0.3]).tolist()
    [0.3, 0.5, 0.3]
    """
    values = np.asarray(keys, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    low, high = values[order][:-1], values[order][1:]
    with np.errstate(invalid="ignore", over="ignore"):  # inf - inf; 1e308 + 1e308
        scale = np.minimum(np.abs(low), np.abs(high))
        apart = high - low > EQUAL * np.where(np.isinf(scale), 0.0, scale)
    if np.all(apart | (low == high)):
        return values
    first = np.concatenate(([True], apart))[:len(order)]
    merged = np.empty_like(values)
    merged[order] = values[order][first][np.cumsum(first) - 1]
    return merged


def reached(amount: float, thresholds: Sequence[float], slack: float = 0.0) -> int:
    """Return how many thresholds an amount has reached: those that are less, or `equal` to it.

    Parameters
    ----------
    amount : float
        At least 0.
    thresholds : sequence of float
        Ascending.
    slack : float
        How much the amount may be off in addition, where it is not only rounded.

    Examples
    --------
    >>> reached(0.3, [0.1, 0.1 + 0.2, 0.31]), reached(0.3, [0.1, 0.1 + 0.2, 0.31], slack=0.02)
    (2, 3)
    """
    return bisect_right(thresholds, amount * (1 + EQUAL) + slack)
