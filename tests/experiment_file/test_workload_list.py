"""Experiments whose workload is a list: several jobs together, from one file."""

import json

import pytest

import netsim
from netsim import JobSpec, Workload
from netsim.errors import InputError, SpecError
from netsim.experiment_file.experiment import Experiment, spec_hash

TINY = {"layers": 8, "hidden": 64, "ffn": 256, "heads": 8, "vocab": 1024, "sequence": 32}
LLM = {"llm": TINY, "tp": 2, "dp": 4, "global_batch": 4, "forward_s": [0.001, 0.002, 0.001]}
RING = {"pattern": "ring-all-reduce", "ranks": 4, "nbytes": "1MB", "iterations": 2}
#: Three jobs that all arrive at 0.
RING_OF_THREE = {"format": "ring-jobs", "mix": {"2": 3}, "iterations": [1, 1]}
GPUS = {"kind": "gpu-cluster", "servers": 2, "gpus": 4, "nvlink": "1GB/s", "nic": "100MB/s"}

FILE = """
name = "several"
scheduler = "fifo"
execution = "fabric"
seed = 3
workload = [
    { file = "jobs.json" },
    { llm = "llama-7b", tp = 2, dp = 4, global_batch = 4, arrival = "1ms" },
    { pattern = "ring-all-reduce", ranks = 4, nbytes = "1MB", arrival = "2ms", id_offset = 100 },
]

[network]
kind = "gpu-cluster"
servers = 2
gpus = 4

[cluster]
"""


@pytest.fixture
def several(tmp_path):
    """A file of an explicit instance of two jobs, a language model and a pattern."""
    flow = [{"src": 0, "dst": 1, "bytes": 1e6}]
    (tmp_path / "jobs.json").write_text(json.dumps({"jobs": [
        {"arrival_s": at, "coflows": [flow]} for at in (0, 0.5)]}))
    path = tmp_path / "several.toml"
    path.write_text(FILE)
    return path


def on_gpus(*workload, **others):
    return Experiment(network=GPUS, cluster={}, scheduler="fifo", execution="fabric",
                      workload=list(workload), **others)


def test_jobs_have_the_arrivals_and_ids_that_entries_say(several):
    """Two jobs of the file, 0 and 1; then id 2; then 0 + 100."""
    jobs = netsim.run(netsim.load_experiment(several)).jobs
    assert jobs["job"].tolist() == [0, 2, 100, 1]
    assert jobs["arrival_s"].tolist() == pytest.approx([0, 0.001, 0.002, 0.5])
    assert jobs["ranks"].tolist() == [2, 8, 4, 2]
    assert jobs["finish_s"].notna().all()


def test_two_language_models_one_after_the_other_take_what_each_takes_alone():
    """Both need all 8 GPUs: ends at T and 2 T, where T is that of the job on the network."""
    options = {key: value for key, value in LLM.items() if key != "llm"}
    alone = netsim.simulate(netsim.gpu_cluster(2, 4, "1GB/s", "100MB/s"),
                            [netsim.llm_job(TINY, **options)]).jobs["jct_s"][0]
    jobs = netsim.run(on_gpus(LLM, LLM)).jobs
    assert jobs["finish_s"].tolist() == pytest.approx([alone, 2 * alone], rel=1e-9)


def test_a_list_is_the_sum_of_its_workloads():
    made = on_gpus(LLM, {**RING, "arrival": "3s", "id_offset": 7}).workload.built
    ring = netsim.read_workload(format="pattern", **RING)
    options = {key: value for key, value in LLM.items() if key != "llm"}
    llm = netsim.read_workload(format="llm", model=TINY, **options)
    same = llm + ring.shift("3s", ids=7)
    assert [(job.id, job.arrival_s, job.ranks, job.iterations, job.pattern) for job in made] == [
        (job.id, job.arrival_s, job.ranks, job.iterations, job.pattern) for job in same]


def test_a_language_model_may_have_a_name(tmp_path):
    """That of its job, also when the resolved experiment is read again."""
    experiment = on_gpus({**LLM, "name": "mine"}, LLM, RING)
    assert [job.name for job in experiment.workload.built][:2] == ["mine", "llm"]
    netsim.run(experiment).save(tmp_path / "saved")
    stored = netsim.load_experiment(tmp_path / "saved" / "spec.toml")
    assert [job.name for job in stored.workload.built][:2] == ["mine", "llm"]


def test_a_list_of_one_is_the_table():
    table = Experiment(network=GPUS, workload=RING)
    listed = Experiment(network=GPUS, workload=[RING])
    assert netsim.run(table).jobs.equals(netsim.run(listed).jobs)


def test_results_say_what_was_run_and_run_again(several, tmp_path):
    experiment = netsim.load_experiment(several)
    result = netsim.run(experiment)
    result.save(tmp_path / "saved")
    again = netsim.load_experiment(tmp_path / "saved" / "spec.toml")
    assert netsim.run(again).jobs.equals(result.jobs)
    assert spec_hash(again.resolved()) == spec_hash(experiment.resolved())
    assert "jobs.json + llm + pattern'" in repr(experiment)


