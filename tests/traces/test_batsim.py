"""Workloads of Batsim: the jobs that they amount to, and what is refused."""

import json

import pytest

import netsim
from netsim.errors import InputError, TraceError
from netsim.traces import check_trace, read_workload

WORKLOAD = {
    "nb_res": 4,
    "jobs": [
        {"id": "wait", "subtime": 0, "walltime": 30, "res": 1, "profile": "delay"},
        {"id": "cut", "subtime": 2, "walltime": 5, "res": 1, "profile": "delay"},
        {"id": "matrix", "subtime": 1.5, "res": 2, "profile": "simple", "dependencies": ["wait"]},
        {"id": "each", "subtime": 3, "walltime": -1, "res": 3, "profile": "homogeneous"},
        {"id": "all", "subtime": 3, "res": 3, "profile": "total"},
        {"id": "new", "subtime": 3, "res": 3, "profile": "spread"},
        {"id": "turns", "subtime": 4, "walltime": 100, "res": 2, "profile": "sequence"}],
    "profiles": {
        "delay": {"type": "delay", "delay": 20.25},
        "simple": {"type": "parallel", "cpu": [5e6, 2e6], "com": [7e6, 0, 3e6, 0], "np": 2},
        "homogeneous": {"type": "parallel_homogeneous", "cpu": 1e7, "com": 1e6},
        "total": {"type": "parallel_homogeneous_total", "cpu": 3e7, "com": 3e6},
        "spread": {"type": "ParallelTaskHomogeneousProfile", "cpu": 0, "com": 6e6,
                   "generation_strategy": "DefinedAmountsSpreadUniformly"},
        "sequence": {"type": "composed", "repeat": 4, "seq": ["simple", "inner"]},
        "inner": {"type": "SequentialCompositionProfile", "repeat": 2, "seq": ["delay"]}}}


@pytest.fixture
def write(tmp_path):
    def written(document):
        path = tmp_path / "w.json"
        path.write_text(json.dumps(document, indent=1))
        return path
    return written


def stages(job):
    """The name, seconds, flows and predecessors of each stage."""
    return [(stage.name, stage.compute_s, stage.flows and list(zip(
        stage.flows.src.tolist(), stage.flows.dst.tolist(), stage.flows.nbytes.tolist(),
        strict=True)), list(stage.after)) for stage in job.stages]


def changed(where, value):
    """Return the workload with another value at a path."""
    document = json.loads(json.dumps(WORKLOAD))
    *around, last = where
    place = document
    for key in around:
        place = place[key]
    place[last] = value
    return document


def test_jobs(write):
    workload = read_workload(write(WORKLOAD), format="batsim", speed=1e6)
    jobs = {job.name: job for job in workload}
    assert [(job.id, job.name, job.arrival_s, job.ranks, job.estimate_s) for job in workload] == [
        (0, "wait", 0, 1, 30), (2, "matrix", 1.5, 2, None), (1, "cut", 2, 1, 5),
        (3, "each", 3, 3, None), (4, "all", 3, 3, None), (5, "new", 3, 3, None),
        (6, "turns", 4, 2, 100)]
    assert stages(jobs["wait"]) == [("compute-0", 20.25, None, [])]
    assert stages(jobs["cut"]) == [("compute-0", 5, None, [])]
    assert stages(jobs["matrix"]) == [
        ("compute-0", 5, None, []), ("send-0", 0, [(1, 0, 3e6)], [])]
    pairs = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    for name, compute_s in (("each", 10), ("all", 10), ("new", 0)):
        *before, (_, _, flows, _) = stages(jobs[name])
        assert [each[1] for each in before] == [compute_s] * (compute_s > 0)
        assert flows == [(*pair, 1e6) for pair in pairs]
    assert jobs["turns"].iterations == 4
    assert stages(jobs["turns"]) == [
        ("compute-0", 5, None, []), ("send-0", 0, [(1, 0, 3e6)], []),
        ("compute-1", 20.25, None, ["compute-0", "send-0"]),
        ("compute-2", 20.25, None, ["compute-1"])]


def test_a_run(write):
    """Rank 0 computes 5 s, while 3 MB take 3 s at 1 MB/s; then it waits twice: 45.5 s, 4 times."""
    document = WORKLOAD | {"jobs": [WORKLOAD["jobs"][2] | {"id": 7}, WORKLOAD["jobs"][6]
                                    | {"id": 12, "subtime": 100}]}
    workload = read_workload(write(document), format="batsim", speed=1e6)
    result = netsim.simulate(netsim.big_switch(2, "1MB/s"), workload, allocator="maxmin")
    assert result.jobs.sort_values("job")["job"].tolist() == [7, 12]
    assert result.jobs.sort_values("job")["jct_s"].tolist() == pytest.approx([5, 182])


#: A cluster of SimGrid as Batsim's own tests use it, of five hosts.
PLATFORM = """<platform version="4.1"><cluster id="A" prefix="a" suffix="" radical="0-4"
speed="1Gf" bw="1GBps" lat="5us" bb_bw="3GBps" bb_lat="3us"/></platform>"""

PAIR, ALL = "DefinedAmountsUsedForEachValue", "DefinedAmountsSpreadUniformly"
ROW = [0, 1e10, 0, 0]


