"""Edge-clouds: small runs by hand, bad input, results on disk, transports."""

import numpy as np
import pytest

import netsim
from netsim import EdgeCloud, EdgeJob, EdgeWorkload, InputError, UnknownNameError
from netsim.analysis.usage import suspended_jobs
from netsim.edge.schedule import Queues
from netsim.edge.setting import EdgeSetting
from netsim.edge.transport import Constant
from netsim.schedulers.registry import SCHEDULERS, make_scheduler
from netsim.simulation.needs import places_of


def job(number=0, **options):
    return EdgeJob(**{"id": number, "compute_s": 4.0, "upload_s": 1.0, "cloud_upload_s": 50.0}
                   | options)


ONE = EdgeCloud([["a"]], ps=1)


def test_a_shorter_job_preempts_a_longer_one():
    result = netsim.simulate(ONE, [job(0, compute_s=10, worker_type="a"),
                                   job(1, arrival_s=3, compute_s=2, worker_type="a")])
    assert result.jobs["finish_s"].tolist() == [13, 6]
    assert result.training[["job", "start_s", "end_s"]].to_numpy().tolist() == [
        [0, 1, 4], [0, 6, 13], [1, 4, 6]]
    assert result.chunks["preemptions"].tolist() == [1, 0]
    assert result.workers["busy_s"].tolist() == [12]
    assert result.summary()["utilisation"] == pytest.approx(12 / 13)
    # One PS is enough: a job gives it back as it is preempted.
    assert result.ps[["job", "server", "start_s"]].to_numpy().tolist() == [
        [0, 0, 1], [1, 0, 4], [0, 0, 6]]
    assert result.summary()["ps_shortages"] == 0


def test_utilisation_per_slot():
    system = EdgeCloud([["a", "a"]])
    result = netsim.simulate(system, [job(0, compute_s=10, worker_type="a"),
                                      job(1, arrival_s=3, compute_s=2, worker_type="a")])
    found = netsim.edge_utilisation(result, slot=4)
    assert found["slot_s"].tolist() == [0, 4, 8]
    assert found["utilisation"].tolist() == pytest.approx([3 / 8, 6 / 8, 3 / 8])
    with pytest.raises(InputError, match="needs a run on a netsim"):
        netsim.edge_utilisation(netsim.simulate(EdgeCloud([[]]), [job()], scheduler="cloud-only"))


TWO = EdgeCloud([["a", "a"]], cloud=False)


@pytest.mark.parametrize(("chunks", "preemptions", "suspended"), [(1, 1, 0), (2, 2, 1)])
def test_a_job_is_suspended_when_none_of_its_chunks_trains(chunks, preemptions, suspended):
    """Of two chunks that train for 10 s each, one is displaced, and the other goes on; or both."""
    result = netsim.simulate(TWO, [
        job(0, chunks=2, compute_s=10, worker_type="a"),
        job(1, chunks=chunks, arrival_s=3, compute_s=2, worker_type="a")])
    assert result.summary()["preemptions"] == preemptions
    assert suspended_jobs(result) == suspended


def test_a_chunk_in_the_cloud_keeps_its_job_going():
    """Chunk 0 of the first job waits from 8 to 10 s for the second job's, while one is away."""
    result = netsim.simulate(EdgeCloud([["a"]]), [
        job(0, chunks=2, compute_s=9, worker_type="a", cloud_upload_s=2),
        job(1, arrival_s=7, compute_s=2, worker_type="a")])
    assert result.chunks["server"].tolist() == [0, -1, 0]
    assert result.summary()["preemptions"] == 1
    assert suspended_jobs(result) == 0
    alone = result.replace(training=result.training[result.training["server"] >= 0])
    assert suspended_jobs(alone) == 1


def test_a_gang_is_suspended_as_it_is_preempted():
    result = netsim.simulate(TWO, [
        job(0, chunks=4, compute_s=10, worker_type="a", gang=2),
        job(1, chunks=2, arrival_s=3, compute_s=2, worker_type="a", gang=2)], scheduler="srtf")
    assert result.summary()["preempted_workers"] == 2
    assert suspended_jobs(result) == result.summary()["preemptions"] == 1


