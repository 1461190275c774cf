"""Which predictors there are, and how a name, a mapping or an instance becomes one."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from netsim.errors import InputError
from netsim.plugins import build, copied, find, labelled, named
from netsim.predictors.base import Guarded, Predictor

__all__ = ["PREDICTORS", "make_predictor"]

#: Name -> where the class is. The first line of its docstring is its one-line summary.
PREDICTORS: dict[str, str] = {
    "mean": "netsim.predictors.simple:Mean",
    "median": "netsim.predictors.simple:Median",
    "perfect": "netsim.predictors.simple:Perfect",
    "random-forest": "netsim.predictors.forest:RandomForest",
}


def make_predictor(given: Any) -> Guarded:
    """Return a fresh predictor, under the rules of all.

    Parameters
    ----------
    given : str, mapping, Predictor or class
        A name of `PREDICTORS`, or ``"module:Class"``, perhaps with options as in
        ``"mean:scope=user"``; ``{"name": ..., option: ...}``; a class; or an instance, such as a
        regressor of scikit-learn, which is copied so that it serves one run only.

    Returns
    -------
    Guarded

    Raises
    ------
    UnknownNameError
        If the name or an option does not exist; the choices are listed.
    InputError
        If it is no predictor, or an option has a value that is not allowed.
    MissingExtraError
        If it needs scikit-learn, and that is not installed.

    Examples
    --------
    >>> mean = make_predictor({"name": "mean", "scope": "user"})
    >>> mean.name
    'mean (scope=user)'
    >>> mean.fit([[1, 7], [2, 7], [2, 8]], [10, 20, 90]).predict([[2, 7], [3, 7]]).tolist()
    [15.0, 0.0]
    """
    if isinstance(given, Guarded):
        return copied(given, "predictor")
    if isinstance(given, str | Mapping):
        name, options = named(given, "predictor")
        return _guarded(_make(find("predictor", name, PREDICTORS), name, options), name, options)
    if isinstance(given, type):
        return _guarded(_make(given, given.__name__, {}), given.__name__, {})
    return _guarded(copied(given, "predictor"), type(given).__name__, {})


def _make(kind: Any, name: str, options: dict[str, Any]) -> Any:
    if not inspect.isclass(kind):
        raise InputError(f"{name!r} is not a predictor: it must be a class with fit and predict")
    return build(kind, options, f"predictor {name!r}")


def _guarded(predictor: Any, name: str, options: dict[str, Any]) -> Guarded:
    if not isinstance(predictor, Predictor):
        raise InputError(f"{name!r} is not a predictor: it must have the methods fit(X, y) and "
                         f"predict(X)")
    return Guarded(predictor, labelled({"name": name} | options))
