"""Evaluate predictors: mean error, histogram of errors (A-SRPT, Fig. 4), and running time."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.arrays import Floats
from netsim.base.brief import brief
from netsim.errors import InputError
from netsim.predictors.predictor import Report
from netsim.predictors.registry import make_predictor
from netsim.workload import History, Workload, history_of, split_history

if TYPE_CHECKING:
    import pandas as pd

#: The relative error up to which a job counts as predicted well.
WITHIN = 0.05

#: Bounds of the histogram of relative errors (predicted - true) / true, from -1 (0 predicted).
BINS = (-1.0, -0.75, -0.5, -0.25, -WITHIN, WITHIN, 0.25, 0.5, 1.0, 2.0, 5.0, np.inf)

#: Tolerance for rounding errors, so that 95 predicted for 100 has an error of 0.05.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The predictions of one predictor for jobs that it was not trained on.

    Attributes
    ----------
    predictor : str
        Name and options of the predictor.
    trained_on : int
        Number of jobs in the training data.
    fit_s, predict_s : float
        Wall-clock seconds of the fit, and of predicting all jobs at once.
    iterations, predicted : ndarray of float, shape (jobs,)
        True and predicted iterations.
    unseen : float
        Share of the jobs whose groups are not in the training data, for which 0 is predicted.
    """

    predictor: str
    trained_on: int
    fit_s: float
    predict_s: float
    iterations: Floats
    predicted: Floats
    unseen: float

    __repr__ = brief

    @property
    def mae(self) -> float:
        """The mean absolute error, in iterations."""
        return float(np.abs(self.predicted - self.iterations).mean())

    @property
    def within_5_percent(self) -> float:
        """The share of jobs whose prediction is within 5 % of the truth, from 0 to 1."""
        return float((np.abs(self.relative_errors) <= WITHIN + _ROUNDING).mean())

    @property
    def relative_errors(self) -> Floats:
        """The relative error of each job, (predicted - true) / true; -1 if 0 is predicted."""
        return (self.predicted - self.iterations) / self.iterations

    def histogram(self) -> pd.DataFrame:
        """Return a histogram of relative errors, as in Fig. 4 of A-SRPT.

        Errors are negative if too few iterations are predicted. The middle bin has the jobs within
        5 %, with both bounds included, so that its share is `within_5_percent`; the other bins
        include the bound that is further from the middle. Jobs of unseen groups have the error -1,
        and thus are in the first bin.

        Returns
        -------
        DataFrame
            A row per bin, with ``from`` and ``to`` (relative errors), ``jobs`` and ``share``.
        """
        import pandas as pd

        # Bins below the middle are [low, high), those above (low, high], up to rounding errors.
        bounds = np.array(BINS[1:-1])
        middle = bounds.tolist().index(WITHIN)
        below = np.searchsorted(bounds[:middle] - _ROUNDING, self.relative_errors, side="right")
        above = np.searchsorted(bounds[middle:] + _ROUNDING, self.relative_errors, side="left")
        jobs = np.bincount(below + above, minlength=len(BINS) - 1)
        return pd.DataFrame({"from": BINS[:-1], "to": BINS[1:], "jobs": jobs,
                             "share": jobs / len(self.iterations)})


def evaluate(predictor: Any, data: Workload | tuple[Any, Any], train: float = 0.8,
             report: Report | None = None) -> Evaluation:
    """Train a predictor on earlier jobs, and compare its predictions of later jobs to the truth.

    Parameters
    ----------
    predictor : str, mapping, Predictor or class
        A name of `PREDICTORS`, or ``"module:Class"``, optionally with options as in
        ``"mean:scope=user"``; ``{"name": ..., option: ...}``; a class; or an instance, such as a
        regressor of scikit-learn, which is copied.
    data : Workload, or pair of Workload or History
        A workload of jobs to predict, with the history to train on; a workload without a history
        is split by `split_history`. Or a pair: the jobs to train on, and the jobs to predict.
    train : float
        Share of the jobs to train on, for a workload without a history.
    report : callable, optional
        Called with the progress of the fit as ``report(done, total)``, if the predictor supports
        it.

    Returns
    -------
    Evaluation

    Raises
    ------
    UnknownNameError
        If the name of the predictor or an option does not exist.
    MissingExtraError
        If the predictor needs scikit-learn, which is not installed.
    InputError
        If the object is not a predictor, an option or `data` is invalid, no job has a group, or a
        job to predict has no iterations.

    Examples
    --------
    >>> evaluate("mean", (History([1, 1], [5, 5], [10, 30]), History([1, 2], [5, 5], [25, 5]))).mae
    5.0
    """
    earlier, later = _split(data, train)
    guarded = make_predictor(predictor)
    began = time.perf_counter()
    guarded.fit(np.column_stack((earlier.group, earlier.user)), earlier.iterations, report)
    fitted = time.perf_counter()
    predicted = guarded.predict(np.column_stack((later.group, later.user)), later.iterations)
    ended = time.perf_counter()
    known = np.isin(later.group, earlier.group[earlier.group >= 0])
    return Evaluation(guarded.name, len(earlier), fitted - began, ended - fitted,
                      later.iterations, predicted, float(1 - known.mean()))


def _split(data: Any, train: float) -> tuple[History, History]:
    """Split the data into the jobs to train on, and the jobs to predict."""
    if isinstance(data, Workload):
        split = data if data.history is not None else split_history(data, train)
        data = (split.history, split)
    if not (isinstance(data, tuple | list) and len(data) == 2
            and all(isinstance(part, Workload | History) for part in data)):
        raise InputError("predictors are evaluated on a workload, or on two, one to train on and "
                         f"one to predict, not {data!r}")
    earlier, later = (part if isinstance(part, History) else history_of(part.jobs)
                      for part in data)
    if not len(later) or later.iterations.min() <= 0:
        raise InputError("each job to predict must have run for more than 0 iterations")
    if max(earlier.group.max(initial=-1), later.group.max()) < 0:
        raise InputError("no job has a group, by which iterations are predicted")
    return earlier, later


def evaluation_table(evaluations: Iterable[Evaluation]) -> pd.DataFrame:
    """Make a table of evaluations, with a row per predictor.

    Returns
    -------
    DataFrame
        With ``predictor``, ``trained_on`` and ``jobs`` (counts), ``unseen`` and
        ``within_5_percent`` (shares), ``mae`` (iterations), ``fit_s`` and ``predict_s``.
    """
    import pandas as pd

    return pd.DataFrame([
        {"predictor": each.predictor, "trained_on": each.trained_on, "jobs": len(each.iterations),
         "unseen": each.unseen, "mae": each.mae, "within_5_percent": each.within_5_percent,
         "fit_s": each.fit_s, "predict_s": each.predict_s} for each in evaluations])