def test_what_suspensions_are_found_in_must_be_recorded():
    result = netsim.simulate(ONE, [job(worker_type="a")])
    with pytest.raises(InputError, match=r"needs a run on a netsim\.EdgeCloud with training"):
        suspended_jobs(result.replace(training=None))
    with pytest.raises(InputError, match=r"record=\['jobs', 'chunks'\]"):
        suspended_jobs(result.replace(chunks=None))


def test_all_chunks_in_the_cloud_exchange_nothing_over_the_wan():
    only = job(chunks=3, worker_type="a", gradient_bytes=1, bandwidth=2, cloud_upload_s=5)
    result = netsim.simulate(ONE, [only], scheduler="cloud-only")
    assert result.jobs["jct_s"].tolist() == [9]
    assert result.jobs["zeta"].tolist() == [1]
    assert result.summary()["communication_s"] == 15
    assert result.summary()["alpha_total_s"] == result.summary()["beta_integral_s"] == 9


def test_storage_is_released_when_the_whole_job_ends():
    system = EdgeCloud([["a"]], storage=10)
    jobs = [job(k, arrival_s=at, worker_type="a", chunk_bytes=8) for k, at in enumerate((0, 4, 5))]
    result = netsim.simulate(system, jobs)
    assert result.chunks["server"].tolist() == [0, -1, 0]
    assert result.servers["peak_bytes"].tolist() == [8]


ON_EDGE_CLOUDS = [name for name in SCHEDULERS if "edge-cloud" in places_of(make_scheduler(name))
                  and name != "tiresias-g"]  # which needs a history


@pytest.mark.parametrize("scheduler", ON_EDGE_CLOUDS)
def test_every_scheduler_gives_the_same_tables(scheduler, tmp_path):
    system = EdgeCloud([["a", "a"], ["b"]], storage="1GB")
    jobs = [job(k, chunks=2, worker_type="ab"[k % 2], upload_s=[1, 2]) for k in range(4)]
    result = netsim.simulate(system, jobs, scheduler=scheduler)
    again = netsim.load_result(result.save(tmp_path / "run"))
    assert again.summary() == result.summary()
    assert again.recorded == result.recorded
    assert {"jobs", "training", "workers", "servers", "ps"} <= {*again.recorded}
    for name in again.recorded:
        assert getattr(again, name).equals(getattr(result, name)), name
    assert result.run["scheduler"]["name"] == scheduler


def test_parameter_servers_have_types():
    system = EdgeCloud([["a"]], ps=[["small", "large"]])
    result = netsim.simulate(system, [job(worker_type="a", ps_type="large")])
    assert result.ps["ps"].tolist() == [1]
    result = netsim.simulate(system, [job(worker_type="a", ps_type="huge")])
    assert result.ps["server"].tolist() == [-1]
    assert result.summary()["ps_shortages"] == 1


def test_the_seed_draws_parameter_servers_alone():
    system = EdgeCloud([["a"] * 4], ps=8)
    jobs = [job(k, arrival_s=k, worker_type="a") for k in range(8)]
    runs = [netsim.simulate(system, jobs, seed=seed) for seed in (1, 1, 2)]
    assert runs[0].ps.equals(runs[1].ps)
    assert not runs[0].ps.equals(runs[2].ps)
    assert runs[0].chunks.equals(runs[2].chunks)


class Late(Constant):
    """Uploads that take twice the time that schedulers expect."""

    def dispatch(self, job, given):
        super().dispatch(job, given)
        chunks = slice(*self._setting.first[job:job + 2])
        self.queues.ready[chunks] += self._setting.delays[job, 0]


class LateTransport:
    shares_links = False

    def begin(self, setting, sharing):
        return Late(setting)


@pytest.mark.parametrize("transport", [f"{__name__}:LateTransport", LateTransport,
                                       LateTransport()])
def test_a_transport_may_differ_from_what_schedulers_expect(transport):
    result = netsim.simulate(ONE, [job(worker_type="a")], transport=transport)
    assert result.jobs["finish_s"].tolist() == [6]
    assert result.chunks["t_star_s"].tolist() == [1]
    assert result.run["execution"]["transport"] == f"{__name__}:LateTransport"


