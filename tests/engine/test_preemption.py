"""Preemption on the engine, by hand."""

import pytest

import netsim
from netsim import Cluster, JobSpec, Workload


@pytest.mark.parametrize("costs_s", [0, 0.1])
@pytest.mark.parametrize("estimate_s", [0.3, 30.0])
def test_what_is_kept_does_not_hang_on_estimates(estimate_s, costs_s):
    """Three rings of 3 iterations of d = 1 + 1 s take turns of 1/2 s on two GPUs.

    Sending 2 * 1 MB * (2 - 1)/2 takes 1 s at 8 Mbps. Each job runs 12 slices, with keep =
    "fraction" nothing is lost, and the last one has its last slice at the end. A slice costs a
    restore, but for the first one, and a checkpoint, but for the last one.
    """
    jobs = [JobSpec(k, 0.0, iterations=3, ranks=2, pattern="ring-all-reduce", nbytes=1e6,
                    compute_s=1.0, estimate_s=estimate_s) for k in range(3)]
    run = netsim.simulate(
        Cluster(servers=2, gpus=1, nic="8Mbps"), Workload(jobs), execution="fabric",
        scheduler={"name": "gandiva-rr", "quantum_s": 0.5},
        preemption={"keep": "fraction", "checkpoint_s": costs_s, "restore_s": costs_s})
    assert run.jobs["preemptions"].tolist() == [11, 11, 11]
    assert run.jobs["lost_gpu_s"].tolist() == [0, 0, 0]
    assert run.jobs["useful_gpu_s"].tolist() == pytest.approx([12, 12, 12])
    # Before the last slice of the last job there were 35 slices.
    assert run.jobs["finish_s"].max() == pytest.approx(18 + 33 * 2 * costs_s)
