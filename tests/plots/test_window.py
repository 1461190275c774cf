"""Pictures of a part of the time."""

import pytest

import netsim
from netsim.errors import InputError
from netsim.plots.pictures import within

pytestmark = pytest.mark.usefixtures("matplotlib")

MB = 1e6
NET = netsim.big_switch(3, MB)


def job(number, arrival, size, name=""):
    return netsim.JobSpec(number, arrival, hosts=range(3), name=name,
                          stages=[netsim.Stage("c", [(0, 1, size * MB)])])


@pytest.fixture(scope="module")
def compared():
    """2 MB in [0, 2], 4 MB in [2, 6] and 1 MB in [6, 7]."""
    jobs = netsim.Workload([job(0, 0, 2), job(1, 1, 4), job(2, 6, 1)])
    return netsim.compare(NET, jobs, ["fifo", "sebf"], record=["coflows", "links", "decisions"])


def test_what_was_in_a_window(compared):
    """From 1 to 4 s, job 0 ends and job 1 sends 2 of its 4 MB."""
    part = within(compared.results["fifo"], 1, 4)
    assert part.jobs[["job", "arrival_s", "finish_s"]].to_numpy().tolist() == [[0, 1, 2], [1, 1, 4]]
    assert part.coflows[["valid_s", "start_s", "finish_s"]].to_numpy().tolist() == [
        [1, 1, 2], [1, 2, 4]]
    assert part.links.groupby("link", observed=True)["bytes"].sum().tolist() == [3 * MB] * 2
    assert part.decisions["time_s"].between(1, 4).all()


@pytest.mark.parametrize("kind", ["timeline", "gantt", "utilisation"])
def test_pictures_over_time_show_a_part(compared, kind):
    ax = compared.results["fifo"].plot(kind, between=("1s", 4))
    assert {each.get_xlim() for each in ax.figure.axes} == {(1, 4)}
    if kind != "gantt":
        assert compared.plot(kind, between=(1, 4)).get_xlim() == (1, 4)


def test_jobs_that_go_on_when_the_window_or_the_run_ends():
    """4 MB from 0 on, stopped at 3 s."""
    stopped = netsim.simulate(NET, netsim.Workload([job(0, 0, 4)]), until=3)
    assert within(stopped, 1, 2).run["stopped_at_s"] == 2
    assert within(stopped, 1, 9).run["stopped_at_s"] == 3
    ax = stopped.plot("gantt", between=(1, 2))
    [life] = ax.collections[0].get_paths()
    assert (life.vertices[:, 0].min(), life.vertices[:, 0].max()) == (1, 2)


def test_gpus_in_a_window():
    """Two GPUs, for 2 s each: the second job waits for the first."""
    ring = [netsim.JobSpec(k, pattern="ring-all-reduce", ranks=2, nbytes=0, compute_s=2)
            for k in range(2)]
    result = netsim.simulate(netsim.Cluster(1, 2), ring, scheduler="fifo", execution="fabric")
    part = within(result, 1, 3)
    assert part.gpus[["job", "start_s", "end_s"]].drop_duplicates().to_numpy().tolist() == [
        [0, 1, 2], [1, 2, 3]]
    assert part.gpus["reason"].isna().tolist() == [False, False, True, True]
    for kind in ("gpus", "usage"):
        assert result.plot(kind, between=(1, 3)).get_xlim() == (1, 3)


def test_what_cannot_be_asked_for(compared):
    run = compared.results["fifo"]
    for between, problem in (("1s", "two times"), ((1, 2, 3), "two times"), ((2, 1), "not later"),
                             (("x", 1), "between")):
        with pytest.raises(InputError, match=problem):
            run.plot("gantt", between=between)
    with pytest.raises(InputError, match="'cdf' is not over time; between is for: gantt, gpus,"):
        run.plot("cdf", between=(1, 2))
    with pytest.raises(InputError, match="the run ended at"):
        run.plot("gantt", between=(8, 9))
    cloud = netsim.simulate(netsim.EdgeCloud([["a"]]), [netsim.EdgeJob(
        id=0, compute_s=1, worker_type="a", upload_s=1, chunk_bytes=MB, cloud_upload_s=9)])
    with pytest.raises(InputError, match="not on an edge-cloud"):
        cloud.plot("timeline", between=(0, 1))


def test_what_goes_on_does_not_fall_at_the_end_of_a_window(compared):
    """Job 1 is active from 1 to 6 s."""
    ax = compared.results["fifo"].plot("timeline", between=(3, 5))
    times, counts = ax.lines[0].get_data()
    assert [count for time, count in zip(times, counts, strict=True) if time <= 5] == [1]


def test_a_window_after_the_run_is_refused(compared):
    with pytest.raises(InputError, match="between begins at 8 s, and the run ended at 7 s"):
        compared.results["fifo"].plot("timeline", between=(8, 9))
