"""Errors of predictions: what is drawn, not how it looks."""

import pandas as pd
import pytest

from netsim.errors import InputError, MissingExtraError
from netsim.plots import style
from netsim.plots.prediction import error_histogram

pytestmark = pytest.mark.usefixtures("matplotlib")


def table(*shares, bounds=(-1, -0.05, 0.05, float("inf"))):
    return pd.DataFrame({"from": bounds[:-1], "to": bounds[1:], "share": shares})


def test_a_bar_per_predictor_and_bin():
    ax = error_histogram({"mean": table(0.5, 0.25, 0.25), "median": table(0, 1, 0)})
    assert [[bar.get_height() for bar in bars] for bars in ax.containers] == [
        [50, 25, 25], [0, 100, 0]]
    places = sorted(bar.get_x() for bars in ax.containers for bar in bars)
    assert [int(place) for place in places] == [0, 0, 1, 1, 2, 2]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["−100", "−5", "5", "∞"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["mean", "median"]


def test_one_needs_no_legend():
    assert error_histogram({"mean": table(0, 1, 0)}).get_legend() is None


def test_nothing_to_draw():
    with pytest.raises(InputError, match="nothing to draw"):
        error_histogram({})
    with pytest.raises(InputError, match="must have the same bins"):
        error_histogram({"a": table(0, 1, 0), "b": table(0, 1, 0, bounds=(-1, -0.1, 0.1, 2))})


def test_without_matplotlib(monkeypatch):
    monkeypatch.setattr(style, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"coflow-netsim\[plot\]"):
        error_histogram({"mean": table(0, 1, 0)})
