"""Jobs of a trace as jobs that train models: which, how often, and what is history."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from netsim.errors import InputError, TraceError, UnknownNameError
from netsim.models.catalogue import MODELS, models_for
from netsim.models.mapping import Mapper
from netsim.models.planner import plan_model
from netsim.models.servers import ServerKind
from netsim.traces import check_trace, format_of, read_workload
from netsim.traces.cluster import ClusterConstruction, ClusterJobs, TraceWorkload, recurrent_jobs


def jobs_of(gpus: list[int], group: list[int], duration_s: float = 3600.0) -> ClusterJobs:
    """Return jobs submitted every ten seconds, of a user each."""
    count = len(gpus)
    return ClusterJobs(np.arange(count) * 10.0, np.full(count, duration_s),
                       np.array(gpus, np.int32), np.array(group, np.int32),
                       np.arange(count, dtype=np.int32), count, {"no running time": 0}, {})


def test_iterations_are_the_duration_over_what_one_takes() -> None:
    workload = ClusterConstruction(train=0).workload(jobs_of([1, 2, 8, 16], [0, 1, 2, 3]), "w")
    assert [job.model.gpus for job in workload] == [1, 2, 8, 16]
    mapper = Mapper(ServerKind(8, "10Gbps", "300GB/s"))
    for job in workload:
        alpha = mapper.extremes(job.model)[1]
        assert job.iterations == round(3600 / alpha)
        assert (job.name, job.ranks) == (job.model.name, job.model.gpus)
        assert job.model in models_for(job.model.gpus)
    assert workload.history is None


def test_a_job_has_one_iteration_at_least() -> None:
    workload = ClusterConstruction(train=0).workload(jobs_of([64], [0], 1e-6), "w")
    assert [job.iterations for job in workload] == [1]


def test_merged_iterations_take_as_long_together() -> None:
    """Of n iterations 2^p are one, with 2^p times all that there is to compute and to send."""
    jobs = jobs_of([1, 2, 8, 16], [0, 1, 2, 3])
    plain, few = (ClusterConstruction(train=0, most_iterations=most).workload(jobs, "w")
                  for most in (None, 20))
    mapper = Mapper(ServerKind(8, "10Gbps", "300GB/s"))
    for job, merged in zip(plain, few, strict=True):
        alpha, longer = mapper.extremes(job.model)[1], mapper.extremes(merged.model)[1]
        times = longer / alpha
        assert times == 2 ** round(np.log2(times))
        assert 10 <= merged.iterations == round(job.iterations / times) <= 20
        assert merged.estimate_s == pytest.approx(merged.iterations * longer)
        assert job.estimate_s == pytest.approx(job.iterations * alpha)
        assert merged.model == replace(job.model, stages=[
            replace(stage, forward_s=times * stage.forward_s, backward_s=times * stage.backward_s,
                    in_bytes=times * stage.in_bytes, out_bytes=times * stage.out_bytes,
                    param_bytes=times * stage.param_bytes) for stage in job.model.stages])


def test_jobs_of_few_iterations_are_not_merged() -> None:
    jobs = jobs_of([1, 2, 8, 16], [0, 1, 2, 3])
    plain = ClusterConstruction(train=0).workload(jobs, "w")
    most = max(job.iterations for job in plain)
    same = ClusterConstruction(train=0, most_iterations=most).workload(jobs, "w")
    assert [job.model for job in same] == [job.model for job in plain]


def test_models_may_be_chosen() -> None:
    """With all names nothing changes; a name that needs more GPUs is passed over."""
    jobs = jobs_of([1, 2, 8, 16], [0, 1, 2, 3])
    plain, all_named, few = (
        ClusterConstruction(train=0, models=models).workload(jobs, "w")
        for models in (None, [*MODELS], ["gpt-6.7b", "vgg19"]))
    assert [job.model for job in all_named] == [job.model for job in plain]
    assert few.jobs[0].model.name == "vgg19"
    assert {job.model.name for job in few} <= {"gpt-6.7b", "vgg19"}
    with pytest.raises(InputError, match=r"none of gpt-6\.7b can be trained on 1 GPU, the number"):
        ClusterConstruction(train=0, models=["gpt-6.7b"]).workload(jobs, "w")


def test_planned_configurations_are_drawn_by_group() -> None:
    """Each from those that the planner finds for the construction's GPU and servers."""
    jobs = jobs_of([8] * 400, [k % 100 for k in range(400)])
    build = ClusterConstruction(train=0, configurations="planned", gpu="v100", base_nic="25Gbps")
    workload = build.workload(jobs, "w", seed=3)
    models = {job.group: job.model for job in workload}
    assert all(job.model is models[job.group] for job in workload)
    kind = ServerKind(8, "25Gbps", "300GB/s")
    plans = {name: [plan.model for plan in plan_model(name, 8, gpu="v100", server=kind)]
             for name in MODELS}
    assert all(model in plans[model.name] for model in models.values())
    assert {model.name for model in models.values()} == {name for name in MODELS if plans[name]}
    several = [name for name in MODELS
               if len({model for model in models.values() if model.name == name}) > 1]
    assert len(several) >= 5
    same = ClusterConstruction(train=0).workload(jobs, "w", seed=3)
    assert [job.group for job in same] == [job.group for job in workload]


