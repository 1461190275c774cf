"""The random forest of A-SRPT (Section IV), with scikit-learn; needs the extra ``predict``."""

from __future__ import annotations

import os
from copy import copy
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.checks import check_whole
from netsim.errors import MissingExtraError
from netsim.plain import plain_numbers
from netsim.predictors.base import Report
from netsim.streams import stream

__all__ = ["RandomForest"]

#: scikit-learn converts features to float32, which cannot distinguish larger whole numbers.
_EXACT = 2**24

#: Parts into which a fit that reports is divided; more would leave cores idle between them.
_PARTS = 10


@plain_numbers
@dataclass
class RandomForest:
    """A random forest on group and user as integers, fitted by squared error.

    The prediction is the mean over trees, summed in a fixed order. Neither fit nor prediction
    depends on the number of cores, nor on whether the fit reports.

    Parameters
    ----------
    trees : int
        Number of trees, at least 1.
    seed : int
        Seed of the forest.
    n_jobs : int, optional
        Number of cores used to fit trees; all by default.

    Raises
    ------
    MissingExtraError
        If scikit-learn is not installed.
    InputError
        If an option is out of range.
    """

    trees: int = 100
    seed: int = 0
    n_jobs: int | None = None
    _forest: Any = field(init=False, repr=False, default=None)
    _ids: list[NDArray[np.int64] | None] = field(init=False, repr=False, default_factory=list)

    def __deepcopy__(self, _: dict[int, Any]) -> RandomForest:
        return copy(self)  # a fit makes new trees

    def __post_init__(self) -> None:
        if find_spec("sklearn") is None:
            raise MissingExtraError("scikit-learn", "predict")
        check_whole(self.trees, "trees of a random forest", 1)
        check_whole(self.seed, "seed of a random forest")
        if self.n_jobs is not None:
            check_whole(self.n_jobs, "n_jobs of a random forest", 1)
        import_module("sklearn.ensemble")  # now, so that no fit is timed with it

    def fit(self, X: NDArray[np.int64], y: NDArray[np.float64], report: Report | None = None
            ) -> RandomForest:
        """Fit the trees; with `report` in several parts, which does not change the trees."""
        from sklearn.ensemble import RandomForestRegressor

        self._ids = [_ids_beyond_float32(column) for column in X.T]
        features = self._features(X)
        draws = int(stream(self.seed, "random-forest").integers(2**31))
        forest = RandomForestRegressor(criterion="squared_error", random_state=draws,
                                       n_jobs=self.n_jobs or -1, warm_start=True)
        for done in self._steps(report):
            forest.set_params(n_estimators=done)
            forest.fit(features, y)
            if report is not None:
                report(done, self.trees)
        # Threads would add up the trees in the order in which they finish, which affects rounding.
        self._forest = forest.set_params(n_jobs=1)
        return self

    def predict(self, X: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the mean over trees, computed once per distinct pair of group and user."""
        pairs, place = np.unique(X, axis=0, return_inverse=True)
        found: NDArray[np.float64] = self._forest.predict(self._features(pairs))
        return found[place.reshape(-1)]

    def _steps(self, report: Report | None) -> list[int]:
        """Return the number of trees after each part of a fit."""
        if report is None:
            return [self.trees]
        part = max(-(-self.trees // _PARTS), self.n_jobs or os.cpu_count() or 1)
        return [min(done + part, self.trees) for done in range(0, self.trees, part)]

    def _features(self, X: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return ids as features; if too large for float32, as their ranks in the training data.

        An unseen id gets the rank of the next larger one.
        """
        columns = [column if ids is None else np.searchsorted(ids, column)
                   for column, ids in zip(X.T, self._ids, strict=True)]
        return np.column_stack(columns).astype(np.float32)


def _ids_beyond_float32(column: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return the sorted ids of a column if some are too large for float32, else None."""
    return np.unique(column) if np.abs(column).max() > _EXACT else None
