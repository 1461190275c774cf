"""Times as trace viewers have them: whole nanoseconds, written in microseconds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["microseconds", "nanoseconds"]


def nanoseconds(seconds: ArrayLike) -> NDArray[np.int64]:
    """Return times in seconds, rounded."""
    return np.rint(np.asarray(seconds, np.float64) * 1e9).astype(np.int64)


def microseconds(times: NDArray[np.int64]) -> list[Any]:
    """Return times in nanoseconds as numbers of which a viewer makes the same nanoseconds.

    Perfetto multiplies by 1000 and cuts off what is behind the point, so that the nearest number
    would now and then be a nanosecond less: spans that meet would overlap, and be dropped.
    """
    near = times / 1000
    less = (near * 1000).astype(np.int64) < times
    found: list[Any] = np.where(less, np.nextafter(near, np.inf), near).tolist()
    return found
