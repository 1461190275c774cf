"""Mean and median of earlier jobs of the same group, exactly; unseen groups get 0."""

import json

import pytest

from netsim.predictors import Forecast, make_predictor
from netsim.workload.history import History


def columns(rows, *names):
    return [[row[name] for row in rows] for name in names]


def test_predictors(asrpt_simple_predictors_case):
    case = json.loads(asrpt_simple_predictors_case.read_text())
    assert case["history"]
    assert case["cases"]
    known = History(*columns(case["history"], "group", "user", "iterations"))
    asked = list(zip(*columns(case["cases"], "group", "user"), strict=True))
    for name in ("mean", "median"):
        expected = [row[f"expected_{name}"] for row in case["cases"]]
        fitted = make_predictor(name).fit(list(zip(known.group, known.user, strict=True)),
                                          known.iterations)
        assert fitted.predict(asked).tolist() == pytest.approx(expected, rel=1e-12)
        forecast = Forecast(name, known)
        assert [forecast.predict(0, *row) for row in asked] == pytest.approx(expected, rel=1e-12)
