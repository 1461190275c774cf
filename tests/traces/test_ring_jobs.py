"""Random ring-all-reduce jobs: as many as are said, within the ranges that are said."""

from collections import Counter

import numpy as np
import pytest

import netsim
from netsim.errors import InputError


def test_those_of_section_7():
    jobs = netsim.read_workload("sjf-bco-160").jobs
    assert Counter(job.ranks for job in jobs) == {1: 80, 2: 14, 4: 26, 8: 30, 16: 8, 32: 2}
    iterations = np.array([job.iterations for job in jobs])
    assert 1000 <= iterations.min() < 1200
    assert 5800 < iterations.max() <= 6000
    compute = np.array([job.compute_s for job in jobs])
    assert 0.01 <= compute.min() < 0.012
    assert 0.041 < compute.max() <= 0.0425
    assert [job.estimate_s for job in jobs] == pytest.approx(0.05 * iterations)
    assert {job.nbytes for job in jobs} == {625e6}
    assert sorted(job.ranks for job in jobs) != [job.ranks for job in jobs]


def test_the_seed_draws_all_and_one_more_job_changes_no_other():
    def drawn(seed, **options):
        return [(job.ranks, job.iterations, job.compute_s)
                for job in netsim.read_workload(format="ring-jobs", seed=seed, **options)]

    assert drawn(1) == drawn(1) != drawn(2)
    few, more = ([one[1:] for one in drawn(1, mix={"4": count})] for count in (3, 4))
    assert more[:3] == few


@pytest.mark.parametrize(("options", "message"), [
    ({"mix": {}}, "mix: there are no jobs"),
    ({"mix": [1, 2]}, r"mix must be a table of GPUs to jobs, not \[1, 2\]"),
    ({"mix": {"0": 3}}, "mix: GPUs must be a whole number"),
    ({"mix": {"one": 3}}, "mix: GPUs must be a whole number .* not 'one'"),
    ({"mix": {"1": -3}}, "mix: jobs of 1 GPUs must be a whole number"),
    ({"mix": {"1": 10**9}}, "mix: jobs of 1 GPUs must be a whole number from 0 to 1,000,000"),
    ({"mix": {"9" * 5000: 1}}, "mix: GPUs must be a whole number"),
    ({"iterations": [5, 1]}, "iterations: the least, 5, is more than the most, 1"),
    ({"iterations": 5}, "iterations must be the least and the most, not 5"),
    ({"iterations": [0, 1]}, "iterations must be"),
    ({"compute": ["1s"]}, "compute must be the least and the most"),
    ({"estimate": 0}, "estimate"), ({"length": "-1MB"}, "length"),
])
def test_bad_options(options, message):
    with pytest.raises(InputError, match=message):
        netsim.read_workload(format="ring-jobs", **options)