@pytest.mark.parametrize(("options", "message"), [
    ({"name": 5}, "job 0: name must be a string, not 5"),
    ({"chunks": 0}, "job 0: chunks must be a whole number from 1 to"),
    ({"bandwidth": 0}, "job 0: bandwidth must be greater than 0, not 0"),
    ({"upload_s": [-1.0]}, "job 0: upload_s of server 0 must be at least 0, not -1.0"),
    ({"cloud_upload_s": -1}, "job 0: cloud_upload_s must be at least 0, not -1"),
    ({"compute_s": 0}, "job 0: a mini-batch must take some time"),
    ({"gang": 0}, "job 0: gang must be a whole number of at least 1, not 0"),
    ({"worker_type": 1.5}, "job 0: worker_type must be a name or a number, not 1.5"),
])
def test_jobs_that_cannot_be(options, message):
    with pytest.raises(InputError, match=message):
        job(**options)


@pytest.mark.parametrize(("given", "message"), [
    ({"workers": [], "cloud": False}, "has neither a worker nor a cloud"),
    ({"workers": [["a"]], "storage": [1, 2]}, "storage must have a value for each of the 1 serv"),
    ({"workers": [["a"]], "ps": -1}, "ps of server 0 must be a whole number from 0"),
    ({"workers": [[None]]}, "a type is a name or a number, not None"),
    ({"workers": ["aa", 1]}, "workers must be a list of lists of types, but holds 1"),
    ({"workers": [["a"]], "storage": "-1GB"}, "storage of server 0 must be at least 0"),
])
def test_systems_that_cannot_be(given, message):
    with pytest.raises(InputError, match=message):
        EdgeCloud(**given)


@pytest.mark.parametrize(("system", "specs", "options", "message"), [
    (EdgeCloud([["a"]], cloud=False), {"worker_type": "b"}, {},
     "job 0 needs workers of type 'b'; there is no cloud, and edge-cloud 'edge-cloud' has: 'a'"),
    (ONE, {"worker_type": "b"}, {"scheduler": "srtf"},
     "scheduler 'srtf' needs edge workers: job 0 needs workers of type 'b'; the types of the edge"),
    (EdgeCloud([["a"]], storage=3, cloud=False), {"worker_type": "a", "chunk_bytes": 4}, {},
     "job 0 has 1 chunks of 4 bytes.*hold at most 3 each: storage is too small"),
    (EdgeCloud([["a"]], storage=3), {"worker_type": "a", "chunk_bytes": 2, "chunks": 2},
     {"scheduler": "a-online-e"}, "storage is too small, and no cloud can be used"),
    (EdgeCloud([["a"]], storage=3), {"worker_type": "b", "chunk_bytes": 2},
     {"scheduler": "a-online-e"},
     "scheduler 'a-online-e' needs edge workers: job 0 needs workers of type 'b'; the types of"),
    (EdgeCloud([["a"]], cloud=False), {"worker_type": "a"}, {"scheduler": "cloud-only"},
     "scheduler 'cloud-only' needs a cloud: edge-cloud '.*' has none"),
    (ONE, {"worker_type": "a"}, {"epsilon": -0.1}, "epsilon must be a finite number of at least 0"),
    (ONE, {"worker_type": "a", "upload_s": [1, 2]}, {},
     "job 0: upload_s has 2 delays; the edge-cloud has 1 servers"),
    (ONE, {"worker_type": "a"}, {"placement": "ff", "until": 3},
     "placement: for jobs on a cluster"),
    (ONE, {"worker_type": "a"}, {"scheduler": "tiresias-l", "transport": "x:y"},
     "transport 'x:y' cannot be loaded"),
    (ONE, {"worker_type": "a"}, {"transport": object}, "'object' is not a transport: it needs"),
    (ONE, {"worker_type": "a"}, {"transport": 7}, "7 is not a transport"),
    (ONE, {"worker_type": "a"}, {"transport": LateTransport(), "observe_interval": 1},
     "observe_interval: for transport 'fabric'; with '.*LateTransport' delays and rates are const"),
    (ONE, {"worker_type": "a"}, {"scheduler": {"name": "tiresias-l", "thresholds": [2, 1]}},
     r"thresholds must ascend, unlike \[2, 1\]"),
    (ONE, {"worker_type": "a"}, {"scheduler": "batch:first=0"}, "first must be a finite number"),
])
def test_runs_that_cannot_be(system, specs, options, message):
    with pytest.raises(InputError, match=message):
        netsim.simulate(system, [job(**specs)], **options)


def test_no_room_left_and_no_cloud():
    system = EdgeCloud([["a"]], storage=3, cloud=False)
    jobs = [job(k, worker_type="a", chunk_bytes=2) for k in range(2)]
    with pytest.raises(InputError, match="at 0 s no server has room for chunk 0 of job 1"):
        netsim.simulate(system, jobs)