def test_plans_may_be_for_gpus_apart() -> None:
    jobs = jobs_of([16] * 40, list(range(40)))
    workload = ClusterConstruction(train=0, configurations="planned-apart", models=["vgg19"]
                                   ).workload(jobs, "w")
    assert {job.model for job in workload} == {
        plan.model for plan in plan_model("vgg19", 16, apart=True)}


def test_no_plan_for_so_many_gpus() -> None:
    with pytest.raises(InputError, match=r"none of bert-large can be trained on 200 GPUs"):
        ClusterConstruction(train=0, configurations="planned", models=["bert-large"]).workload(
            jobs_of([200], [0]), "w")


def test_iterations_may_be_scaled() -> None:
    """Of 3600 s a tenth remains, and of arrivals; the history counts iterations likewise."""
    jobs = jobs_of([1, 2, 8, 16] * 5, list(range(20)))
    plain, scaled = (ClusterConstruction(train=0.5, **options).workload(jobs, "w") for options in (
        {}, {"iteration_scale": 0.1, "arrival_scale": 0.1}))
    for one, other in zip(plain, scaled, strict=True):
        assert (one.model, one.id) == (other.model, other.id)
        assert other.iterations == pytest.approx(one.iterations / 10, abs=0.6)
        assert other.arrival_s == pytest.approx(one.arrival_s / 10)
    assert scaled.history.iterations == pytest.approx(plain.history.iterations / 10, abs=0.6)
    least = ClusterConstruction(train=0, iteration_scale=1e-9).workload(jobs, "w")
    assert {job.iterations for job in least} == {1}


def test_a_sample_is_of_consecutive_jobs_after_the_history() -> None:
    jobs = jobs_of([1] * 100, [k % 7 for k in range(100)])
    every = ClusterConstruction(train=0.5).workload(jobs, "w", seed=1)
    starts = set()
    for seed in range(5):
        some = ClusterConstruction(train=0.5, sample=20).workload(jobs, "w", seed=seed)
        ids = [job.id for job in some]
        assert ids == list(range(ids[0], ids[0] + 20))
        assert 50 <= ids[0] <= 80
        assert [job.arrival_s for job in some] == [10.0 * k for k in ids]
        assert some.dropped["outside of the sample"] == 30
        assert len(some.history) == 50
        starts.add(ids[0])
    assert len(starts) > 2
    whole = ClusterConstruction(train=0.5, sample=50).workload(jobs, "w", seed=1)
    assert [(job.id, job.iterations, job.model) for job in whole] == [
        (job.id, job.iterations, job.model) for job in every]
    with pytest.raises(InputError, match="sample = 51 jobs are more than the 50 that are not"):
        ClusterConstruction(train=0.5, sample=51).workload(jobs, "w")


@pytest.mark.parametrize("share", [0, 0.25, 0.8, 1])
def test_the_share_of_jobs_on_one_gpu_may_be_set(share: float) -> None:
    """The others keep their numbers, or get those of jobs of the trace that have several."""
    sizes = [1, 1, 1, 4, 16] * 80
    jobs = jobs_of(sizes, [k % 200 for k in range(400)])
    workload = ClusterConstruction(train=0, single_gpu_share=share).workload(jobs, "w", seed=2)
    gpus = [job.ranks for job in workload]
    assert gpus.count(1) == 400 * share
    assert set(gpus) <= {1, 4, 16}
    groups: dict[int, set[int]] = {}
    for job, own in zip(workload, sizes, strict=True):
        groups.setdefault(job.group, set()).add(job.ranks)
        assert own == 1 or job.ranks in (1, own)
    assert all(len(numbers) == 1 for numbers in groups.values())
    assert [job.arrival_s for job in workload] == jobs.submit_s.tolist()


