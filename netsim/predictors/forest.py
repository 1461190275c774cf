"""The random forest of A-SRPT (Section IV), with scikit-learn; needs the extra ``predict``."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Floats, Ints
from netsim.base.streams import stream
from netsim.base.values import as_whole, convert, known_names, optional
from netsim.errors import MissingExtraError
from netsim.predictors.predictor import Report

#: scikit-learn converts features to float32, which cannot distinguish larger whole numbers.
_EXACT = 2**24

#: Parts into which a fit that reports is divided; more would leave cores idle between them.
_PARTS = 10


@known_names
@dataclass
class RandomForest:
    """A random forest on group and user as integers, fitted by squared error.

    A tree learns from as many jobs as there are, drawn with replacement. It is fitted to the means
    of pairs of group and user, weighted by how often each was drawn: no split tells apart jobs of
    the same pair, so that this is the tree of the jobs themselves, up to ties, and several times as
    fast. The prediction is the mean over trees, summed in a fixed order. Neither fit nor prediction
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
    _trees: list[Any] = field(init=False, repr=False, default_factory=list)
    _ids: list[Ints | None] = field(init=False, repr=False, default_factory=list)

    def __deepcopy__(self, _: dict[int, Any]) -> RandomForest:
        return copy(self)  # a fit makes new trees

    def __post_init__(self) -> None:
        if find_spec("sklearn") is None:
            raise MissingExtraError("scikit-learn", "predict")
        convert(self, "random forest", trees=partial(as_whole, least=1), seed=as_whole,
                n_jobs=optional(partial(as_whole, least=1)))

    def fit(self, X: Ints, y: Floats, report: Report | None = None) -> RandomForest:
        """Fit the trees; with `report` in several parts, which does not change the trees."""
        self._ids = [_ids_beyond_float32(column) for column in X.T]
        pairs, place = np.unique(X, axis=0, return_inverse=True)
        tree = _growing(self._features(pairs), place.reshape(-1), y)
        draws = np.random.RandomState(int(stream(self.seed, "random-forest").integers(2**31)))
        seeds = draws.randint(np.iinfo(np.int32).max, size=self.trees)
        self._trees = []
        with ThreadPoolExecutor(self._cores) as pool:
            for done in self._steps(report):
                self._trees += pool.map(tree, seeds[len(self._trees):done])
                if report is not None:
                    report(done, self.trees)
        return self

    def predict(self, X: Ints) -> Floats:
        """Compute the mean over trees, once per distinct pair of group and user."""
        pairs, place = np.unique(X, axis=0, return_inverse=True)
        features = self._features(pairs)
        total: Floats = sum(tree.predict(features) for tree in self._trees)
        return total[place.reshape(-1)] / self.trees

    @property
    def _cores(self) -> int:
        return self.n_jobs or int(import_module("joblib").cpu_count())

    def _steps(self, report: Report | None) -> list[int]:
        """The number of trees after each part of a fit."""
        if report is None:
            return [self.trees]
        part = max(-(-self.trees // _PARTS), self._cores)
        return [min(done + part, self.trees) for done in range(0, self.trees, part)]

    def _features(self, X: Ints) -> NDArray[np.float32]:
        """Convert ids to features; if too large for float32, to their ranks in the training data.

        An unseen id gets the rank of the next larger one.
        """
        columns = [column if ids is None else np.searchsorted(ids, column)
                   for column, ids in zip(X.T, self._ids, strict=True)]
        return np.column_stack(columns).astype(np.float32)


def _growing(features: NDArray[np.float32], place: NDArray[np.intp], y: Floats
             ) -> Callable[[int], Any]:
    """Make a function that grows a tree from a seed, given pairs and the pair of each job."""
    from sklearn.tree import DecisionTreeRegressor

    def tree(seed: int) -> Any:
        drawn = np.random.RandomState(seed).randint(0, len(y), len(y), dtype=np.int32)
        times = np.bincount(place[drawn], minlength=len(features))
        total = np.bincount(place[drawn], weights=y[drawn], minlength=len(features))
        seen = times > 0
        return DecisionTreeRegressor(random_state=seed).fit(
            features[seen], total[seen] / times[seen], sample_weight=times[seen])
    return tree


def _ids_beyond_float32(column: Ints) -> Ints | None:
    """The sorted ids of a column if some are too large for float32, else None."""
    return np.unique(column) if np.abs(column).max() > _EXACT else None
