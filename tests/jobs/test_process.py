"""Jobs as DAGs: who starts when, and when a job has ended. Ports carry 1 MB/s."""

import pytest

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.errors import InputError

MB = 1e6
NET = netsim.big_switch(4, MB)


def run(*jobs, **options):
    return netsim.simulate(NET, Workload(jobs), **options)


def by_stage(result, column="finish_s"):
    return dict(zip(result.coflows["stage"], result.coflows[column], strict=True))


def test_a_diamond():
    """Stage a (1 s), then b (2 s) beside c (4 s), then d (1 s) after both: 1 + 4 + 1."""
    stages = [Stage("a", [(0, 1, MB)]), Stage("b", [(1, 2, 2 * MB)], after=["a"]),
              Stage("c", [(2, 3, 4 * MB)], after=["a"]), Stage("d", [(3, 0, MB)], after=["b", "c"])]
    result = run(JobSpec(0, stages=stages))
    assert by_stage(result) == {"a": 1, "b": 3, "c": 5, "d": 6}
    assert result.jobs["lower_bound_s"].tolist() == [6]


def test_computation_overlaps_communication():
    """Layers are computed in turn (1 s each); each sends 2 MB as soon as it is computed.

    The first sends from 1 to 2 alone, then two share the port: 2 + 1 = 3 MB left at 2, so it
    ends at 4 (half speed for its last MB); the second has 1 MB left then and ends at 5.
    """
    stages = [Stage("layer-2", compute_s=1), Stage("send-2", [(0, 1, 2 * MB)], after=["layer-2"]),
              Stage("layer-1", compute_s=1, after=["layer-2"]),
              Stage("send-1", [(0, 1, 2 * MB)], after=["layer-1"])]
    result = run(JobSpec(0, stages=stages))
    assert by_stage(result) == {"send-2": 4, "send-1": 5}
    assert by_stage(result, "valid_s") == {"send-2": 1, "send-1": 2}
    assert result.jobs["coflows"].tolist() == [2]
    assert result.jobs["lower_bound_s"].tolist() == [4]


def test_parrot_serves_the_latest_layer_first_where_they_overlap():
    """Section 7: within a job the latest coflow goes first, alone on the port they share.

    send-2 runs from 1 to 2 (1 MB of 2), send-1 from 2 to 4, send-2 ends at 5.
    """
    stages = [Stage("layer-2", compute_s=1), Stage("send-2", [(0, 1, 2 * MB)], after=["layer-2"]),
              Stage("layer-1", compute_s=1, after=["layer-2"]),
              Stage("send-1", [(0, 1, 2 * MB)], after=["layer-1"])]
    assert by_stage(run(JobSpec(0, stages=stages), allocator="parrot")) == {"send-2": 5,
                                                                          "send-1": 4}


def test_an_iteration_waits_for_all_stages_of_the_one_before():
    """Stages of 1 and 3 s side by side, twice: the second round starts at 3."""
    stages = [Stage("short", [(0, 1, MB)]), Stage("long", [(2, 3, 3 * MB)])]
    result = run(JobSpec(0, stages=stages, iterations=2))
    coflows = result.coflows.set_index(["iteration", "stage"])
    assert coflows["valid_s"].tolist() == [0, 0, 3, 3]
    assert result.jobs["finish_s"].tolist() == [6]
    assert coflows["coflow"].tolist() == [0, 1, 2, 3]


def test_a_job_that_ends_with_computation():
    stages = [Stage("send", [(0, 1, MB)]), Stage("apply", compute_s=2, after=["send"])]
    result = run(JobSpec(0, stages=stages, iterations=2))
    assert result.jobs[["finish_s", "lower_bound_s"]].values.tolist() == [[6, 6]]


def test_finishes_before_holds_a_coflow_but_not_its_bytes():
    """It sends its 1 MB from 0 to 1 and completes at 3, with the stage it must outlast."""
    stages = [Stage("long", [(0, 1, 3 * MB)]),
              Stage("held", [(2, 3, MB)], finishes_before=["long"]),
              Stage("next", [(2, 3, MB)], after=["held"])]
    result = run(JobSpec(0, stages=stages), record=["coflows", "flows"])
    assert by_stage(result) == {"long": 3, "held": 3, "next": 4}
    assert result.flows["finish_s"].tolist() == [3, 1, 4]
    assert result.jobs["lower_bound_s"].tolist() == [4]


def test_a_stage_is_not_released_early():
    """Released 5 s after the job's arrival at 1, though its parent ended at 2."""
    stages = [Stage("a", [(0, 1, MB)]), Stage("b", [(0, 1, MB)], after=["a"], release_s=5)]
    result = run(JobSpec(0, 1.0, stages=stages))
    assert by_stage(result, "valid_s") == {"a": 1, "b": 6}
    assert result.jobs[["jct_s", "lower_bound_s"]].values.tolist() == [[6, 6]]


