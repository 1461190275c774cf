"""Dividing the bytes of a collective into parts, and parts into chunks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def split(nbytes: float, count: int, unit: float | None = None) -> Floats:
    """Divide bytes into parts.

    Parameters
    ----------
    nbytes : float
        A multiple of `unit`, if that is given.
    count : int
        Number of parts, at least 1.
    unit : float, optional
        The size of an element in bytes; elements are not divided. By default, all parts are equal,
        because sizes are real numbers.

    Returns
    -------
    ndarray of float, shape (count,)
        With ``nbytes / unit = q count + r``, the first r parts have ``(q + 1) unit`` bytes and the
        others ``q unit``.

    Raises
    ------
    InputError
        If `nbytes` is not a multiple of `unit`.

    Examples
    --------
    >>> split(10.0, 4), split(40.0, 4, unit=4)
    (array([2.5, 2.5, 2.5, 2.5]), array([12., 12.,  8.,  8.]))
    """
    if unit is None:
        return np.full(count, nbytes / count, np.float64)
    least, more = divmod(whole_units(nbytes, unit), count)
    return (float(unit) * (least + (np.arange(count) < more))).astype(np.float64)


def whole_units(nbytes: float, unit: float) -> int:
    """Count the elements of `unit` bytes in `nbytes`, which must be a whole number."""
    if not unit > 0:
        raise InputError(f"unit must be greater than 0 bytes, not {unit!r}")
    if nbytes % unit:
        raise InputError(f"unit must divide the size: {nbytes:.17g} bytes are no whole number of "
                         f"elements of {unit:.17g} bytes")
    return int(nbytes // unit)


@dataclass(frozen=True)
class Sizes:
    """The sizes of the pieces of a collective.

    Equal pieces are not listed: k of them have ``nbytes * k / divisor`` bytes, rounded once.

    Attributes
    ----------
    nbytes : float
        The size of the collective.
    divisor : int
        Number of equal pieces that make up `nbytes`.
    listed : ndarray of float, shape (pieces,), optional
        The size of each piece, if they are not equal.
    """

    nbytes: float
    divisor: int
    listed: Floats | None = None

    def of(self, count: Ints, first: Ints | None = None, base: Ints | int = 0, wrap: int = 1
           ) -> Floats:
        """Return the bytes of some messages.

        Parameters
        ----------
        count : ndarray of int, shape (messages,)
            Number of pieces of each message.
        first : ndarray of int, shape (messages,)
            Piece k of a message is ``base + (first + k) % wrap``. Not needed if pieces are equal.
        """
        if self.listed is None:
            equal: Floats = self.nbytes * count / self.divisor
            return equal
        assert first is not None
        if (count == 1).all():
            return self.listed[base + first % wrap]
        stops = np.cumsum(count)
        place = np.arange(stops[-1]) - np.repeat(stops - count - first, count)
        pieces = np.repeat(np.broadcast_to(base, count.shape), count) + place % wrap
        return np.add.reduceat(self.listed[pieces], stops - count)
