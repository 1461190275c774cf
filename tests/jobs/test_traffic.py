"""The bytes that jobs send, and that their ranks exchange pair by pair."""

import pytest

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.errors import InputError
from netsim.jobs.plan import MOST_RANKS, bytes_of, traffic_of
from netsim.placements import mapped

TINY = {"layers": 4, "hidden": 64, "ffn": 256, "heads": 2, "vocab": 256, "sequence": 16}


def test_stages_add_up_both_directions():
    """3 + 4 bytes between 0 and 1, and 5 from 2 to 1; what a rank sends itself does not count."""
    job = JobSpec(0, iterations=9, stages=[
        Stage("a", [(0, 1, 3.0), (2, 2, 8.0)]), Stage("b", [(1, 0, 4.0), (2, 1, 5.0)], ranks=[0]),
        Stage("c", compute_s=1)])
    assert traffic_of(job).tolist() == [[0, 7, 0], [7, 0, 5], [0, 5, 0]]


def test_a_coflow_counts_as_often_as_it_is_sent():
    """The bytes of all pairs are twice those of the coflows of an iteration, which a run counts."""
    job = netsim.llm_job(TINY, tp=2, pp=2, dp=2, global_batch=8)
    result = netsim.simulate(netsim.gpu_cluster(2, 4), [job], record=("jobs", "coflows"))
    assert traffic_of(job).sum() == pytest.approx(2 * result.coflows["bytes"].sum(), rel=1e-12)


def test_tensor_parallelism_or_gradients_are_the_heaviest():
    """Of 8 ranks to a replica it is the tensor ring, as one would expect; of 2 the data ring.

    Gradients of a rank with half of the parameters go round it, and only one micro-batch is made.
    """
    for tp, dp, heaviest in ((8, 2, 1), (2, 8, 2)):
        job = netsim.llm_job("llama-7b", tp=tp, dp=dp, global_batch=8)
        assert traffic_of(job)[0].argmax() == heaviest


def test_a_placement_maps_jobs_alike_once(monkeypatch):
    """Two jobs of the same setup on two free servers each: their bytes are added up once."""
    asked = []
    monkeypatch.setattr(mapped, "traffic_of", lambda job: asked.append(job.id) or traffic_of(job))
    jobs = [netsim.llm_job(TINY, id=k, tp=2, dp=4, global_batch=8) for k in range(3)]
    net = netsim.gpu_cluster(4, 4)
    result = netsim.simulate(net, jobs, scheduler="fifo", placement="mapped", execution="fabric")
    assert result.jobs["finish_s"].notna().all()
    assert asked == [0]
    netsim.simulate(net, jobs[:1], scheduler="fifo", placement="mapped", execution="fabric")
    assert asked == [0, 0]  # nothing is left of the run before


def test_what_is_not_known_is_refused():
    with pytest.raises(InputError, match="job 3 has the pattern 'all-to-all', with flows that"):
        traffic_of(JobSpec(3, pattern="all-to-all", ranks=2, nbytes=1))
    with pytest.raises(InputError, match="job 0 has 4,097 ranks; pairs are counted of up to 4,096"):
        traffic_of(JobSpec(0, stages=[Stage("a", [(0, MOST_RANKS, 1.0)])]))


def test_they_are_those_that_a_run_sends():
    """Of stages, of patterns, redrawn or not, of ranks that compute, and of a language model."""
    jobs = Workload([
        JobSpec(0, iterations=3, stages=[Stage("a", [(0, 1, 1e6)]),
                                         Stage("b", [(1, 0, 5e5)], after=["a"])]),
        JobSpec(1, iterations=2, pattern="ring-all-reduce", ranks=4, nbytes="1MB"),
        JobSpec(2, iterations=3, pattern="parameter-server:servers=1", ranks=4, nbytes="1MB"),
        JobSpec(3, iterations=3, pattern="parameter-server:servers=1", ranks=4, nbytes="1MB",
                redraw=True),
        JobSpec(4, iterations=2, stages=[Stage("c", [(0, 1, 2e6)], compute_s=1, ranks=[0, 1])]),
        JobSpec(5, stages=[Stage("w", compute_s=1)]),
        netsim.llm_job("llama-7b", pp=4, dp=2, global_batch=8, id=6)], seed=3)
    sent = netsim.simulate(netsim.big_switch(8, "1GB/s"), jobs).jobs.sort_values("job")["bytes"]
    assert [float(f"{each:.12g}") for each in bytes_of(jobs)] == [
        float(f"{each:.12g}") for each in sent]


def test_columns_are_not_made_into_jobs():
    flows = netsim.Workload.from_arrays([0, 1, 2], [1, 2, 0], [1.0, 2.0, 3.0], [0.0, 2.0, 1.0])
    assert bytes_of(flows).tolist() == [1.0, 3.0, 2.0]  # by arrival