@pytest.mark.parametrize(("ranks", "profile", "seconds"), [
    (4, {"type": "ParallelTaskHomogeneousProfile", "cpu": 1e10, "com": 0}, 10),
    (2, {"type": "parallel_homogeneous", "cpu": 0, "com": 1e10}, 10.000013),
    (2, {"type": "ParallelTaskHomogeneousProfile", "com": 2e10, "generation_strategy": ALL},
     10.000013),
    (5, {"type": "ParallelTaskHomogeneousProfile", "com": 3e9, "generation_strategy": PAIR},
     20.000013),
    (5, {"type": "ParallelTaskHomogeneousProfile", "com": 6e10, "generation_strategy": ALL},
     20.000013),
    (4, {"type": "parallel", "cpu": [1e10, 0, 0, 0], "com": [0] * 16}, 10),
    (4, {"type": "parallel", "cpu": [2e9] * 4, "com": [*ROW, *[0] * 12]}, 10.000013),
    (1, {"type": "delay", "delay": 10}, 10)])
def test_the_times_that_batsim_gives(write, tmp_path, ranks, profile, seconds):
    """The cases and the times of Batsim's own tests of homogeneous tasks, and others like them.

    A host computes 1e9 operations a second. Of two hosts, each sends 10 GB at 1 GB/s. Of five, 20
    flows of 3 GB share the backbone's 3 GB/s, less than the 5 GB/s of their links: 20 s. Routes
    cross two links of 5 us and one of 3 us.
    """
    (tmp_path / "p.xml").write_text(PLATFORM)
    path = write({"nb_res": 5, "profiles": {"p": profile}, "jobs": [
        {"id": 1, "subtime": 0, "walltime": 30, "res": ranks, "profile": "p"}]})
    workload = read_workload(path, format="batsim", speed=1e9)
    done = netsim.simulate(netsim.read_network(tmp_path / "p.xml"), workload, allocator="maxmin")
    assert done.jobs["jct_s"].tolist() == pytest.approx([seconds], rel=1e-9)


def test_other_readers_say_what_it_is(write):
    with pytest.raises(TraceError, match='a workload of Batsim: format = "batsim"'):
        read_workload(write(WORKLOAD))
    report = check_trace(write(WORKLOAD), "batsim")
    assert "give the option speed" in report.problems[0].message
    with pytest.raises(InputError, match="speed must be"):
        read_workload(write(WORKLOAD), format="batsim", speed=0)


@pytest.mark.parametrize(("where", "value", "message"), [
    (["profiles"], [], "profiles must be an object with the profiles by name, not"),
    (["jobs"], {}, "jobs must be a list"),
    (["jobs"], [], "jobs must not be empty"),
    (["jobs", 1], 3, r"jobs\[1\] must be an object with id, subtime, res, profile"),
    (["jobs", 1], {"id": "a", "subtime": 0, "res": 1}, r"jobs\[1\]: the key 'profile' is missing"),
    (["jobs", 1, "id"], "wait", r"jobs\[1\].id: 'wait' is the id of jobs\[0\]"),
    (["jobs", 1, "id"], None, r"jobs\[1\].id must be a string"),
    (["jobs", 1, "subtime"], -1, r"jobs\[1\].subtime must be a number from 0"),
    (["jobs", 1, "res"], 0, r"jobs\[1\].res must be a whole number from 1 to"),
    (["jobs", 1, "res"], 10**7, r"jobs\[1\].res must be .*limits = \{ranks"),
    (["jobs", 1, "walltime"], "1h", r"jobs\[1\].walltime must be a number"),
    (["jobs", 1, "profile"], "delya", r"jobs\[1\].profile: unknown profile 'delya'.*delay"),
    (["profiles", "delay"], 5, "profiles.delay must be an object with type"),
    (["profiles", "delay", "type"], "smpi", "profiles.delay.type: unknown profile type 'smpi'; "
     "choose from: delay, DelayProfile, parallel,"),
    (["profiles", "delay", "type"], ["delay"], "profiles.delay.type: unknown profile type"),
    (["profiles", "delay", "delay"], None, "profiles.delay.delay must be a number"),
    (["profiles", "simple", "cpu"], [1], "profiles.simple.cpu must have 2 numbers for a job of 2 "
     "resources, not 1"),
    (["profiles", "simple", "com"], [0, 0, 0, -1], r"profiles.simple.com\[3\] must be a number"),
    (["profiles", "homogeneous", "com"], "1", "profiles.homogeneous.com must be a number"),
    (["profiles", "spread", "generation_strategy"], "x", "unknown strategy 'x'; choose from: Def"),
    (["profiles", "sequence", "seq"], [], "profiles.sequence.seq must not be empty"),
    (["profiles", "sequence", "seq"], ["sample"], r"sequence.seq\[0\]: unknown profile 'sample'"),
    (["profiles", "inner", "seq"], ["sequence"], "profiles.sequence: it is a part of itself"),
    (["profiles", "inner", "repeat"], 10**9, "profiles.sequence: more than the limit of 500,000"),
    (["profiles", "sequence", "repeat"], 0, "profiles.sequence.repeat must be a whole number"),
])
def test_what_is_refused(write, where, value, message):
    path = write(changed(where, value))
    with pytest.raises(TraceError, match=message) as refused:
        read_workload(path, format="batsim", speed=1e6)
    assert str(path) in str(refused.value)


def test_more_flows_than_the_limit(write):
    document = WORKLOAD | {"jobs": [WORKLOAD["jobs"][3] | {"res": 5000}]}
    with pytest.raises(TraceError, match="24,995,000 more flows are above the limit"):
        read_workload(write(document), format="batsim", speed=1e6)
    assert len(read_workload(write(WORKLOAD), format="batsim", speed=1, limits={"flows": 40})) == 7
