"""Simple predictors: the mean and the median of earlier jobs, and the true iterations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import UnknownNameError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Earlier jobs that are used: those of the same group, those of the same user, or all.
SCOPES = ("group", "user", "global")


@dataclass
class _PerScope:
    """Base of predictors that compute one statistic per group or user, or one for all jobs."""

    scope: str = "group"
    _keys: Ints = field(init=False, repr=False, default_factory=lambda: np.zeros(0, np.int64))
    _values: Floats = field(init=False, repr=False, default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if self.scope not in SCOPES:
            raise UnknownNameError("scope of a predictor", self.scope, SCOPES)

    def fit(self, X: Ints, y: Floats) -> _PerScope:
        """Compute the statistic of each group or user, or of all jobs."""
        self._keys, place = np.unique(self._key(X), return_inverse=True)
        self._values = self._statistic(place.reshape(-1), np.asarray(y, np.float64))
        return self

    def predict(self, X: Ints) -> Floats:
        """Look up the statistic of each job's group or user; 0 if it had no jobs."""
        key = self._key(X)
        place = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        return np.where(self._keys[place] == key, self._values[place], 0.0)

    def _key(self, X: Ints) -> Ints:
        if self.scope == "global":
            return np.zeros(len(X), np.int64)
        return np.asarray(X)[:, SCOPES.index(self.scope)]

    def _statistic(self, place: Ints, y: Floats) -> Floats:
        raise NotImplementedError


@dataclass
class Mean(_PerScope):
    """Predicts the mean iterations of earlier jobs.

    Parameters
    ----------
    scope : {"group", "user", "global"}
        Earlier jobs to use: those of the same group, of the same user, or all. For an unseen user,
        the prediction is 0.

    Raises
    ------
    UnknownNameError
        If there is no such scope.
    """

    def _statistic(self, place: Ints, y: Floats) -> Floats:
        return np.bincount(place, y) / np.bincount(place)


@dataclass
class Median(_PerScope):
    """Predicts the median iterations of earlier jobs; the mean of the middle two if even.

    Parameters
    ----------
    scope : {"group", "user", "global"}
        Earlier jobs to use: those of the same group, of the same user, or all. For an unseen user,
        the prediction is 0.

    Raises
    ------
    UnknownNameError
        If there is no such scope.
    """

    def _statistic(self, place: Ints, y: Floats) -> Floats:
        ranked = y[np.lexsort((y, place))]
        count = np.bincount(place)
        first = np.cumsum(count) - count
        return (ranked[first + (count - 1) // 2] + ranked[first + count // 2]) / 2


class Perfect:
    """Predicts the true iterations, as an upper limit of what prediction can gain."""

    clairvoyant = True

    def fit(self, X: NDArray[Any], y: Floats) -> Perfect:
        """Do nothing, as there is nothing to learn."""
        return self

    def predict(self, X: NDArray[Any]) -> Floats:
        """The third column, which has the true iterations."""
        return np.asarray(X[:, 2], np.float64)
