"""What a predictor is, and the rules that hold for each of them, a user's own as well."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError

__all__ = ["Guarded", "Predictor", "Report"]

#: Told how much of a fit is done, and of how much: ``report(trees, of_trees)``.
Report = Callable[[int, int], None]


@runtime_checkable
class Predictor(Protocol):
    """What learns from past jobs and predicts others: any regressor of scikit-learn is one.

    Attributes
    ----------
    clairvoyant : bool, optional
        True for one that may see the truth: its rows then have a third column, the iterations.
    """

    def fit(self, X: NDArray[Any], y: NDArray[np.float64]) -> Any:
        """Forget what was learned before, and learn.

        Parameters
        ----------
        X : ndarray of int, shape (jobs, 2)
            Group and user of each job, at least one job.
        y : ndarray of float, shape (jobs,)
            Its iterations.
        """

    def predict(self, X: NDArray[Any]) -> ArrayLike:
        """Return the expected iterations of each row.

        Parameters
        ----------
        X : ndarray of int, shape (jobs, 2)
            Group and user of each job, at least one job, all of groups that were learned from.
        """


class Guarded:
    """A predictor under the rules of all: unseen groups get 0, nothing is below 0 or rounded.

    It asks the predictor only for jobs of groups that it has learned from; where it has learned
    from none, not at all. One that is clairvoyant is asked for every job.

    Parameters
    ----------
    predictor : Predictor
    name : str
        What to call it, in tables and messages.
    """

    def __init__(self, predictor: Predictor, name: str) -> None:
        self.predictor, self.name = predictor, name
        self.clairvoyant = bool(getattr(predictor, "clairvoyant", False))
        self._reports = "report" in inspect.signature(predictor.fit).parameters
        self._groups: NDArray[np.int64] | None = None

    def fit(self, X: ArrayLike, y: ArrayLike, report: Report | None = None) -> Guarded:
        """Learn from past jobs.

        Parameters
        ----------
        X : array-like of int, shape (jobs, 2)
            Group and user; negative where a job says none.
        y : array-like of float, shape (jobs,)
            Iterations.
        report : callable, optional
            Called as ``report(done, total)`` by predictors whose ``fit`` takes it.

        Returns
        -------
        Guarded
            Itself.

        Raises
        ------
        InputError
            If the shapes are others, or values are no numbers.
        """
        rows = self._rows(X)
        target = np.asarray(y, np.float64)
        if target.shape != (len(rows),) or not np.isfinite(target).all():
            raise InputError(f"predictor {self.name!r} needs one finite number of iterations per "
                             f"job, not {reprlib.repr(y)} for {len(rows):,} jobs")
        if len(rows):
            options = {"report": report} if self._reports else {}
            self.predictor.fit(self._seen(rows, target), target, **options)
        self._groups = np.unique(rows[:, 0])
        return self

    def predict(self, X: ArrayLike, iterations: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return how many iterations jobs are expected to run for.

        Parameters
        ----------
        X : array-like of int, shape (jobs, 2)
            Group and user.
        iterations : array-like of float, shape (jobs,), optional
            The truth, which none but the clairvoyant see.

        Returns
        -------
        ndarray of float, shape (jobs,)
            Not negative, not rounded; 0 for a group that was not learned from.

        Raises
        ------
        InputError
            If the shapes are others, nothing was learned, the truth is missing for one that
            goes by it, or what is predicted is not one finite number per job.
        """
        if self._groups is None:
            raise InputError(f"predictor {self.name!r} has learned nothing yet; call fit first")
        rows = self._rows(X)
        if self.clairvoyant:
            if iterations is None:
                raise InputError(f"predictor {self.name!r} goes by the true iterations of jobs; "
                                 f"give them too")
            truth = np.asarray(iterations, np.float64)
            if truth.shape != (len(rows),):
                raise InputError(f"predictor {self.name!r} needs the true iterations of each of "
                                 f"{len(rows):,} jobs, not {reprlib.repr(iterations)}")
            return self._ask(self._seen(rows, truth)) if len(rows) else np.zeros(0)
        known = self._known(rows[:, 0], self._groups)
        found = np.zeros(len(rows))
        if known.any():
            found[known] = self._ask(rows[known])
        return found

    @staticmethod
    def _known(groups: NDArray[np.int64], learned: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which groups were learned from, those sorted: quick for one group, too."""
        if not len(learned):
            return np.zeros(len(groups), np.bool_)
        place = np.minimum(np.searchsorted(learned, groups), len(learned) - 1)
        return (learned[place] == groups) & (groups >= 0)

    def _rows(self, X: ArrayLike) -> NDArray[np.int64]:
        given = np.asarray(X)
        if given.size == 0:
            given = np.zeros((0, 2), np.int64)
        if given.ndim != 2 or given.shape[1] != 2 or given.dtype.kind not in "iu":
            raise InputError(f"predictor {self.name!r} needs a row of two whole numbers, group "
                             f"and user, per job, not {reprlib.repr(X)}")
        return given.astype(np.int64, copy=False)

    def _seen(self, rows: NDArray[np.int64], truth: NDArray[np.float64]) -> NDArray[Any]:
        return np.column_stack((rows, truth)) if self.clairvoyant else rows

    def _ask(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        said = self.predictor.predict(rows)
        try:
            found = np.asarray(said, np.float64)
        except (TypeError, ValueError):
            found = np.full(0, np.nan)
        if found.shape != (len(rows),) or not np.isfinite(found).all():
            raise InputError(f"predictor {self.name!r} must predict one finite number per job, "
                             f"not {reprlib.repr(said)} for {len(rows):,} jobs")
        return np.maximum(found, 0.0)
