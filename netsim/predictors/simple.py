"""Predictors without a model: the mean and the median of earlier jobs, and the truth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import UnknownNameError

__all__ = ["SCOPES", "Mean", "Median", "Perfect"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Of which earlier jobs the iterations are taken: those of the same group, of the same user, all.
SCOPES = ("group", "user", "global")


@dataclass
class _OfScope:
    """One figure per group or user, or for all, in a sorted table."""

    scope: str = "group"
    _keys: Ints = field(init=False, repr=False, default_factory=lambda: np.zeros(0, np.int64))
    _values: Floats = field(init=False, repr=False, default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if self.scope not in SCOPES:
            raise UnknownNameError("scope of a predictor", self.scope, SCOPES)

    def fit(self, X: Ints, y: Floats) -> _OfScope:
        """Take the figure of each scope that has jobs."""
        self._keys, place = np.unique(self._key(X), return_inverse=True)
        self._values = self._figure(place.reshape(-1), np.asarray(y, np.float64))
        return self

    def predict(self, X: Ints) -> Floats:
        """Return the figure of each job's scope; 0 where that has had no jobs."""
        key = self._key(X)
        place = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        return np.where(self._keys[place] == key, self._values[place], 0.0)

    def _key(self, X: Ints) -> Ints:
        if self.scope == "global":
            return np.zeros(len(X), np.int64)
        return np.asarray(X)[:, SCOPES.index(self.scope)]

    def _figure(self, place: Ints, y: Floats) -> Floats:
        raise NotImplementedError


@dataclass
class Mean(_OfScope):
    """The mean of the iterations of earlier jobs.

    Parameters
    ----------
    scope : {"group", "user", "global"}
        Of which: those of the same group, of the same user, or all. An unseen user gets 0.

    Raises
    ------
    UnknownNameError
        If there is no such scope.
    """

    def _figure(self, place: Ints, y: Floats) -> Floats:
        return np.bincount(place, y) / np.bincount(place)


@dataclass
class Median(_OfScope):
    """The median of the iterations of earlier jobs; of an even number, between the middle two.

    Parameters
    ----------
    scope : {"group", "user", "global"}
        Of which: those of the same group, of the same user, or all. An unseen user gets 0.

    Raises
    ------
    UnknownNameError
        If there is no such scope.
    """

    def _figure(self, place: Ints, y: Floats) -> Floats:
        ranked = y[np.lexsort((y, place))]
        count = np.bincount(place)
        first = np.cumsum(count) - count
        return (ranked[first + (count - 1) // 2] + ranked[first + count // 2]) / 2


class Perfect:
    """The true iterations, which no scheduler can know: what prediction could gain at most."""

    clairvoyant = True

    def fit(self, X: NDArray[Any], y: Floats) -> Perfect:
        """Learn nothing: there is nothing to predict."""
        return self

    def predict(self, X: NDArray[Any]) -> Floats:
        """Return the third column, which is the truth."""
        return np.asarray(X[:, 2], np.float64)
