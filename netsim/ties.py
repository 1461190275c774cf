"""Ties: which times, sizes and ratios count as equal, so that rounding decides no schedule.

Numbers that are equal on paper differ in their last digits when they have been added up in
different orders. Whatever orders jobs, coflows, chunks or places by such numbers compares them
with these functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["EQUAL", "below", "equal", "rank"]

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
    values = np.asarray(keys, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    low, high = values[order][:-1], values[order][1:]
    with np.errstate(invalid="ignore", over="ignore"):  # inf - inf; 1e308 + 1e308
        scale = np.minimum(np.abs(low), np.abs(high))
        apart = high - low > EQUAL * np.where(np.isinf(scale), 0.0, scale)
    run = np.concatenate(([0], np.cumsum(apart)))[:len(order)]
    return order[np.lexsort((order, run))]
