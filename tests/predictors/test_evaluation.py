"""How well predictors do: errors, their histogram, and on what."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim import History, JobSpec, Workload
from netsim.errors import InputError
from netsim.predictors import Evaluation, evaluate, evaluation_table
from netsim.traces import split_history

#: The mean of group 1 is 100, of group 2 it is 40.
PAST = History([1, 1, 2], [5, 6, 5], [50, 150, 40])
LATER = History([1, 1, 2, 3], [5, 5, 5, 5], [100, 80, 42, 10])


def workload(**options):
    return Workload([JobSpec(id, id, 10 + id, pattern="ring-all-reduce", ranks=1, **options)
                     for id in range(10)])


def made_of(predicted, iterations):
    return Evaluation("by hand", 0, 0.0, 0.0, np.array(iterations, float),
                      np.array(predicted, float), 0.0)


def test_errors_by_hand():
    found = evaluate("mean", (PAST, LATER))
    assert found.predicted.tolist() == [100, 100, 40, 0]
    assert found.mae == (0 + 20 + 2 + 10) / 4
    assert found.within_5_percent == 2 / 4
    assert (found.unseen, found.trained_on, found.predictor) == (1 / 4, 3, "mean")
    assert min(found.fit_s, found.predict_s) >= 0
    perfect = evaluate("perfect", (PAST, LATER))
    assert (perfect.mae, perfect.within_5_percent) == (0, 1)


@pytest.mark.parametrize(("predicted", "bounds"), [
    (0, (-1, -0.75)), (25, (-0.75, -0.5)), (94, (-0.25, -0.05)), (95, (-0.05, 0.05)),
    (100, (-0.05, 0.05)), (105, (-0.05, 0.05)), (106, (0.05, 0.25)), (125, (0.05, 0.25)),
    (126, (0.25, 0.5)), (200, (0.5, 1)), (10**9, (5, np.inf))])
def test_bins(predicted, bounds):
    table = made_of([predicted], [100]).histogram()
    row = table[table["jobs"] == 1].iloc[0]
    assert (row["from"], row["to"], row["share"]) == (*bounds, 1)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**4)), min_size=1, max_size=40))
def test_histograms_have_all_jobs(pairs):
    found = made_of(*zip(*pairs, strict=True))
    table = found.histogram()
    assert table["jobs"].sum() == len(pairs)
    assert table["share"].sum() == pytest.approx(1)
    middle = table[(table["from"] < 0) & (table["to"] > 0)]
    assert middle["share"].item() == found.within_5_percent


def test_workloads_are_split():
    jobs = workload(group=1)
    for data, train in ((jobs, 0.8), (split_history(jobs), 0.3),
                         ((Workload(jobs.jobs[:8]), Workload(jobs.jobs[8:])), 0.1)):
        found = evaluate("mean", data, train)
        assert (found.trained_on, found.iterations.tolist()) == (8, [18, 19])
        assert found.mae == 5


def test_a_table_of_predictors():
    names = ("mean:scope=user", "median")
    table = evaluation_table(evaluate(name, (PAST, LATER)) for name in names)
    assert table["predictor"].tolist() == ["mean (scope=user)", "median"]
    assert table["jobs"].tolist() == [4, 4]
    assert table["mae"].iloc[1] == 8


@pytest.mark.parametrize(("data", "message"), [
    ("demo", "on a workload, or on two"), ((PAST, 3), "on a workload, or on two"),
    (workload(user=3), "no job has a group"),
    ((PAST, History([], [], [])), "more than 0 iterations"),
    ((PAST, History([1], [1], [0])), "more than 0 iterations")])
def test_others_are_refused(data, message):
    with pytest.raises(InputError, match=message):
        evaluate("mean", data)