def test_no_number_of_gpus_to_draw_from() -> None:
    jobs = jobs_of([1, 1, 1, 1], [0, 1, 2, 3])
    with pytest.raises(InputError, match=r"single_gpu_share = 0\.5: no job of the trace has"):
        ClusterConstruction(train=0, single_gpu_share=0.5).workload(jobs, "w")
    assert len(ClusterConstruction(train=0, single_gpu_share=1).workload(jobs, "w")) == 4


def test_a_faster_network_makes_more_iterations_of_the_same_time() -> None:
    jobs = jobs_of([16] * 8, list(range(8)))
    slow, fast = (ClusterConstruction(train=0, base_nic=nic).workload(jobs, "w")
                  for nic in ("1Gbps", "100Gbps"))
    assert [job.model for job in slow] == [job.model for job in fast]
    assert all(a.iterations < b.iterations for a, b in zip(slow, fast, strict=True))


def test_jobs_of_a_group_train_the_same_whatever_else_there_is() -> None:
    many = jobs_of([4] * 300, [k % 30 for k in range(300)])
    workload = ClusterConstruction(train=0).workload(many, "w", seed=3)
    models = {job.group: job.model for job in workload}
    assert all(job.model is models[job.group] for job in workload)
    assert len(set(models.values())) > 1
    few = ClusterConstruction(train=0, limit=40).workload(many, "w", seed=3)
    assert all(job.model == models[job.group] for job in few)
    other = ClusterConstruction(train=0).workload(many, "w", seed=4)
    assert [job.model for job in other] != [job.model for job in workload]


def test_the_first_share_is_history() -> None:
    """0.29 of 100 are 29, though 0.29 * 100 is less; ids and arrivals stay as they are."""
    jobs = jobs_of([1] * 100, [k % 7 for k in range(100)])
    workload = ClusterConstruction(train=0.29, arrival_scale=2).workload(jobs, "w", seed=1)
    every = ClusterConstruction(train=0, arrival_scale=2).workload(jobs, "w", seed=1)
    assert (len(workload), len(workload.history)) == (71, 29)
    assert [job.id for job in workload] == list(range(29, 100))
    assert [job.arrival_s for job in workload] == [20.0 * k for k in range(29, 100)]
    first = every.jobs[:29]
    assert workload.history.iterations.tolist() == [job.iterations for job in first]
    assert workload.history.group.tolist() == [job.group for job in first]
    assert workload.history.user.tolist() == [job.user for job in first]
    # By which tiresias-g knows the jobs that come.
    assert workload.history.gpu_s.tolist() == pytest.approx(
        [job.ranks * job.estimate_s for job in first])
    assert [job.iterations for job in workload] == [job.iterations for job in every.jobs[29:]]


def test_limit_and_max_gpus_are_counted() -> None:
    jobs = jobs_of([1, 64, 2, 8, 1], [0] * 5)
    workload = ClusterConstruction(train=0, max_gpus=8, limit=3).workload(jobs, "w")
    assert [job.ranks for job in workload] == [1, 2, 8]
    assert workload.dropped == {"no running time": 0, "more GPUs than max_gpus": 1,
                                "beyond limit": 1}
    with pytest.raises(InputError, match="max_gpus = 1 leaves none of 2 jobs: all have more GPUs, "
                       "at least 2"):
        ClusterConstruction(max_gpus=1).workload(jobs_of([2, 4], [0, 0]), "w")
    with pytest.raises(InputError, match=r"train = 0\.8 of 1 jobs leaves none as history"):
        ClusterConstruction(limit=1).workload(jobs, "w")


def test_a_file_whose_jobs_do_not_suit_the_options_is_named(trace) -> None:
    with pytest.raises(TraceError, match=r"helios-sample\.csv: train = 0\.8 of 1 jobs leaves none"):
        read_workload(trace("helios"), format="helios", limit=1)


