"""Stragglers: what waits for slow hosts, and what does not. Ports carry 1 MB/s."""

import numpy as np
import pytest

import netsim
from netsim import JobSpec, ModelStage, ParallelModel, Stage
from netsim.errors import InputError
from netsim.jobs.stragglers import slowed_model, slowed_stages

MB = 1e6
NET = netsim.big_switch(4, MB)


def finish(jobs, stragglers, **options):
    jobs = [jobs] if isinstance(jobs, JobSpec) else jobs
    return netsim.simulate(NET, jobs, stragglers=stragglers, **options).jobs["finish_s"].tolist()


@pytest.mark.parametrize("allocator", ["maxmin", "parrot", "ring-contention:count=running"])
def test_a_factor_of_two_doubles_what_is_computed_and_nothing_else(allocator):
    """Of a ring on hosts 0 and 1: 3 (2 s + 1 s), and with host 1 half as fast 3 (4 s + 1 s)."""
    ring = JobSpec(0, pattern="ring-all-reduce", ranks=2, nbytes=MB, compute_s=2, iterations=3,
                   hosts=(0, 1))
    assert finish(ring, None, allocator=allocator) == pytest.approx([9])
    assert finish(ring, {1: 2}, allocator=allocator) == pytest.approx([15])
    assert finish(ring, {1: 1.5, 0: 2.0}, allocator=allocator) == pytest.approx([15])
    assert finish(ring, {2: 5}, allocator=allocator) == pytest.approx([9])


def test_who_only_receives_is_not_waited_for():
    """Workers 0 and 1 push to 2, which computes for 1 s and pulls: 2 + 2 + 1 + 2 s."""
    job = JobSpec(0, hosts=(0, 1, 2), stages=[
        Stage("push", [(0, 2, MB), (1, 2, MB)], compute_s=2),
        Stage("pull", [(2, 0, MB), (2, 1, MB)], compute_s=1, after=["push"])])
    assert finish(job, None) == [7]
    assert finish(job, {1: 2}) == [9]
    assert finish(job, {2: 2}) == [8]


def test_what_sends_nothing_waits_for_all():
    job = JobSpec(0, hosts=(0, 1), stages=[Stage("think", compute_s=3),
                                           Stage("send", [(0, 1, MB)], after=["think"])])
    assert finish(job, {1: 2}) == [7]


def test_jobs_of_one_coflow_and_jobs_elsewhere():
    """Job 0 is slow and job 1 is not; both are as without a process of their own."""
    jobs = [JobSpec(k, stages=[Stage("send", [(0, 1, MB)], compute_s=1)], compute_s=1,
                    hosts=(2 * k, 2 * k + 1)) for k in range(2)]
    assert finish(jobs, {0: 3}) == [7, 3]


def test_a_lower_bound_counts_them():
    job = JobSpec(0, stages=[Stage("send", [(0, 1, MB)], compute_s=1)], hosts=(0, 1), iterations=2)
    result = netsim.simulate(NET, [job], stragglers={0: 2})
    assert result.jobs[["finish_s", "lower_bound_s"]].values.tolist() == [[6, 6]]


def test_only_the_slow_stage_of_a_pipeline_is_slow():
    """Forward 1 + 2 s and backward 3 + 4 s; rank 1, the second stage, is twice as slow.

    Forward 1 s, 1 MB on, 2 s twice as long, then backward of the second stage, twice 4 s, 1 MB
    back, 3 s: 1 + 1 + 4 + 8 + 1 + 3, of which 6 are lost.
    """
    model = ParallelModel([ModelStage(forward_s=1, backward_s=3, out_bytes=MB),
                           ModelStage(forward_s=2, backward_s=4, in_bytes=MB)], micro_batches=1)
    job = JobSpec(0, model=model, hosts=(0, 1))
    assert finish(job, None) == [12]
    assert finish(job, {1: 2}) == [18]
    assert finish(job, {0: 2}) == [16]
    slow = slowed_model(model, np.array([1.0, 2.0]))
    assert [(stage.forward_s, stage.backward_s) for stage in slow.stages] == [(1, 3), (4, 8)]
    assert slowed_model(model, np.ones(2)) is model


def test_redrawn_sizes_stay_as_they_are():
    job = JobSpec(0, pattern="parameter-server", ranks=3, nbytes=MB, compute_s=1, iterations=3,
                  redraw=True, hosts=(0, 1, 2))
    usual, slow = (netsim.simulate(NET, [job], stragglers=each) for each in (None, {0: 2, 1: 2,
                                                                                    2: 2}))
    np.testing.assert_array_equal(usual.coflows["bytes"], slow.coflows["bytes"])
    assert slow.jobs["finish_s"][0] == pytest.approx(usual.jobs["finish_s"][0] + 3)


def test_stages_stay_the_same_where_nobody_is_slow():
    stages = (Stage("send", [(0, 1, 1.0)], compute_s=1),)
    assert slowed_stages(stages, np.ones(2)) is stages


@pytest.mark.parametrize(("stragglers", "message"), [
    ([2.0], r"stragglers must be a mapping of hosts to factors, not \[2.0\]"),
    ({4: 2.0}, "stragglers: there is no host 4; there are 4, numbered from 0"),
    ({"0": 2.0}, "stragglers: network .* has no host '0'; it has 4"),
    ({0: 0.5}, "the factor of host 0 must be a finite number of at least 1, not 0.5"),
    ({0: float("inf")}, "at least 1, not inf"),
    ({0: True}, "at least 1, not True"),
])
def test_refused(stragglers, message):
    with pytest.raises(InputError, match=message):
        finish(JobSpec(0, stages=[Stage("think", compute_s=1)]), stragglers)