def test_entries_take_the_seed_of_the_experiment_unless_they_have_one():
    drawn = {"format": "synthetic", "jobs": 2, "iterations": 1, "length": "1MB"}
    experiment = Experiment(network={"kind": "big-switch", "hosts": 128}, seed=5,
                            workload=[drawn, {**drawn, "seed": 1}])
    assert [entry["seed"] for entry in experiment.resolved()["workload"]] == [5, 1]
    assert experiment.seeded == (("workload", 0),)


def arrivals(*workload, **others):
    """When the three jobs of each entry arrive."""
    jobs = sorted(on_gpus(*workload, **others).workload.built, key=lambda job: job.id)
    return [[job.arrival_s for job in jobs[at:at + 3]] for at in range(0, len(jobs), 3)]


def test_entries_draw_independently_unless_they_have_the_same_seed():
    """The first goes by the seed of the experiment, as a table alone does; the others by places."""
    drawn = {**LLM, "poisson_jobs": 3, "poisson_mean": "1s"}
    first, second, third = found = arrivals(drawn, drawn, drawn)
    assert first != second != third != first
    assert arrivals(drawn) == arrivals({**drawn, "seed": 0}) == [first]
    assert arrivals(RING_OF_THREE, drawn) == [[0.0] * 3, second]  # whatever stands before it
    assert arrivals(drawn, drawn, drawn, seed=1)[1] not in found
    assert arrivals({**drawn, "seed": 1}, {**drawn, "seed": 1})[0] == arrivals(drawn, seed=1)[0]
    one, other = arrivals({**drawn, "seed": 1}, {**drawn, "seed": 1})
    assert one == other


def test_sweeps_vary_keys_of_entries_and_seeds():
    drawn = {"format": "synthetic", "jobs": 2, "iterations": 1, "length": "1MB"}
    experiment = Experiment(network={"kind": "big-switch", "hosts": 128},
                            workload=[drawn, {**RING, "arrival": 1}])
    swept = netsim.sweep_experiment(experiment, {"workload.1.iterations": [1, 3]}, seeds=[0, 1])
    assert swept.table["workload.1.iterations"].tolist() == [1, 1, 3, 3]


@pytest.mark.parametrize(("entries", "message"), [
    ([], "workload: needs at least one entry"),
    ([3], "workload.0: must be a table, not 3"),
    ([RING, {**RING, "id_offset": 0}], "workload.1.id_offset: .* both have a job 0"),
    ([RING, {**LLM, "tp": 3}], "workload.1.tp: llm: heads"),
    ([{**RING, "arrival": -1}], "workload.0.arrival: .*at least 0"),
    ([RING, {**RING, "id_offset": -1}], "workload.1.id_offset"),
    ([{**RING, "colour": 1}], "workload.0.colour: unknown pattern option"),
    ([{"ranks": 4}], "workload.0: give the name"),
    ([{**LLM, "model": "llama-7b"}], "workload.0: give either llm or model, not both"),
])
def test_entries_that_are_refused(entries, message):
    with pytest.raises(SpecError, match=message):
        on_gpus(*entries)


def test_what_cannot_run_on_the_cluster_is_said_before():
    with pytest.raises(SpecError, match=r"preemption.keep: keep must be 'iterations'"):
        on_gpus(RING, LLM, preemption={"keep": "fraction"})
    with pytest.raises(SpecError, match=r"workload.1: job 1: .* a host for each GPU"):
        Experiment(cluster={"servers": 2, "gpus": 4}, workload=[RING, LLM])
    with pytest.raises(SpecError, match=r"workload.1: job 1 needs 16 GPUs"):
        on_gpus(RING, {**RING, "ranks": 16})
    with pytest.raises(SpecError, match=r"workload.2: .* needs rings: job 2"):
        Experiment(network=GPUS, cluster={}, scheduler="sjf-bco", workload=[RING, RING, LLM])
    with pytest.raises(SpecError, match=r"workload.1: .*job 1.*host 99"):
        Experiment(network=GPUS, workload=[RING, {**RING, "hosts": [0, 1, 2, 99]}])


def test_an_edge_cloud_has_one_workload():
    with pytest.raises(SpecError, match="workload: must be a table on an edge-cloud, not a list"):
        Experiment(edge_cloud={"name": "edge-servers-100"}, workload=[{"name": "edge-jobs-300"}])


def test_untrusted_lists_name_no_code_and_no_files_elsewhere(several):
    with pytest.raises(SpecError, match=r"workload.2.pattern: 'mine:Pattern' names code"):
        netsim.load_experiment(several, ["workload.2.pattern=mine:Pattern"], plugins=False)
    several.write_text(FILE.replace("jobs.json", "../jobs.json"))
    with pytest.raises(SpecError, match=r"workload.0.file: '../jobs.json'"):
        netsim.load_experiment(several, plugins=False)


def test_workloads_shift():
    jobs = Workload([JobSpec(k, k, pattern="all-to-all", ranks=2, nbytes=0) for k in range(2)])
    for each in (jobs, Workload.from_arrays([0, 1], [1, 0], "1MB", [0.0, 1.0])):
        later = each.shift("2s", ids=5)
        assert [(job.id, job.arrival_s) for job in later] == [(5, 2.0), (6, 3.0)]
    with pytest.raises(InputError, match="ids must be a whole number"):
        jobs.shift(ids=-1)
    with pytest.raises(InputError, match="time must be at least 0"):
        jobs.shift(-1)
