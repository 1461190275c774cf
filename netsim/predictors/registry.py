"""Predictors by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from netsim.base.plugins import Registry, copied, labelled, parse_policy
from netsim.base.values import about
from netsim.errors import InputError
from netsim.predictors.predictor import Guarded, Predictor

PREDICTORS = Registry("predictor", {
    "mean": "netsim.predictors.predictor:Mean",
    "median": "netsim.predictors.predictor:Median",
    "perfect": "netsim.predictors.predictor:Perfect",
    "random-forest": "netsim.predictors.forest:RandomForest",
}, group="predictors")


@about("predictor")
def make_predictor(given: Any) -> Guarded:
    """Make a new predictor, wrapped so that its arguments and predictions are checked.

    It is given as a name of `PREDICTORS` or ``"module:Class"``, with options as in
    ``"mean:scope=user"`` or ``{"name": ..., option: ...}``; as a class; or as an instance, such as
    a regressor of scikit-learn, which is copied, so that runs do not share it.
    """
    if isinstance(given, Guarded):
        return copied(given, "predictor")
    options: dict[str, Any] = {}
    if isinstance(given, str | Mapping):
        name, options = parse_policy(given, "predictor")
        if not inspect.isclass(PREDICTORS.resolve(name)):
            raise InputError(f"{name!r} is not a predictor: it must be a class with fit and "
                             "predict")
    else:
        name = (given if isinstance(given, type) else type(given)).__name__
    predictor = PREDICTORS.instantiate(given)
    if not isinstance(predictor, Predictor):
        raise InputError(f"{name!r} is not a predictor: it must have the methods fit(X, y) and "
                         f"predict(X)")
    return Guarded(predictor, labelled({"name": name} | options))
