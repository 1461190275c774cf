"""Predictions during a run, by a predictor that may be retrained periodically."""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from netsim.base.arrays import Floats, Ints
from netsim.base.units import Quantity, parse_seconds
from netsim.errors import InputError
from netsim.predictors.predictor import Report
from netsim.predictors.registry import make_predictor
from netsim.workload import History, JobSpec, history_of
from netsim.workload.history import UNKNOWN, group_number

#: Predictions for the jobs of recent runs, by what they depend on; see `Forecast.predict_jobs`.
_REMEMBERED: dict[bytes, Floats] = {}
_MOST_REMEMBERED = 8


class Forecast:
    """Predicts the iterations of jobs when they are submitted.

    With `retrain`, the predictor is trained at the multiples of a period of simulated time, on the
    history and on all jobs that have completed before or at that instant. It is trained only if a
    prediction is needed and jobs have completed since the last fit. Predictions are assumed to
    depend on group and user only.

    Parameters
    ----------
    predictor : str, mapping, Predictor or class
        As for `netsim.predictors.evaluate`.
    history : History, optional
        Jobs that ended before the run.
    retrain : str or number, optional
        The period, such as ``"1h"`` or ``"1d"``. By default, the predictor is trained once, on the
        history.
    report : callable, optional
        Called with the progress of each fit as ``report(done, total)``, if the predictor supports
        it.

    Attributes
    ----------
    given : object
        The predictor as it was given.
    fits : int
        Number of fits so far.

    Raises
    ------
    UnknownNameError, InputError, MissingExtraError
        As `netsim.predictors.evaluate` does for `predictor`, or if the period is not a positive
        time.

    Examples
    --------
    >>> forecast = Forecast("mean", History([1, 1], [5, 5], [10, 30]), retrain="1h")
    >>> forecast.observe(1800, 1, 5, 80)
    >>> forecast.predict(3599, 1, 5), forecast.predict(3600, 1, 5)
    (20.0, 40.0)
    """

    def __init__(self, predictor: Any, history: History | None = None,
                 retrain: Quantity | None = None, report: Report | None = None) -> None:
        self.given = predictor
        self.predictor = make_predictor(predictor)
        self.fits = 0
        self._period = math.inf if retrain is None else parse_seconds(retrain, "retrain",
                                                                      strict=True)
        self._report = report
        past = history if history is not None else history_of(())
        # The training data.
        self._X, self._y = np.column_stack((past.group, past.user)), past.iterations
        self._times: list[float] = []
        self._completed: list[tuple[int, int, float]] = []
        self._began = -math.inf  # beginning of the period of the last training
        self._used = 0
        # The distinct pairs of group and user in the first `_paired` rows of the training data.
        self._pairs, self._paired = self._X[:0], 0
        self._table: dict[tuple[int, int], float] | None = None

    def observe(self, time: float, group: int | str | None, user: int | None, iterations: float
                ) -> None:
        """Record a job that has completed.

        Parameters
        ----------
        time : float
            When the job completed, in seconds; not before the last job recorded.
        group : int, str or None
        user : int or None
            None if unknown.
        iterations : float
            The iterations that the job has run.

        Raises
        ------
        InputError
            If the job completed before the last job recorded.
        """
        if not math.isfinite(self._period):
            return
        if self._times and time < self._times[-1]:
            raise InputError(f"a job that completed at {time!r} s is recorded after one that "
                             f"completed at {self._times[-1]!r} s", "time")
        self._times.append(time)
        self._completed.append((*_ids(group, user), iterations))

    def valid_until(self, time: float) -> float:
        """Return the instant, in seconds, until which predictions made at `time` are valid.

        Jobs submitted between `time` and this instant can be predicted in one call. The instant is
        infinite without `retrain`.
        """
        if not math.isfinite(self._period):
            return math.inf
        return (self._period_index(time) + 1) * self._period

    def predict(self, time: float, group: int | str | None, user: int | None,
                iterations: float | None = None) -> float:
        """Predict the iterations of one job.

        After each fit, all known pairs of group and user are predicted at once, so that this
        method is fast for many jobs as well.

        Parameters
        ----------
        time : float
            When the job is submitted, in seconds. Jobs that have completed by this time must have
            been recorded by `observe`.
        group : int, str or None
        user : int or None
            None if unknown.
        iterations : float, optional
            The true iterations, which only clairvoyant predictors use.

        Raises
        ------
        InputError
            As `predict_all` does.
        """
        self._train(time)
        pair = _ids(group, user)
        if self.predictor.clairvoyant:
            truth = None if iterations is None else [iterations]
            return float(self.predictor.predict([pair], truth)[0])
        table = self._predictions()
        if pair not in table:
            table[pair] = float(self.predictor.predict([pair])[0])
        return table[pair]

    def predict_all(self, time: ArrayLike, group: ArrayLike, user: ArrayLike,
                    iterations: ArrayLike | None = None) -> Floats:
        """Predict the iterations of jobs that are submitted within one period.

        Parameters
        ----------
        time : float or array-like of float, shape (jobs,)
            When the jobs are submitted, in seconds.
        group, user : array-like of int, shape (jobs,)
            Negative if unknown.
        iterations : array-like of float, shape (jobs,), optional
            The true iterations, which only clairvoyant predictors use.

        Returns
        -------
        ndarray of float, shape (jobs,)

        Raises
        ------
        InputError
            If the times are in more than one period, or in a period before that of an earlier
            call; or as `Guarded.predict` does.
        """
        times = np.atleast_1d(np.asarray(time, np.float64))
        if not times.size:
            return np.zeros(0)
        first, last = float(times.min()), float(times.max())
        if last >= self.valid_until(first):
            raise InputError(f"jobs submitted from {first:g} s to {last:g} s cannot be predicted "
                             f"at once: the predictor is retrained at "
                             f"{self.valid_until(first):g} s")
        self._train(first)
        rows = np.column_stack((np.asarray(group, np.int64), np.asarray(user, np.int64)))
        return self.predictor.predict(rows, iterations)

    def predict_jobs(self, jobs: Collection[JobSpec]) -> Floats:
        """Predict the iterations of jobs at their arrival; see `predict_all`.

        What a predictor of netsim learns from a history is remembered for the next run of the same
        jobs, such as that of another scheduler, which would learn the same.
        """
        known = history_of(jobs)
        lasts = (type(self.predictor.predictor).__module__.startswith("netsim.")
                 and not self.predictor.clairvoyant and not math.isfinite(self._period))
        key = self._digest(known) if lasts and self._report is None and not self.fits else b""
        if key in _REMEMBERED:
            return _REMEMBERED[key].copy()
        found = self.predict_all([job.arrival_s for job in jobs], known.group, known.user,
                                 known.iterations)
        if key:
            _REMEMBERED[key] = found.copy()
            while len(_REMEMBERED) > _MOST_REMEMBERED:
                del _REMEMBERED[next(iter(_REMEMBERED))]
        return found

    def _digest(self, jobs: History) -> bytes:
        """Identify the predictor, what it learns from, and the jobs that it predicts."""
        digest = hashlib.blake2b(repr(self.predictor.predictor).encode())
        for array in (self._X, self._y, jobs.group, jobs.user):
            digest.update(repr(array.shape).encode())
            digest.update(array.tobytes())
        return digest.digest()

    def predict_job(self, job: JobSpec) -> float:
        """Predict the iterations of one job at its arrival; see `predict`."""
        return self.predict(job.arrival_s, job.group, job.user, job.iterations)

    def _period_index(self, time: float) -> int:
        """The largest k for which k times the period is not after `time`."""
        number = math.floor(time / self._period)
        # The rounded quotient may be on the wrong side of a whole number.
        return number + ((number + 1) * self._period <= time) - (number * self._period > time)

    def _train(self, time: float) -> None:
        """Train the predictor on the data available at the beginning of the period of `time`."""
        once = not math.isfinite(self._period)
        began = 0.0 if once else self._period_index(time) * self._period
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
        """Train on the history and the first `count` jobs that have completed."""
        new = self._completed[self._used:count]
        rows = np.array([(group, user) for group, user, _ in new], np.int64).reshape(-1, 2)
        self._X = np.concatenate((self._X, rows))
        self._y = np.concatenate((self._y, [iterations for *_, iterations in new]))
        self.predictor.fit(self._X, self._y, self._report)
        self.fits += 1
        self._table = None

    def _predictions(self) -> dict[tuple[int, int], float]:
        """The predictions by group and user, which are cached until the next fit."""
        if self._table is None:
            pairs = _pairs(np.concatenate((self._pairs, self._X[self._paired:])))
            self._pairs, self._paired = pairs, len(self._X)
            self._table = dict(zip(map(tuple, pairs.tolist()),
                                   self.predictor.predict(pairs).tolist(), strict=True))
        return self._table


def _ids(group: int | str | None, user: int | None) -> tuple[int, int]:
    return group_number(group), UNKNOWN if user is None else int(user)


def _pairs(X: Ints) -> Ints:
    """The distinct rows; much faster than `numpy.unique` with an axis."""
    ranked = X[np.lexsort((X[:, 1], X[:, 0]))]
    differs = np.any(ranked[1:] != ranked[:-1], axis=1)
    return ranked[np.concatenate((np.ones(min(len(ranked), 1), np.bool_), differs))]
