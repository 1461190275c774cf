"""Means with intervals, and ratios pair by pair."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.analysis.intervals import (
    geometric_interval,
    mean_interval,
    means_of,
    ratios_of,
    sides_of_one,
    without_intervals,
)
from netsim.errors import InputError, UnknownNameError


@pytest.mark.parametrize(("count", "t"), [(2, 12.7062), (3, 4.30265), (10, 2.26216),
                                          (31, 2.04227), (1001, 1.96234)])
def test_half_widths_are_student_s(count, t):
    """Of n values with standard deviation s: t s / sqrt(n), t from published tables."""
    values = np.arange(count, dtype=float)
    mean, low, high = mean_interval(values)
    assert mean == pytest.approx((count - 1) / 2)
    assert high - mean == pytest.approx(t * values.std(ddof=1) / math.sqrt(count), rel=3e-6)
    assert mean - low == pytest.approx(high - mean)


def test_an_interval_holds_the_mean_as_often_as_it_says():
    """Of 2,000 samples of 5 normal values, 95 % within 3 standard errors of 0.5 %."""
    rng = np.random.default_rng(1)
    holds = [low <= 7 <= high for _, low, high in
             (mean_interval(rng.normal(7, 2, 5)) for _ in range(2000))]
    assert abs(np.mean(holds) - 0.95) < 3 * math.sqrt(0.95 * 0.05 / 2000)


@pytest.mark.parametrize(("seeds", "values", "note"), [
    ([0, 0], [1.0, 2.0], "one run each"),
    ([0, 1, 0, 1, 2], [1.0, 1.0, 2.0, 2.0, 2.0],
     "all 2 to 3 seeds give the same: nothing in this experiment is drawn"),
    ([0, 1, 0, 1, 2], [1.0, 1.0, 2.0, 2.0, 2.1], ""),
    ([0, 1, 0, 1], [1.0, 1.0, math.nan, 2.0], ""),  # one was stopped before its end
    ([0, 1], [math.nan, math.nan], "")])
def test_why_there_are_no_intervals(seeds, values, note):
    points = [0, 0, 1, 1, 1][:len(seeds)] if len(set(seeds)) > 1 else [0, 1]
    table = pd.DataFrame({"point": points, "seed": seeds, "jct_s": values})
    assert without_intervals(means_of(table, ["point"], ["jct_s"])) == note


def test_one_value_has_no_interval_and_none_no_mean():
    mean, low, high = mean_interval([3.0])
    assert (mean, math.isnan(low), math.isnan(high)) == (3, True, True)
    assert all(map(math.isnan, mean_interval([])))


RATIOS = st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=12)


@given(RATIOS)
def test_an_interval_of_ratios_is_above_0_and_the_same_either_way_round(ratios):
    """That of the inverses has the inverse of the mean, and the inverses of the ends."""
    mean, low, high = geometric_interval(ratios)
    assert 0 <= low <= mean * (1 + 1e-9)
    assert mean <= high * (1 + 1e-9)
    back, back_low, back_high = geometric_interval(1 / np.array(ratios))
    assert back == pytest.approx(1 / mean)
    assert back_low * high == pytest.approx(1)
    assert back_high == pytest.approx(1 / low)


def test_the_interval_of_ratios_is_that_of_their_logarithms():
    """Of 1/2, 1 and 2: log 2 is their standard deviation, t of 2 degrees 4.30265."""
    half = 2 ** (4.30265 / math.sqrt(3))
    assert geometric_interval([0.5, 1, 2]) == pytest.approx((1, 1 / half, half), rel=1e-5)


def test_one_far_ratio_does_not_decide():
    """Nine seeds at 1/2, one at 8: 1.25 on average, and 0.5^0.9 8^0.1 = 0.66."""
    ratios = [0.5] * 9 + [8]
    assert np.mean(ratios) == 1.25
    mean, low, high = geometric_interval(ratios)
    assert mean == pytest.approx(0.5 ** 0.9 * 8 ** 0.1)
    assert 0 < low < mean < high
    assert sides_of_one(ratios) == (9, 1)


def test_ratios_that_have_no_logarithm():
    """A ratio of 0 makes the mean 0; of nothing, of NaN and of what is negative there is none."""
    mean, low, high = geometric_interval([0.0, 2.0])
    assert (mean, math.isnan(low), math.isnan(high)) == (0, True, True)
    for values in ([], [1.0, math.nan], [1.0, -2.0]):
        assert all(map(math.isnan, geometric_interval(values)))
    assert geometric_interval([3.0])[0] == pytest.approx(3)


def test_ratios_that_differ_from_1_by_rounding_are_on_neither_side():
    assert sides_of_one([1 - 1e-12, 1, 1 + 1e-12]) == (0, 0)
    assert sides_of_one([0.999999, 1, 1.000001, 2, math.nan]) == (1, 2)


def runs():
    """Policy b takes twice as long as a in each seed, though seeds differ tenfold."""
    rows = [(policy, rate, seed, factor * 10 ** seed / rate)
            for rate in (1.0, 4.0) for policy, factor in (("a", 1), ("b", 2))
            for seed in range(3)]
    table = pd.DataFrame(rows, columns=["allocator", "rate", "seed", "jct_total_s"])
    return table.assign(jobs=5, jobs_finished=5)


def test_means_are_by_what_was_varied_in_order():
    means = means_of(runs(), ["rate", "allocator"], ["jct_total_s"])
    assert means[["rate", "allocator", "runs"]].to_numpy().tolist() == [
        [1, "a", 3], [1, "b", 3], [4, "a", 3], [4, "b", 3]]
    assert means["jct_total_s"].tolist() == pytest.approx([37, 74, 9.25, 18.5])
    assert list(means.columns[3:]) == ["jct_total_s", "jct_total_s_low", "jct_total_s_high"]


def test_intervals_of_amounts_end_at_0():
    """Of 1, 1 and 100 Student's interval begins at -108; no JCT does. Differences may."""
    table = pd.DataFrame({"jct_total_s": [1.0, 1, 100], "gain": [-1.0, 1, 100]})
    assert mean_interval(table["jct_total_s"])[1] < -100
    means = means_of(table, [], ["jct_total_s", "gain"])
    assert means["jct_total_s_low"][0] == 0
    assert means["gain_low"][0] < -100


