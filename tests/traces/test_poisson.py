"""Poisson arrivals of sampled jobs (Parrot, Section 6.1)."""

from __future__ import annotations

import numpy as np
import pytest

from netsim.errors import InputError, UnitError
from netsim.traces import poisson_resample, read_workload, synthetic
from netsim.workload import Workload
from netsim.workload.columns import Flows
from netsim.workload.job import JobSpec, Stage

SOURCE = synthetic(10, seed=1)


def test_jobs_are_sampled_with_replacement() -> None:
    drawn = poisson_resample(SOURCE, jobs=40, seed=2)
    assert [job.id for job in drawn] == list(range(40))
    known = {(job.iterations, job.nbytes, job.ranks, job.name) for job in SOURCE}
    got = {(job.iterations, job.nbytes, job.ranks, job.name) for job in drawn}
    assert got <= known
    assert len(got) > 1
    assert (drawn.name, drawn.seed) == (SOURCE.name, SOURCE.seed)


def test_every_job_is_as_likely() -> None:
    """Of 10,000 draws from ten, each gets 1,000 with standard deviation 30."""
    source = Workload(tuple(JobSpec(k, iterations=k + 1, pattern="p", ranks=1) for k in range(10)))
    drawn = poisson_resample(source, jobs=10_000, seed=0)
    counts = np.bincount([job.iterations for job in drawn])[1:]
    assert len(counts) == 10
    assert abs(counts - 1000).max() < 150


def test_gaps_are_exponential() -> None:
    """Mean and standard deviation mu; P(gap > mu) = 1/e; the first gap is before the first job."""
    arrivals = [job.arrival_s for job in poisson_resample(SOURCE, 20_000, "100ms", seed=3)]
    gaps = np.diff([0.0, *arrivals])
    assert gaps.min() > 0
    assert gaps.mean() == pytest.approx(0.1, rel=0.03)
    assert gaps.std() == pytest.approx(0.1, rel=0.03)
    assert (gaps > 0.1).mean() == pytest.approx(np.exp(-1), abs=0.02)


def test_streams_are_apart(facts) -> None:
    few, many = (facts(poisson_resample(SOURCE, jobs, seed=5)) for jobs in (30, 90))
    assert many[:30] == few
    assert facts(poisson_resample(SOURCE, 30, seed=5)) == few
    assert facts(poisson_resample(SOURCE, 30, seed=6)) != few
    slow = poisson_resample(SOURCE, 30, "1s", seed=5)
    assert [job.name for job in slow] == [row[-1] for row in few]
    assert [job.arrival_s for job in slow] == pytest.approx([2 * row[1] for row in few])


def test_explicit_coflow_ids_are_dropped() -> None:
    """A job that is sampled twice must not bring one coflow id twice."""
    stage = Stage("a", Flows.of([(0, 1, 5.0)]), weight=2.0, coflow_id=9)
    drawn = poisson_resample(Workload((JobSpec(3, stages=(stage,), hosts=(4, 6)),)), jobs=2)
    assert [job.stages[0].coflow_id for job in drawn] == [None, None]
    assert drawn.jobs[1].stages[0].flows is stage.flows
    assert (drawn.jobs[1].stages[0].weight, drawn.jobs[1].hosts) == (2.0, (4, 6))


@pytest.mark.parametrize("source", ["parrot-fig2", "parrot-60", None])
def test_every_format_can_be_resampled(source: str | None, sample) -> None:
    source = source or sample
    drawn = read_workload(source, seed=4, poisson_jobs=7, poisson_mean="2s")
    plain = poisson_resample(read_workload(source, seed=4), 7, "2s", seed=4)
    assert [job.arrival_s for job in drawn] == [job.arrival_s for job in plain]
    assert [job.nbytes for job in drawn] == [job.nbytes for job in plain]
    assert len(drawn) == 7


def test_both_options_or_neither() -> None:
    for half in ({"poisson_jobs": 3}, {"poisson_mean": "1s"}):
        with pytest.raises(InputError, match="both or neither of poisson_jobs and poisson_mean"):
            read_workload("parrot-60", **half)


def test_arguments_out_of_range() -> None:
    with pytest.raises(InputError, match="jobs must be a whole number from 1 to 1,000,000, not 0"):
        poisson_resample(SOURCE, jobs=0)
    with pytest.raises(InputError, match=r"seed must be a whole number .* not -1"):
        poisson_resample(SOURCE, seed=-1)
    with pytest.raises(UnitError, match="mean_interarrival must be greater than 0, not '0s'"):
        poisson_resample(SOURCE, mean_interarrival="0s")
    with pytest.raises(InputError, match="mean_interarrival must be at most 1e"):
        poisson_resample(SOURCE, jobs=9, mean_interarrival=1e308)
