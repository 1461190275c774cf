"""The protocol of predictors, the wrapper that enforces common rules, and simple predictors."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.values import as_choice
from netsim.errors import InputError

#: Function called with the progress of a fit, as ``report(done, total)``, such as trees.
Report = Callable[[int, int], None]


@runtime_checkable
class Predictor(Protocol):
    """Learns from past jobs and predicts others; any regressor of scikit-learn is a predictor.

    Attributes
    ----------
    clairvoyant : bool, optional
        True if the predictor may see the true iterations, which are then a third column of `X`.
    """

    def fit(self, X: NDArray[Any], y: Floats) -> Any:
        """Learn from jobs, and discard everything learned before.

        Parameters
        ----------
        X : ndarray of int, shape (jobs, 2)
            Group and user of each job; at least one job.
        y : ndarray of float, shape (jobs,)
            Iterations of each job.
        """

    def predict(self, X: NDArray[Any]) -> ArrayLike:
        """Predict the iterations of jobs.

        Parameters
        ----------
        X : ndarray of int, shape (jobs, 2)
            Group and user of each job; at least one job, and only groups seen in `fit`.

        Returns
        -------
        array_like of float, shape (jobs,)
        """


class Guarded:
    """Wraps a predictor to enforce common rules.

    Predictions are at least 0, and not rounded. Jobs of unseen groups get 0, without asking the
    predictor, unless it is clairvoyant. Arguments and predictions are checked. `name` is that of
    the predictor in tables and messages.
    """

    def __init__(self, predictor: Predictor, name: str) -> None:
        self.predictor, self.name = predictor, name
        self.clairvoyant = bool(getattr(predictor, "clairvoyant", False))
        self._reports = "report" in inspect.signature(predictor.fit).parameters
        self._groups: Ints | None = None

    def fit(self, X: ArrayLike, y: ArrayLike, report: Report | None = None) -> Guarded:
        """Learn from the group, the user (negative if unknown) and the iterations of past jobs.

        `X` has shape (jobs, 2), with columns group and user. `report` is passed on to predictors
        whose ``fit`` has this parameter. Returns the object itself.
        """
        rows = self._rows(X)
        target = np.asarray(y, np.float64)
        if target.shape != (len(rows),) or not np.isfinite(target).all():
            raise InputError(f"predictor {self.name!r} needs one finite number of iterations per "
                             f"job, not {reprlib.repr(y)} for {len(rows):,} jobs", "y")
        if len(rows):
            options = {"report": report} if self._reports else {}
            self.predictor.fit(self._visible_columns(rows, target), target, **options)
        self._groups = np.unique(rows[:, 0])
        return self

    def predict(self, X: ArrayLike, iterations: ArrayLike | None = None) -> Floats:
        """Predict the iterations of jobs by group and user.

        `X` has shape (jobs, 2), with columns group and user. The true `iterations` must be given
        for clairvoyant predictors; others do not see them.
        """
        if self._groups is None:
            raise InputError(f"predictor {self.name!r} is not fitted yet; call fit first")
        rows = self._rows(X)
        if self.clairvoyant:
            if iterations is None:
                raise InputError(f"predictor {self.name!r} uses the true iterations of jobs; "
                                 "give them as well", "iterations")
            truth = np.asarray(iterations, np.float64)
            if truth.shape != (len(rows),):
                raise InputError(f"predictor {self.name!r} needs the true iterations of each of "
                                 f"{len(rows):,} jobs, not {reprlib.repr(iterations)}",
                                 "iterations")
            if not len(rows):
                return np.zeros(0)
            return self._predict_checked(self._visible_columns(rows, truth))
        known = self._known(rows[:, 0], self._groups)
        found = np.zeros(len(rows))
        if known.any():
            found[known] = self._predict_checked(rows[known])
        return found

    @staticmethod
    def _known(groups: Ints, learned: Ints) -> Bools:
        """The mask of groups that are in the sorted array `learned`.

        A binary search, as it is fast for a single group.
        """
        if not len(learned):
            return np.zeros(len(groups), np.bool_)
        place = np.minimum(np.searchsorted(learned, groups), len(learned) - 1)
        return (learned[place] == groups) & (groups >= 0)

    def _rows(self, X: ArrayLike) -> Ints:
        given = np.asarray(X)
        if given.size == 0:
            given = np.zeros((0, 2), np.int64)
        if given.ndim != 2 or given.shape[1] != 2 or given.dtype.kind not in "iu":
            raise InputError(f"predictor {self.name!r} needs a row of two whole numbers, group "
                             f"and user, per job, not {reprlib.repr(X)}", "X")
        return given.astype(np.int64, copy=False)

    def _visible_columns(self, rows: Ints, truth: Floats) -> NDArray[Any]:
        """The columns that the predictor may see."""
        return np.column_stack((rows, truth)) if self.clairvoyant else rows

    def _predict_checked(self, rows: NDArray[Any]) -> Floats:
        """Call the predictor, check its predictions, and raise negative ones to 0."""
        predicted = self.predictor.predict(rows)
        try:
            found = np.asarray(predicted, np.float64)
        except (TypeError, ValueError):
            found = np.full(0, np.nan)
        if found.shape != (len(rows),) or not np.isfinite(found).all():
            raise InputError(f"predictor {self.name!r} must predict one finite number per job, "
                             f"not {reprlib.repr(predicted)} for {len(rows):,} jobs")
        return np.maximum(found, 0.0)


# --- simple predictors ---------------------------------------------------------------------

#: Earlier jobs that are used: those of the same group, those of the same user, or all.
SCOPES = ("group", "user", "global")


@dataclass
class _PerScope:
    """Base of predictors that compute one statistic per group or user, or one for all jobs."""

    scope: str = "group"
    _keys: Ints = field(init=False, repr=False, default_factory=lambda: np.zeros(0, np.int64))
    _values: Floats = field(init=False, repr=False, default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        as_choice(self.scope, "scope", SCOPES)

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
