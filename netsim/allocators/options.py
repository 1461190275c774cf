"""What options and orders of several allocators share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import UnknownNameError
from netsim.fabric.records import DUST

__all__ = ["check_choice", "rank"]


def check_choice(option: str, value: object, choices: Sequence[str]) -> None:
    """Refuse a value that is not one of the choices.

    Raises
    ------
    UnknownNameError
        With the choices.
    """
    if value not in choices:
        raise UnknownNameError(option, value, choices)


def rank(keys: ArrayLike) -> NDArray[np.int64]:
    """Return the order of keys, least first; keys within 1e-9 relative are equal.

    Equal keys keep their places, which in a view are those of arrival, then id. Without this,
    rounding would decide schedules.
    """
    values = np.asarray(keys, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    apart = np.concatenate(([False], ranked[1:] > ranked[:-1] * (1 + DUST)))
    return order[np.lexsort((order, np.cumsum(apart)))]
