"""Preemption: the worked cases through `netsim.simulate`, by formula and on the fabric.

A job is a ring without bytes, so that an iteration takes its computation alone, wherever the job
is. The NIC has the rate at which state moves.
"""

from collections import defaultdict
from itertools import combinations, pairwise

import numpy as np
import pytest

import netsim
from netsim import Cluster, JobSpec, Workload
from netsim.engine.view import Decision
from tests.golden.test_golden_preempt import assert_as_expected, cases_of, in_numbers, sixty_cases
from tests.pairs import but

#: Executions by name. In each, servers cost nothing.
EXECUTIONS = {"rar-contention": "rar-contention:time=continuous:xi2=0", "asrpt": "asrpt",
              "fabric": "fabric:xi2=0"}


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_cases(preempt_hand_case, execution):
    check_runs(preempt_hand_case, execution)


@pytest.mark.parametrize("execution", but(EXECUTIONS, "fabric"))
def test_random_cases(preempt_random_case, execution):
    check_runs(preempt_random_case, execution)


@pytest.mark.parametrize("execution", but(EXECUTIONS, "asrpt", slow=["fabric"]))
def test_sixty_jobs(preempt_sixty_case, execution):
    """The trace of Tiresias' simulator; queues as lists are a policy of the twin alone."""
    for case in sixty_cases(preempt_sixty_case):
        if case["queue_order"] == "as specified":
            jobs = run_case(case, execution).jobs.sort_values("job")
            expected = case["expected"]
            np.testing.assert_allclose(jobs["finish_s"], expected["finish_s"], rtol=1e-9)
            assert jobs["preemptions"].tolist() == expected["preemptions"], case["name"]


def check_runs(path, execution):
    cases = [case for case in cases_of(path) if not left_out(case, execution)]
    assert cases
    for case in cases:
        assert_as_expected(case, lambda case=case: outcome(run_case(case, execution), case))


# --- what is left out ----------------------------------------------------------------------------

def left_out(case, execution):
    """Whether an execution refuses a case, or is meant to run it otherwise.

    "asrpt" is for equal servers. On the fabric, flows of state share ports: a job that moves to
    several servers sends a copy to each, where the cases have one transfer, and so do jobs that
    leave one server, or come to one, at the same time. Nor is it known there how long a move takes,
    so that schedulers are asked when it ends, too; and `las` looks again a quantum after each time
    that it is asked.
    """
    if execution == "asrpt":
        return len(set(case["cluster"]["gpus"])) > 1
    moves = moves_of(case) if execution == "fabric" else []
    return share_ports(moves) or (case["policy"] == "las" and len(moves) > 0)


def moves_of(case):
    """The moves of state that are expected: begin, latest end, source, and targets."""
    if not case["preemption"].get("state_bytes"):
        return []
    servers = [server for server, gpus in enumerate(case["cluster"]["gpus"]) for _ in range(gpus)]
    moves = []
    for job in case["expected"].get("jobs", ()):
        segments = job["segments"]
        for last, segment in pairwise(segments):
            old, new = ({servers[gpu] for gpu in each["gpus"]} for each in (last, segment))
            if new - old and last["kept_iterations"] != "0":
                got, run, *_ = segment["times_s"]
                moves.append((got, run, min(old), new - old))
    return moves


def share_ports(moves):
    return (any(len(targets) > 1 for *_, targets in moves)
            or any(one[0] < other[1] and other[0] < one[1]
                   and (one[2] == other[2] or one[3] & other[3])
                   for one, other in combinations(moves, 2)))


@pytest.mark.parametrize(("moves", "shares"), [
    ([(0, 1, 0, {1})], False), ([(0, 1, 0, {1, 2})], True),
    ([(0, 2, 0, {1}), (1, 3, 0, {2})], True), ([(0, 2, 0, {2}), (1, 3, 1, {2})], True),
    ([(0, 2, 0, {1}), (1, 3, 1, {0})], False), ([(0, 2, 0, {1}), (2, 3, 0, {1})], False)])
def test_moves_that_share_a_port(moves, shares):
    """One alone; to two servers; two from one, to one, to and fro, and one after the other."""
    assert share_ports(moves) is shares


# --- a run of netsim -----------------------------------------------------------------------------

class Scripted:
    """A scheduler that answers as is written down; at other instants it changes nothing."""

    def __init__(self, decisions, jobs):
        self.coming = [each | {key: float(each[key]) for key in ("at", "wake_at") if key in each}
                       for each in decisions]
        self.index = {job.id: index for index, job in enumerate(jobs)}

    def decide(self, view):
        given = {"preempt": (), "start": ()}
        if self.coming and view.now == self.coming[0]["at"]:
            given = self.coming.pop(0)
        later = self.coming[0]["at"] if self.coming else float("inf")
        return Decision([(self.index[job], gpus) for job, gpus in given["start"]],
                        [self.index[job] for job in given["preempt"]],
                        given.get("wake_at", later))


def run_case(case, execution):
    jobs = Workload([
        JobSpec(job["id"], float(job["arrival_s"]), pattern="ring-all-reduce", ranks=job["gpus"],
                nbytes=0, iterations=job["iterations"], compute_s=float(job["iteration_s"]),
                estimate_s=float(job["iterations"] * job["iteration_s"]))
        for job in case["jobs"]])
    costs = in_numbers(case["preemption"], float)
    nic = costs.pop("move_bytes_per_s", 1e9)
    return netsim.simulate(
        Cluster(gpus=case["cluster"]["gpus"], nic=nic), jobs, scheduler=scheduler_of(case, jobs),
        execution=EXECUTIONS[execution], placement=case["placement"], preemption=costs,
        events=[event_of(fault) for fault in case.get("faults", ())])


def scheduler_of(case, jobs):
    if case["policy"] == "script":
        return Scripted(case["decisions"], jobs.jobs)
    history = {"history": case["history"]} if case["policy"] == "tiresias-g" else {}
    return {"name": case["policy"]} | in_numbers(case["options"] | history, float)


def event_of(fault):
    event = {"at": float(fault["at"]), "host": fault["server"], "kind": fault["kind"]}
    return event | ({"restart": True} if fault["kind"] == "fail" else {})


def outcome(result, case):
    """What became of the jobs of a run, in the words of the golden cases."""
    columns = ["job", "start_s", "finish_s", *COUNTS]
    segments = segments_of(result, case)
    rows = sorted(zip(*(result.jobs[each].tolist() for each in columns), strict=True))
    return [dict(zip(["id", "start", "finish", *COUNTS], row, strict=True))
            | {"segments": segments[row[0]]} for row in rows]


COUNTS = ["preemptions", "restarts", "promotions", "held_gpu_s", "useful_gpu_s", "lost_gpu_s",
          "overhead_gpu_s"]


def segments_of(result, case):
    """The segments of each job, in the order of their starts; their GPUs are numbered through."""
    first = np.cumsum([0, *case["cluster"]["gpus"]])
    gpus = defaultdict(list)
    columns = ["job", "start_s", "run_s", "stop_s", "end_s", "reason", "server", "gpu"]
    for *segment, server, gpu in zip(*(result.gpus[each].tolist() for each in columns),
                                     strict=True):
        gpus[tuple(segment)].append(int(first[server]) + gpu)
    segments = defaultdict(list)
    for (job, *times, reason), held in sorted(gpus.items()):
        segments[job].append({"gpus": sorted(held), "reason": reason, "times": times})
    return segments
