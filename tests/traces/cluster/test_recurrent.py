"""The characteristics that are published of recurrent workloads come out of the generator."""

from __future__ import annotations

import numpy as np
import pytest

from netsim.errors import InputError
from netsim.traces import read_workload
from netsim.traces.cluster import recurrent_jobs
from tests.examples import examples

JOBS = recurrent_jobs(20_000, seed=1)


def test_shares_are_the_published_ones() -> None:
    """72 % of the jobs on one GPU; 65 % of groups with at least five: exact but for a job."""
    for seed in range(3):
        jobs = recurrent_jobs(3000, seed=seed)
        assert (jobs.gpus == 1).mean() == pytest.approx(0.72, abs=1 / 3000)
        sizes = np.bincount(jobs.group)
        assert sizes[sizes >= 5].sum() / 3000 == pytest.approx(0.65, abs=1e-12)
        assert sizes.min() >= 1


@pytest.mark.parametrize("share", [0, 0.3, 1])
def test_shares_are_options(share: float) -> None:
    jobs = recurrent_jobs(1000, single_gpu_share=share, recurring_share=share)
    sizes = np.bincount(jobs.group)
    assert sizes[sizes >= 5].sum() == 1000 * share
    assert (jobs.gpus == 1).sum() == pytest.approx(1000 * share, abs=4)


def test_a_group_has_one_user_as_many_gpus_and_durations_alike() -> None:
    order = np.argsort(JOBS.group, kind="stable")
    ends = np.flatnonzero(np.diff(JOBS.group[order])) + 1
    for group in np.split(order, ends):
        assert len(set(JOBS.gpus[group])) == len(set(JOBS.user[group])) == 1
    within = np.concatenate([np.log(JOBS.duration_s[group]) - np.log(JOBS.duration_s[group]).mean()
                             for group in np.split(order, ends) if len(group) >= 50])
    assert within.std() == pytest.approx(0.2, abs=0.02)


def test_groups_and_users_are_few_and_uneven() -> None:
    sizes = np.sort(np.bincount(JOBS.group))[::-1]
    assert (sizes >= 5).sum() == 13_000 // 25
    assert sizes[0] > 20 * np.median(sizes[sizes >= 5])
    by_user = np.sort(np.bincount(JOBS.user))[::-1]
    assert by_user[:len(by_user) // 20].sum() > 0.4 * len(JOBS)  # 5 % of the users
    few = recurrent_jobs(1000, groups=3, users=2)
    assert (np.bincount(few.group) >= 5).sum() == 3
    assert set(few.user) <= {0, 1}


def test_durations_have_a_heavy_tail() -> None:
    """Log-normal over groups: of a tenth of the medians, above 10 ** (2.3/1.7 s) times."""
    one_each = recurrent_jobs(20_000, recurring_share=0, seed=2)
    assert np.median(one_each.duration_s) == pytest.approx(600, rel=0.05)
    logs = np.log(one_each.duration_s / 600)
    assert logs.std() == pytest.approx((1.7**2 + 0.2**2) ** 0.5, rel=0.03)
    assert (one_each.duration_s > 6000).mean() == pytest.approx(0.089, abs=0.01)
    assert one_each.duration_s.mean() > 3 * np.median(one_each.duration_s)
    assert JOBS.duration_s.min() >= 9.999
    assert JOBS.duration_s.max() <= 14 * 86400.001
    flat = recurrent_jobs(500, tail=0, median_duration="1h")
    assert np.log(flat.duration_s / 3600).std() == pytest.approx(0.2, abs=0.02)


def test_arrivals_are_poisson() -> None:
    gaps = np.diff(JOBS.submit_s)
    assert JOBS.submit_s[0] == 0
    assert gaps.mean() == pytest.approx(30, rel=0.03)
    assert gaps.std() == pytest.approx(30, rel=0.03)
    assert gaps.min() >= 0


def test_arrivals_may_follow_the_day() -> None:
    """Rate 1 + 0.8 sin: the first half of the days has 0.5 + 0.8/pi = 75 % of the jobs."""
    jobs = recurrent_jobs(50_000, arrivals="diurnal", mean_interarrival="60s", seed=4)
    assert (np.diff(jobs.submit_s) >= 0).all()
    assert np.diff(jobs.submit_s).mean() == pytest.approx(60, rel=0.03)
    day = jobs.submit_s % 86400
    assert (day < 43200).mean() == pytest.approx(0.5 + 0.8 / np.pi, abs=0.01)


def test_the_seed_says_all() -> None:
    one, same, other = (recurrent_jobs(300, seed=seed) for seed in (7, 7, 8))
    for name in ("submit_s", "duration_s", "gpus", "group", "user"):
        assert np.array_equal(getattr(one, name), getattr(same, name))
        assert not np.array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("jobs", [1, 2, 4, 5, 6, 7, 11])
def test_few_jobs(jobs: int) -> None:
    for seed in range(examples(20)):
        drawn = recurrent_jobs(jobs, seed=seed)
        assert len(drawn) == len(drawn.group) == len(drawn.gpus) == jobs


def test_as_a_format() -> None:
    workload = read_workload(format="recurrent", jobs=100, max_gpus=8, train=0.5)
    assert workload.name == "recurrent-100"
    assert len(workload) + len(workload.history) == 100 - workload.dropped[
        "more GPUs than max_gpus"]


@pytest.mark.parametrize(("options", "message"), [
    ({"jobs": 0}, "jobs must be a whole number"),
    ({"groups": 1000}, "groups must be a whole number from 1 to 130, not 1000"),
    ({"users": 0}, "users must be a whole number"),
    ({"single_gpu_share": 1.5}, "single_gpu_share must be a number from 0 to 1, not 1.5"),
    ({"recurring_share": -1}, "recurring_share must be a number from 0 to 1, not -1"),
    ({"tail": -1}, "tail must be a number from 0 to 10, not -1"),
    ({"median_duration": "0s"}, "median_duration must be greater than 0"),
    ({"mean_interarrival": 0}, "mean_interarrival must be greater than 0"),
    ({"mean_interarrival": "2e9s"}, "mean_interarrival = '2e9s' is too long for 1,000 jobs"),
    ({"arrivals": "weekly"}, "unknown arrivals 'weekly'; choose from: diurnal, poisson"),
])
def test_options_out_of_range(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_workload(format="recurrent", **options)