def test_means_of_metrics_that_are_ratios_are_geometric():
    """1/2, 1 and 16 over the bound: 2, and not 5.8."""
    table = pd.DataFrame({"over_lower_bound": [0.5, 1, 16], "jct_mean_s": [0.5, 1, 16]})
    means = means_of(table, [], ["over_lower_bound", "jct_mean_s"]).iloc[0]
    assert means["over_lower_bound"] == pytest.approx(2)
    assert means["over_lower_bound_low"] > 0
    assert means["jct_mean_s"] == pytest.approx(35 / 6)


def test_ratios_of_pairs_are_geometric_and_say_who_was_ahead():
    """Of b over a: 1/4, 1/4, 1 and 16, a geometric mean of 1 where the arithmetic one is 4.4."""
    table = pd.DataFrame([(policy, seed, total) for policy, totals in (
        ("a", (4, 8, 3, 1)), ("b", (1, 2, 3, 16))) for seed, total in enumerate(totals)],
        columns=["allocator", "seed", "jct_total_s"]).assign(jobs=1, jobs_finished=1)
    found = ratios_of(table, "allocator", "a", [], "jct_total_s").set_index("allocator")
    assert found.loc["b", "ratio"] == pytest.approx(1)
    assert found.loc["b", ["pairs", "below", "above"]].tolist() == [4, 2, 1]
    assert found.index.tolist() == ["b"]  # the baseline's own ratio is 1
    back = ratios_of(table, "allocator", "b", [], "jct_total_s").set_index("allocator")
    assert back.loc["a", ["below", "above"]].tolist() == [1, 2]
    assert back.loc["a", "ratio_high"] == pytest.approx(1 / found.loc["b", "ratio_low"])


def test_ratios_are_of_pairs():
    """Each is 2, so that the interval has no width, while that of the means is wide."""
    ratios = ratios_of(runs(), "allocator", "a", ["rate"], "jct_total_s").set_index("allocator")
    assert ratios.loc["b", ["ratio", "ratio_low", "ratio_high"]].to_numpy() == pytest.approx(
        np.full((2, 3), 2.0))
    assert ratios["pairs"].tolist() == [3] * 2
    means = means_of(runs(), ["allocator"], ["jct_total_s"])
    assert (means["jct_total_s_high"] > 1.5 * means["jct_total_s"]).all()


def test_pairs_that_lack_one_or_did_not_finish():
    table = runs().drop(index=0)  # policy a, rate 1, seed 0
    table.loc[1, "jobs_finished"] = 4  # and of seed 1
    ratios = ratios_of(table, "allocator", "a", ["rate"], "jct_total_s")
    pairs = ratios.set_index(["rate", "allocator"])
    assert pairs.loc[(1, "b"), "pairs"] == 2
    assert math.isnan(pairs.loc[(1, "b"), "ratio"])
    assert pairs.loc[(1, "b"), ["below", "above"]].isna().all()
    assert pairs.loc[(4, "b"), ["ratio", "below", "above"]].tolist() == pytest.approx([2, 0, 3])


def test_wrong_names_and_nothing():
    with pytest.raises(UnknownNameError, match="unknown baseline 'c'; choose from: a, b"):
        ratios_of(runs(), "allocator", "c", ["rate"], "jct_total_s")
    alone = runs().query("allocator == 'a'")
    with pytest.raises(InputError, match="all runs have the allocator 'a': there is nothing to"):
        ratios_of(alone, "allocator", "a", ["rate"], "jct_total_s")
    with pytest.raises(UnknownNameError, match="unknown column 'jct'"):
        means_of(runs(), ["rate"], ["jct"])
    with pytest.raises(InputError, match="there are no runs"):
        means_of(runs().iloc[:0], ["rate"], ["jct_total_s"])
