"""Decisions by an order: counting GPUs is the same as trying to place jobs."""

import pytest

import netsim
from netsim.placements.mapped import MappedPlacement


class Trying(MappedPlacement):
    """The same placement, which does not say that any free GPUs do."""

    refuses = True


@pytest.mark.parametrize("scheduler", ["srtf", "srtf:backfill=false", "tiresias", "las"])
def test_counting_decides_as_placing_does(scheduler):
    jobs = netsim.read_workload(format="recurrent", jobs=60, train=0, max_gpus=16,
                                mean_interarrival="10s", most_iterations=8, seed=2)
    runs = [netsim.simulate(netsim.Cluster(servers=2, gpus=8, nic="10Gbps"), jobs,
                            scheduler=scheduler, placement=placement(servers="most"),
                            execution="asrpt",
                            preemption={"keep": "fraction", "restore_s": 10, "checkpoint_s": 5})
            for placement in (MappedPlacement, Trying)]
    counted, tried = (run.gpus.to_dict("list") for run in runs)
    assert counted == tried
    assert runs[0].jobs["preemptions"].sum() > 0