def test_names_that_do_not_exist():
    with pytest.raises(UnknownNameError, match="did you mean 'a-online'"):
        netsim.simulate(ONE, [job()], scheduler="a-onlin")
    with pytest.raises(UnknownNameError, match="unknown mode"):
        netsim.simulate(ONE, [job()], scheduler="batch:mode=x")
    with pytest.raises(InputError, match="is no scheduler: it needs a method"):
        netsim.simulate(ONE, [job()], scheduler=object())


def test_what_is_for_edge_clouds_alone():
    net = netsim.big_switch(2, "8Mbps")
    stage = netsim.Stage("push", [(0, 1, 1.0)])
    with pytest.raises(InputError, match="epsilon: for jobs on an edge-cloud"):
        netsim.simulate(net, [netsim.JobSpec(0, stages=[stage])], epsilon=0.5)
    with pytest.raises(InputError, match="must be a list of EdgeJob"):
        netsim.simulate(ONE, [netsim.JobSpec(0, stages=[stage])])


def test_chunks_that_no_memory_holds():
    with pytest.raises(InputError, match="job 0: chunks must be a whole number from 1 to 10,000,0"):
        job(chunks=4_000_000_000)
    with pytest.raises(InputError, match="'w' has 12,000,000 chunks; the most that can be simu"):
        EdgeWorkload([job(k, chunks=6_000_000) for k in range(2)], "w")


def test_many_chunks_on_many_workers_take_little_room():
    """Queues are as long as the longest one: 1,000 chunks on as many workers are one each."""
    system = EdgeCloud([["a"] * 1000], cloud=False)
    setting = EdgeSetting(system, [job(chunks=1000, worker_type="a")])
    queues = Queues(setting)
    queues.insert(np.arange(1000), np.arange(1000), np.zeros(1000), 1.0)
    assert queues.queue.shape == (1000, 16)


def test_workloads():
    late, early = job(0, arrival_s="2h"), job(1)
    assert [each.id for each in EdgeWorkload([late, early])] == [1, 0]
    with pytest.raises(InputError, match="two jobs have the id 0"):
        EdgeWorkload([late, late])
    with pytest.raises(InputError, match="has no jobs"):
        EdgeWorkload([])
    with pytest.raises(InputError, match="no cloud"):
        EdgeWorkload([job(worker_type="b")]).check_on(EdgeCloud([["a"]], cloud=False))
    assert np.array_equal(job().delays(3), [1, 1, 1])


def test_a_comparison_says_how_the_edge_was_used():
    """One worker trains in [1, 13], where the later job, in [4, 6], preempts the first one."""
    jobs = [job(0, compute_s=10, worker_type="a"),
            job(1, arrival_s=3, compute_s=2, worker_type="a")]
    compared = netsim.compare(ONE, jobs, schedulers=["a-online", "cloud-only"])
    found = compared.table.set_index("label")[["utilisation", "preemptions", "cloud_share"]]
    assert found.loc["a-online"].tolist() == pytest.approx([12 / 13, 1, 0])
    assert found.loc["cloud-only"].tolist() == [0, 0, 1]
    assert found.loc["lower bound"].isna().all()
    lines = [line.split() for line in str(compared).splitlines()]
    assert "CCT" not in lines[1]
    assert [line[-3:] for line in lines[2:]] == [
        ["92.3%", "1", "0.0%"], ["0.0%", "0", "100.0%"], ["-", "-", "-"]]


@pytest.mark.parametrize("gang", [None, 2])
@pytest.mark.parametrize(("free", "finish_s"), [(6, 1 + 10), (3, 1 + 20)])
def test_batch_gives_a_job_all_that_is_free_whatever_its_gang(gang, free, finish_s):
    """Four chunks of 10 s from the batch at 1 s on: on k = min(4, free) workers, ceil(4 / k) 10 s.

    The golden case of batches says so, in which jobs have gangs.
    """
    system = EdgeCloud([["a"] * free], cloud=False)
    result = netsim.simulate(system, [EdgeJob(id=0, chunks=4, compute_s=10, worker_type="a",
                                              gang=gang)], scheduler="batch:first=1:slot=1s")
    assert result.jobs["finish_s"].tolist() == [finish_s]
    assert result.training["worker"].nunique() == min(4, free)