def test_a_long_chain_of_pure_computation():
    """No recursion, however long: 5,000 stages of no time at all."""
    names = [f"s{k}" for k in range(5000)]
    stages = [Stage(name, after=names[max(k - 1, 0):k]) for k, name in enumerate(names)]
    result = run(JobSpec(0, 2.0, stages=stages, ranks=1))
    assert result.jobs["finish_s"].tolist() == [2]
    assert len(result.coflows) == 0


@pytest.mark.parametrize("relation", ["after", "finishes_before"])
def test_a_long_line_listed_last_first(relation):
    """4,000 stages of 1 kB on one port, each depending on the next in the list: 4 s.

    One after the other they take 4 s alone too; held by each other, they run side by side,
    and the bound is that of any one, 1 ms. Neither takes time quadratic in the stages.
    """
    names = [f"s{k}" for k in range(4000)]
    stages = [Stage(name, [(0, 1, MB / 1000)], **{relation: names[k + 1:k + 2]})
              for k, name in enumerate(names)]
    result = run(JobSpec(0, stages=stages))
    bound = 4 if relation == "after" else 0.001
    assert result.jobs[["finish_s", "lower_bound_s"]].values[0] == pytest.approx([4, bound])
    assert len(result.coflows) == 4000


def test_a_repeated_dependency_counts_once():
    stages = [Stage("a", [(0, 1, MB)]), Stage("b", [(0, 1, MB)], after=["a", "a"]),
              Stage("c", [(2, 3, MB)], finishes_before=["b", "b"])]
    assert by_stage(run(JobSpec(0, stages=stages))) == {"a": 1, "b": 2, "c": 2}


def test_a_pattern_that_goes_round_in_circles_is_refused():
    class Circle:
        def stages(self, ranks, nbytes, rng):
            return (Stage("a", after=["b"]), Stage("b", after=["a"]))

    with pytest.raises(InputError, match="dependency cycle among stages a, b"):
        run(JobSpec(0, pattern=Circle(), ranks=2))


def test_first_byte():
    """Aalo without work conservation: job 1 first sends when job 0 has ended."""
    jobs = [JobSpec(0, stages=[Stage("a", [(0, 1, MB)])]),
            JobSpec(1, stages=[Stage("a", [(0, 1, MB)])])]
    result = run(*jobs, allocator={"name": "aalo-lbsf", "work_conservation": "none"})
    assert result.jobs["start_s"].tolist() == [0, 1]
    assert result.coflows["start_s"].tolist() == [0, 1]


def test_redrawn_sizes_change_with_the_iteration_and_are_counted():
    """The lower bound of a redrawn job alone is what it takes: each draw counts once."""
    job = JobSpec(0, iterations=3, pattern="parameter-server", ranks=4, nbytes=MB, redraw=True)
    fixed = JobSpec(0, iterations=3, pattern="parameter-server", ranks=4, nbytes=MB)
    redrawn, same = run(job, allocator="srpt"), run(fixed, allocator="srpt")
    assert redrawn.coflows["bytes"].nunique() == 6
    assert same.coflows["bytes"].nunique() == 2
    assert redrawn.jobs["jct_s"][0] == pytest.approx(redrawn.jobs["lower_bound_s"][0])


def test_placement_is_distinct_seeded_and_per_job():
    """A job's hosts depend on the seed and its id; another job does not shift them."""
    def hosts(seed, *ids):
        jobs = [JobSpec(job, pattern="all-to-all", ranks=3, nbytes=MB) for job in ids]
        flows = run(*jobs, seed=seed, record=["flows"]).flows
        return {job: tuple(rows["src"]) for job, rows in flows.groupby("job")}

    assert hosts(1, 0, 1)[1] == hosts(1, 1)[1]
    assert all(len(set(sources)) == 3 for sources in hosts(1, 0, 1).values())
    assert len({hosts(seed, 1)[1] for seed in range(10)}) > 1


@pytest.mark.parametrize(("job", "message"), [
    (JobSpec(3, pattern="all-to-all", ranks=5, nbytes=1),
     "job 3 needs 5 distinct hosts; .* has 4 hosts"),
    (JobSpec(3, stages=[Stage("a", [(0, 4, 1)])]), "job 3 needs 5 distinct hosts"),
    (JobSpec(3, stages=[Stage("a", [(0, 1, 1)])], hosts=(0, 4)),
     "job 3: host 4 is out of range; network 'big-switch' has 4 hosts, 0 to 3"),
])
def test_jobs_that_do_not_fit(job, message):
    with pytest.raises(InputError, match=message):
        run(job)


def test_ranks_may_share_a_host_where_the_job_says_so():
    """Ranks 0 and 1 both on host 2: their flow is free."""
    job = JobSpec(0, stages=[Stage("a", [(0, 1, MB), (0, 2, MB)])], hosts=(2, 2, 3))
    assert run(job).jobs["finish_s"].tolist() == [1]
