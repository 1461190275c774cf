"""Predictions during a run, from a predictor that is perhaps trained anew every so often."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.predictors.base import Report
from netsim.predictors.registry import make_predictor
from netsim.units import Quantity, parse_seconds
from netsim.workload import UNKNOWN, History, JobSpec, history_of

__all__ = ["Forecast"]


class Forecast:
    """What is predicted for each job when it is submitted.

    With `retrain`, the predictor is trained at the multiples of that period of simulated time, on
    the history and all jobs that have completed until then, that instant included. It is trained
    only when a prediction is asked for, so that a period without submissions costs nothing; and
    not if nothing has completed since. A predictor counts as a function of group and user.

    Parameters
    ----------
    predictor : str, mapping, Predictor or class
        As `make_predictor` takes it.
    history : History, optional
        Jobs that ended before the run.
    retrain : str or number, optional
        The period, such as ``"1h"`` or ``"1d"``; None trains on the history alone, once.
    report : callable, optional
        Told the progress of each fit as ``report(done, total)``, where the predictor tells.

    Attributes
    ----------
    fits : int
        How often it was trained.

    Raises
    ------
    UnknownNameError, InputError, MissingExtraError
        As `make_predictor`, or if the period is no positive time.

    Examples
    --------
    >>> forecast = Forecast("mean", History([1, 1], [5, 5], [10, 30]), retrain="1h")
    >>> forecast.observe(1800, 1, 5, 80)
    >>> forecast.predict(3599, 1, 5), forecast.predict(3600, 1, 5)
    (20.0, 40.0)
    """

    def __init__(self, predictor: Any, history: History | None = None,
                 retrain: Quantity | None = None, report: Report | None = None) -> None:
        self.predictor = make_predictor(predictor)
        self.fits = 0
        self._period = math.inf if retrain is None else parse_seconds(retrain, "retrain",
                                                                      strict=True)
        self._report = report
        past = history if history is not None else history_of(())
        self._X, self._y = np.column_stack((past.group, past.user)), past.iterations  # learned from
        self._times: list[float] = []
        self._completed: list[tuple[int, int, float]] = []
        self._began = -math.inf  # of the period that the predictor was last trained for
        self._used = 0
        self._pairs, self._paired = self._X[:0], 0  # groups with users, of so many of those jobs
        self._table: dict[tuple[int, int], float] | None = None

    def observe(self, time: float, group: int | None, user: int | None, iterations: float) -> None:
        """Take note of a job that has completed.

        Parameters
        ----------
        time : float
            When, in seconds; not before what was noted last.
        group, user : int or None
        iterations : float
            How many it has run.

        Raises
        ------
        InputError
            If time runs backwards.
        """
        if not math.isfinite(self._period):
            return
        if self._times and time < self._times[-1]:
            raise InputError(f"a job that completed at {time!r} s is noted after one that "
                             f"completed at {self._times[-1]!r} s")
        self._times.append(time)
        self._completed.append((*_ids(group, user), iterations))

    def valid_until(self, time: float) -> float:
        """Return the instant, in seconds, at which predictions made at `time` may change.

        Jobs submitted before it may be predicted in one call; it is infinite where nothing is
        trained anew.
        """
        if not math.isfinite(self._period):
            return math.inf
        return (self._number(time) + 1) * self._period

    def predict(self, time: float, group: int | None, user: int | None,
                iterations: float | None = None) -> float:
        """Return the iterations expected of one job.

        After each fit all groups and users that are known are predicted at once, so that this is
        quick for many jobs too.

        Parameters
        ----------
        time : float
            When it is submitted, in seconds; all jobs that complete by then were observed.
        group, user : int or None
        iterations : float, optional
            The truth, which none but the clairvoyant see.

        Raises
        ------
        InputError
            As `predict_all`.
        """
        self._train(time)
        pair = _ids(group, user)
        if self.predictor.clairvoyant:
            truth = None if iterations is None else [iterations]
            return float(self.predictor.predict([pair], truth)[0])
        table = self._tabled()
        if pair not in table:
            table[pair] = float(self.predictor.predict([pair])[0])
        return table[pair]

    def predict_all(self, time: ArrayLike, group: ArrayLike, user: ArrayLike,
                    iterations: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return the iterations expected of jobs that are submitted within one period.

        Parameters
        ----------
        time : float or array-like of float, shape (jobs,)
            When they are submitted, in seconds.
        group, user : array-like of int, shape (jobs,)
            Negative for a job that says none.
        iterations : array-like of float, shape (jobs,), optional
            The truth, which none but the clairvoyant see.

        Returns
        -------
        ndarray of float, shape (jobs,)

        Raises
        ------
        InputError
            If the times are of more than one period, or of one that lies before the last that
            was predicted for; or as `Guarded.predict`.
        """
        times = np.atleast_1d(np.asarray(time, np.float64))
        if not times.size:
            return np.zeros(0)
        first, last = float(times.min()), float(times.max())
        if last >= self.valid_until(first):
            raise InputError(f"jobs submitted from {first:g} s to {last:g} s cannot be predicted "
                             f"at once: the predictor is trained anew at "
                             f"{self.valid_until(first):g} s")
        self._train(first)
        rows = np.column_stack((np.asarray(group, np.int64), np.asarray(user, np.int64)))
        return self.predictor.predict(rows, iterations)

    def predict_jobs(self, jobs: Collection[JobSpec]) -> NDArray[np.float64]:
        """Return the iterations expected of jobs, each at its arrival; as `predict_all`."""
        known = history_of(jobs)
        return self.predict_all([job.arrival_s for job in jobs], known.group, known.user,
                                known.iterations)

    def _number(self, time: float) -> int:
        """Return the last multiple of the period that is not after `time`, as a number."""
        number = math.floor(time / self._period)
        # The quotient is rounded, and may be on the wrong side of a whole number.
        return number + ((number + 1) * self._period <= time) - (number * self._period > time)

    def _train(self, time: float) -> None:
        """Have the predictor know what it may at this time."""
        once = not math.isfinite(self._period)
        began = 0.0 if once else self._number(time) * self._period
        if began <= self._began:
            if began < self._began:
                raise InputError(f"a job submitted at {time:g} s is predicted after the predictor "
                                 f"was trained on what was known at {self._began:g} s")
            return
        count = 0 if once else bisect_right(self._times, began)
        if not self.fits or count > self._used:
            self._fit(count)
        self._began, self._used = began, count

    def _fit(self, count: int) -> None:
        """Train on the history and so many of the jobs that have completed."""
        new = self._completed[self._used:count]
        rows = np.array([(group, user) for group, user, _ in new], np.int64).reshape(-1, 2)
        self._X = np.concatenate((self._X, rows))
        self._y = np.concatenate((self._y, [iterations for *_, iterations in new]))
        self.predictor.fit(self._X, self._y, self._report)
        self.fits += 1
        self._table = None

    def _tabled(self) -> dict[tuple[int, int], float]:
        if self._table is None:
            pairs = _pairs(np.concatenate((self._pairs, self._X[self._paired:])))
            self._pairs, self._paired = pairs, len(self._X)
            self._table = dict(zip(map(tuple, pairs.tolist()),
                                   self.predictor.predict(pairs).tolist(), strict=True))
        return self._table


def _ids(group: int | None, user: int | None) -> tuple[int, int]:
    return (UNKNOWN if group is None else int(group), UNKNOWN if user is None else int(user))


def _pairs(X: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows that differ; much faster than `numpy.unique` with an axis."""
    ranked = X[np.lexsort((X[:, 1], X[:, 0]))]
    differs = np.any(ranked[1:] != ranked[:-1], axis=1)
    return ranked[np.concatenate((np.ones(min(len(ranked), 1), np.bool_), differs))]
