"""Predictions during a run: what is known when."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim import History, JobSpec
from netsim.errors import InputError, UnitError
from netsim.predictors import Forecast

PAST = History([1, 1, 2], [5, 6, 5], [10, 30, 7])


def test_without_training_anew_only_history_counts():
    forecast = Forecast("mean", PAST)
    forecast.observe(1, 1, 5, 1000)
    assert [forecast.predict(time, 1, 5) for time in (0, 10**9, 3)] == [20, 20, 20]
    assert forecast.predict_all(0, [2, 1, 3], [5, 5, 5]).tolist() == [7, 20, 0]
    assert (forecast.fits, forecast.valid_until(5)) == (1, np.inf)


def test_trained_anew_each_period_on_what_has_completed():
    forecast = Forecast("mean", PAST, retrain="1min")
    assert forecast.predict(0, 1, 5) == 20
    forecast.observe(10, 1, 5, 80)
    forecast.observe(60, 3, 5, 4)
    forecast.observe(61, 2, 5, 1000)
    assert forecast.predict(60, 1, 5) == 40  # that instant included
    assert forecast.predict(119, 3, 9) == 4
    assert forecast.predict(119, 2, 5) == 7  # not yet
    assert forecast.predict(120, 2, 5) == 503.5
    assert forecast.fits == 3


def test_periods_without_news_or_questions_cost_nothing():
    forecast = Forecast("mean", PAST, retrain=60)
    for time in range(0, 6000, 60):
        forecast.predict(time, 1, 5)
    for time in range(6000, 9000, 60):
        forecast.observe(time, 1, 5, 20)
    assert forecast.predict(10**6, 1, 5) == 20
    assert forecast.fits == 2


def test_it_may_begin_without_history():
    forecast = Forecast("median", retrain="1h")
    assert forecast.predict(0, 1, 5) == 0
    forecast.observe(5, 1, 5, 9)
    assert forecast.predict(3600, 1, 5) == 9


def test_jobs_that_say_nothing():
    forecast = Forecast("mean", PAST, retrain=1)
    forecast.observe(0.5, None, None, 99)
    assert [forecast.predict(2, None, 5), forecast.predict(2, 1, None)] == [0, 20]


def test_the_truth_is_for_the_clairvoyant():
    forecast = Forecast("perfect")
    assert forecast.predict(0, 8, 8, 123) == 123
    assert forecast.predict_all(0, [8, 9], [8, 8], [1, 2]).tolist() == [1, 2]
    with pytest.raises(InputError, match="give them as well"):
        forecast.predict(0, 8, 8)


def test_jobs_at_once():
    jobs = [JobSpec(id, 10 * id, 3, pattern="ring-all-reduce", ranks=1, group=group, user=5)
            for id, group in enumerate([1, None, 2])]
    assert Forecast("mean", PAST, retrain="1h").predict_jobs(jobs).tolist() == [20, 0, 7]
    assert Forecast("perfect").predict_jobs(jobs).tolist() == [3, 3, 3]
    assert Forecast("mean").predict_jobs([]).tolist() == []


def test_at_once_only_within_a_period():
    forecast = Forecast("mean", PAST, retrain=60)
    assert forecast.valid_until(0) == 60
    assert forecast.valid_until(60) == 120
    assert forecast.predict_all([60, 119], [1, 2], [5, 5]).tolist() == [20, 7]
    with pytest.raises(InputError, match="retrained at 180 s"):
        forecast.predict_all([120, 180], [1, 2], [5, 5])


def test_time_does_not_run_backwards():
    forecast = Forecast("mean", PAST, retrain=60)
    forecast.observe(70, 1, 5, 1)
    with pytest.raises(InputError, match="after one that completed at 70 s"):
        forecast.observe(69, 1, 5, 1)
    forecast.predict(130, 1, 5)
    with pytest.raises(InputError, match="what was known at 120 s"):
        forecast.predict(119, 1, 5)


@pytest.mark.parametrize("period", [0, -1, "soon", np.inf])
def test_periods_are_positive(period):
    with pytest.raises(UnitError, match="retrain"):
        Forecast("mean", retrain=period)


def test_the_next_run_of_the_same_jobs_need_not_learn_again():
    """The same predictor, history and jobs; a difference in any is learned again."""
    jobs = [JobSpec(k, pattern="ring-all-reduce", ranks=2, nbytes=0, group=1 + k % 2, user=5,
                    iterations=9)
            for k in range(4)]
    other = History([1, 1, 2], [5, 6, 5], [10, 30, 8])
    found = []
    for predictor, past, asked, fits in (
            ("mean", PAST, jobs, 1), ("mean", PAST, jobs, 0), ("median", PAST, jobs, 1),
            ("mean:scope=user", PAST, jobs, 1), ("mean", other, jobs, 1),
            ("mean", PAST, jobs[:3], 1), ({"name": "mean"}, PAST, jobs, 0)):
        forecast = Forecast(predictor, past)
        found.append(forecast.predict_jobs(asked).tolist())
        assert forecast.fits == fits
    assert found[0] == found[1] == found[-1] == [20, 7, 20, 7]
    assert found[4] == [20, 8, 20, 8]
    # One that remembered can learn what it is asked next.
    forecast = Forecast("mean", PAST)
    first = forecast.predict_jobs(jobs)
    first[0] = 1e9
    assert forecast.predict_jobs(jobs[1:]).tolist() == [7, 20, 7]
    assert forecast.fits == 1
    assert Forecast("mean", PAST).predict_jobs(jobs).tolist() == [20, 7, 20, 7]


def test_a_users_predictor_learns_each_time():
    class Counts:
        learned = 0

        def fit(self, X, y):
            Counts.learned += 1

        def predict(self, X):
            return np.ones(len(X))

    jobs = [JobSpec(0, pattern="ring-all-reduce", ranks=2, nbytes=0, group=1, user=5)]
    for _ in range(2):
        assert Forecast(Counts, PAST).predict_jobs(jobs).tolist() == [1]
    assert Counts.learned == 2


def test_progress_is_told():
    pytest.importorskip("sklearn")
    told = []
    forecast = Forecast("random-forest:trees=4", PAST, report=lambda *done: told.append(done))
    forecast.predict(0, 1, 5)
    assert told[-1] == (4, 4)


@given(st.floats(1e-3, 1e5), st.integers(0, 10**6), st.floats(0, 1e9))
def test_periods_begin_at_multiples(period, number, time):
    forecast = Forecast("mean", retrain=period)
    assert forecast.valid_until(number * period) == (number + 1) * period
    assert forecast.valid_until(time) > time
    assert forecast.valid_until(time) - period <= time * (1 + 1e-12)


EVENTS = st.lists(st.tuples(st.integers(0, 50), st.booleans(), st.integers(0, 3),
                            st.integers(0, 2), st.integers(1, 100)), max_size=30)


@given(EVENTS)
def test_as_if_fitted_by_hand(events):
    """Each prediction is that of a median of all that completed by the period's beginning."""
    forecast = Forecast("median:scope=user", PAST, retrain=10)
    done = []
    for time, ended, group, user, iterations in sorted(events, key=lambda each: each[0]):
        if ended:
            forecast.observe(time, group, user, iterations)
            done.append((time, group, user, iterations))
            continue
        known = [row[1:] for row in done if row[0] <= time // 10 * 10]
        known += list(zip(PAST.group, PAST.user, PAST.iterations, strict=True))
        if time % 10 == 0:
            continue  # what completes at this very instant may be yet to come
        of_user = [n for _, each, n in known if each == user]
        seen = group in [each for each, _, _ in known]
        expected = float(np.median(of_user)) if seen and of_user else 0
        assert forecast.predict(time, group, user) == expected
        assert forecast.predict_all(time, [group], [user]).tolist() == [expected]
