"""How well iterations are predicted: the mean error, its histogram (Fig. 4), the time it takes."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.brief import brief
from netsim.errors import InputError
from netsim.predictors.base import Report
from netsim.predictors.registry import make_predictor
from netsim.workload import History, Workload, history_of, split_history

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BINS", "WITHIN", "Evaluation", "evaluate", "evaluation_table"]

#: Jobs count as predicted well with a relative error of at most this.
WITHIN = 0.05

#: Bounds of the histogram: relative errors (predicted - true) / true, from -1 (nothing predicted).
BINS = (-1.0, -0.75, -0.5, -0.25, -WITHIN, WITHIN, 0.25, 0.5, 1.0, 2.0, 5.0, np.inf)

#: A prediction of 95 for 100 has an error of 0.05, however that rounds.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What came of one predictor on jobs that it had not seen.

    Attributes
    ----------
    predictor : str
        Its name and options.
    trained_on : int
        Jobs that it learned from.
    fit_s, predict_s : float
        Wall-clock seconds of the fit, and of predicting all jobs at once.
    iterations, predicted : ndarray of float, shape (jobs,)
        The truth, and what was said.
    unseen : float
        The share of jobs of groups that were not learned from, for which 0 is predicted.
    """

    predictor: str
    trained_on: int
    fit_s: float
    predict_s: float
    iterations: NDArray[np.float64]
    predicted: NDArray[np.float64]
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
    def relative_errors(self) -> NDArray[np.float64]:
        """(predicted - true) / true of each job: -1 where nothing is predicted."""
        return (self.predicted - self.iterations) / self.iterations

    def histogram(self) -> pd.DataFrame:
        """Return how many jobs have which relative error, as in Fig. 4.

        Negative errors are predictions that are too short. The bin in the middle has those
        within 5 %, both ends included, so that its share is `within_5_percent`; the bins on
        either side are closed at the end away from it. The first has the jobs of which nothing
        is known, too.

        Returns
        -------
        DataFrame
            A row per bin, with ``from`` and ``to`` (relative errors), ``jobs`` and ``share``.
        """
        import pandas as pd

        # Bins below the middle are [low, high), those above (low, high]; ends but for rounding.
        bounds = np.array(BINS[1:-1])
        middle = bounds.tolist().index(WITHIN)
        below = np.searchsorted(bounds[:middle] - _ROUNDING, self.relative_errors, side="right")
        above = np.searchsorted(bounds[middle:] + _ROUNDING, self.relative_errors, side="left")
        jobs = np.bincount(below + above, minlength=len(BINS) - 1)
        return pd.DataFrame({"from": BINS[:-1], "to": BINS[1:], "jobs": jobs,
                             "share": jobs / len(self.iterations)})


def evaluate(predictor: Any, data: Workload | tuple[Any, Any], train: float = 0.8,
             report: Report | None = None) -> Evaluation:
    """Train a predictor on earlier jobs, and hold its predictions of later ones against the truth.

    Parameters
    ----------
    predictor : str, mapping, Predictor or class
        As `make_predictor` takes it.
    data : Workload, or pair of Workload or History
        Jobs to predict, with their history; without one it is split by `split_history`. Or what
        to train on, and what to predict.
    train : float
        The share of jobs to train on, of a workload that has no history.
    report : callable, optional
        Told the progress of the fit as ``report(done, total)``, where the predictor tells.

    Returns
    -------
    Evaluation

    Raises
    ------
    UnknownNameError, MissingExtraError
        As `make_predictor`.
    InputError
        Likewise; or if it is no workload, no job says its group, or a job to predict runs for no
        iterations.

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
    """Return what to train on, and what to predict."""
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
        raise InputError("no job says its group, so that there is nothing to predict by")
    return earlier, later


def evaluation_table(evaluations: Iterable[Evaluation]) -> pd.DataFrame:
    """Return a row per predictor: its errors, and the time it took.

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
