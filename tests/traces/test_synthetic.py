"""The generator of traces like the 60 Tiresias jobs of Parrot, Section 6.1."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from statistics import mean, median, pstdev

import pytest

from netsim.errors import InputError
from netsim.traces import (
    Construction,
    read_tiresias,
    read_workload,
    synthetic,
    synthetic_rows,
    write_tiresias,
)


@pytest.fixture(scope="module")
def many():
    return synthetic_rows(6000, 0)


def test_sixty_jobs_have_the_published_counts() -> None:
    """Ten models, each three times on one GPU and once on 2, 4 and 8."""
    for seed in range(3):
        rows = synthetic_rows(60, seed)
        assert Counter(row.num_gpu for row in rows) == {1: 30, 2: 10, 4: 10, 8: 10}
        assert set(Counter(row.model_name for row in rows).values()) == {6}
        assert set(Counter((row.model_name, row.num_gpu) for row in rows).values()) == {1, 3}


def test_every_sixty_jobs_are_shuffled_anew(many) -> None:
    decks = [[(row.model_name, row.num_gpu) for row in many[k : k + 60]] for k in (0, 60, 120)]
    assert sorted(decks[0]) == sorted(decks[1]) == sorted(decks[2])
    assert decks[0] != decks[1] != decks[2]


def test_submissions_are_poisson_distributed_gaps(many) -> None:
    """Poisson with mean 30: standard deviation sqrt(30) = 5.48; 6,000 draws, error 0.07."""
    assert [row.job_id for row in many] == list(range(6000))
    assert many[0].submit_time == 0
    gaps = [after.submit_time - before.submit_time
            for before, after in pairwise(many)]
    assert gaps == [row.interval for row in many[:-1]]
    assert mean(gaps) == pytest.approx(30, abs=0.4)
    assert pstdev(gaps) == pytest.approx(30**0.5, abs=0.3)


def test_durations_have_the_stated_tail(many) -> None:
    """P(duration > 120 + x) = (x + 1)**-0.5 for whole x < 1680; error of a share 0.013 (2 sd)."""
    durations = [row.duration for row in many]
    assert (min(durations), max(durations)) == (121, 1800)
    for x in (1, 4, 10, 100, 1000):
        share = sum(duration > 120 + x for duration in durations) / len(durations)
        assert share == pytest.approx((x + 1) ** -0.5, abs=0.02)
    # The trace: 60 % of the durations are in 121..130 s.
    assert 0.55 < sum(duration <= 130 for duration in durations) / len(durations) < 0.75


def test_iterations_follow_from_the_model(many) -> None:
    """The trace's median is 442.5, its extremes 109 and 4,861, of 60 draws."""
    iterations = [row.iterations for row in many]
    assert 350 < median(iterations) < 550
    assert min(iterations) >= 109
    assert max(iterations) <= 33_334
    seconds = {(row.model_name, row.num_gpu): row.duration / row.iterations for row in many}
    assert seconds["googlenet", 1] == pytest.approx(seconds["googlenet", 8], rel=0.01)
    assert seconds["vgg19", 8] > 3 * seconds["vgg19", 1]


def test_more_jobs_never_change_those_before() -> None:
    assert synthetic_rows(130, 4)[:61] == synthetic_rows(61, 4)


def test_seeds() -> None:
    assert synthetic_rows(60, 1) == synthetic_rows(60, 1)
    assert synthetic_rows(60, 1) != synthetic_rows(60, 2)
    fixed = [synthetic(seed=seed, trace_seed=7, servers_max=8) for seed in (0, 1)]
    assert [workload.seed for workload in fixed] == [0, 1]
    arrivals, servers = (
        [[get(job) for job in workload] for workload in fixed]
        for get in (lambda job: job.arrival_s, lambda job: job.pattern["servers"]))
    assert arrivals[0] == arrivals[1]
    assert servers[0] != servers[1]


def test_it_is_the_readers_construction(tmp_path, facts) -> None:
    """A generated trace, written and read, gives the same jobs as generated directly."""
    options = {"iterations": 4, "arrival_scale": 0.05, "length": "250MB", "servers_max": 6,
               "ranks_per_gpu": 1, "redraw": True}
    write_tiresias(synthetic_rows(20, 3), tmp_path / "t.csv")
    read = read_tiresias(tmp_path / "t.csv", seed=3, **options)
    generated = read_workload(format="synthetic", jobs=20, seed=3, **options)
    assert facts(read) == facts(generated)
    assert facts(generated) == facts(Construction(**options).workload(
        synthetic_rows(20, 3), "synthetic", 3))


@pytest.mark.parametrize("jobs", [0, -1, 2.5, "3", True, 10**7])
def test_a_number_of_jobs_that_is_none(jobs: object) -> None:
    with pytest.raises(InputError, match="jobs must be a whole number from 1 to 1,000,000, not "):
        synthetic_rows(jobs)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="seed must be a whole number"):
        synthetic_rows(1, -1)
