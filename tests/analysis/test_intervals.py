"""Means with intervals, and ratios pair by pair."""

import math

import numpy as np
import pandas as pd
import pytest

from netsim.analysis.intervals import mean_interval, means_of, ratios_of
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


def test_one_value_has_no_interval_and_none_no_mean():
    mean, low, high = mean_interval([3.0])
    assert (mean, math.isnan(low), math.isnan(high)) == (3, True, True)
    assert all(map(math.isnan, mean_interval([])))


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


def test_ratios_are_of_pairs():
    """Each is 2, so that the interval has no width, while that of the means is wide."""
    ratios = ratios_of(runs(), "allocator", "a", ["rate"], "jct_total_s").set_index("allocator")
    assert ratios.loc["b", ["ratio", "ratio_low", "ratio_high"]].to_numpy() == pytest.approx(
        np.full((2, 3), 2.0))
    assert ratios["pairs"].tolist() == [3] * 4
    means = means_of(runs(), ["allocator"], ["jct_total_s"])
    assert (means["jct_total_s_high"] > 1.5 * means["jct_total_s"]).all()


def test_pairs_that_lack_one_or_did_not_finish():
    table = runs().drop(index=0)  # policy a, rate 1, seed 0
    table.loc[1, "jobs_finished"] = 4  # and of seed 1
    ratios = ratios_of(table, "allocator", "a", ["rate"], "jct_total_s")
    pairs = ratios.set_index(["rate", "allocator"])
    assert pairs.loc[(1, "b"), "pairs"] == 2
    assert math.isnan(pairs.loc[(1, "b"), "ratio"])
    assert pairs.loc[(4, "b"), "ratio"] == 2


def test_wrong_names_and_nothing():
    with pytest.raises(UnknownNameError, match="unknown baseline 'c'; choose from: a, b"):
        ratios_of(runs(), "allocator", "c", ["rate"], "jct_total_s")
    with pytest.raises(UnknownNameError, match="unknown column 'jct'"):
        means_of(runs(), ["rate"], ["jct"])
    with pytest.raises(InputError, match="there are no runs"):
        means_of(runs().iloc[:0], ["rate"], ["jct_total_s"])