@pytest.mark.parametrize(("options", "message"), [
    ({"limit": 0}, "limit must be a whole number from 1 to 1,000,000,000,000,000, not 0"),
    ({"limit": 5.0}, "limit must be a whole number .* not 5.0"),
    ({"max_gpus": 1.5}, "max_gpus must be a whole number .* not 1.5"),
    ({"gpus_per_server": None}, "gpus_per_server must be a whole number .* not None"),
    ({"train": 1}, r"train must be a number in \[0, 1\), not 1"),
    ({"train": -0.1}, r"train must be a number in \[0, 1\), not -0.1"),
    ({"most_iterations": 30}, "most_iterations is for .*: set train = 0, not 0.8"),
    ({"most_iterations": 0, "train": 0}, "most_iterations must be a whole number"),
    ({"models": "vgg19"}, "models must be a list of names, not 'vgg19'"),
    ({"models": []}, "models must be a list of names"),
    ({"models": 3}, "models must be a list of names, not 3"),
    ({"models": ["vgg-19"]}, "unknown model 'vgg-19'"),
    ({"train": "most"}, "train must be .* not 'most'"),
    ({"arrival_scale": float("nan")}, "arrival_scale must be .* not nan"),
    ({"iteration_scale": 0}, "iteration_scale must be .* not 0"),
    ({"sample": 0}, "sample must be a whole number from 1"),
    ({"single_gpu_share": 2}, "single_gpu_share must be a number from 0 to 1, not 2"),
    ({"configurations": "plan"}, "unknown configurations 'plan' .did you mean 'planned'"),
    ({"gpu": "p100"}, "unknown GPU 'p100'"),
    ({"gpu": {"flops": 1e12}}, "gpu needs: memory"),
    ({"base_nic": 0}, "base_nic must be greater than 0"),
    ({"intra": "1 apple"}, "intra '1 apple'"),
    ({"seed": -1}, "seed must be a whole number"),
])
def test_options_out_of_range(trace, options: dict[str, object], message: str) -> None:
    for name in ("helios", "recurrent"):
        with pytest.raises(InputError, match=message):
            read_workload(trace(name) if name == "helios" else None, format=name, **options)


def test_options_go_by_format(trace) -> None:
    with pytest.raises(UnknownNameError, match="unknown helios option 'instances'"):
        read_workload(trace("helios"), format="helios", instances=True)
    for name in ("pai", "pai-100k", "philly", "helios", "acme", "gpu-v2023", "swf",
                 "tiresias-cluster", "recurrent"):
        assert {"limit", "train", "max_gpus", "arrival_scale", "base_nic", "intra", "sample",
                "gpus_per_server", "gpu", "configurations", "iteration_scale",
                "single_gpu_share"} <= set(format_of(name).options)
        assert "length" not in format_of(name).options


def test_a_workload_keeps_its_account(trace) -> None:
    workload = read_workload(trace("pai"), format="pai", train=0)
    assert isinstance(workload, TraceWorkload)
    for copy in (replace(workload, name="other"), pickle.loads(pickle.dumps(workload))):
        assert (copy.read, copy.dropped, copy.notes) == (
            workload.read, workload.dropped, workload.notes)
    drawn = read_workload(trace("pai"), format="pai", train=0.5, poisson_jobs=4, poisson_mean="1s")
    assert (len(drawn), len(drawn.history), drawn.read) == (4, 1, 11)
    facts = check_trace(trace("pai"), "pai", train=0, poisson_jobs=4, poisson_mean="1s").facts
    assert dict(facts)["jobs"] == 4


def test_a_job_must_not_be_larger_than_can_be_mapped() -> None:
    jobs = jobs_of([1, 5000, 1], [0] * 3)
    with pytest.raises(InputError, match=r"a job asks for 5,000 GPUs, .* for at most 4,096; give "
                       "max_gpus"):
        ClusterConstruction(train=0).workload(jobs, "w")
    assert len(ClusterConstruction(train=0, max_gpus=4096).workload(jobs, "w")) == 2


def test_drawn_jobs_go_the_same_way() -> None:
    jobs = recurrent_jobs(200, seed=5)
    assert ClusterConstruction().workload(jobs, "w", 5).history.iterations.tolist() == (
        read_workload(format="recurrent", jobs=200, seed=5).history.iterations.tolist())
