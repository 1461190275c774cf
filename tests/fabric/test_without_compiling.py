"""With ``NUMBA_DISABLE_JIT=1`` kernels are plain functions, and results are the same."""

import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import numpy as np

import netsim
from netsim.base import compiling
from netsim.errors import NetsimError
from netsim.fabric.rule_code import compiled_rule

SWITCH = netsim.big_switch(4, "8Mbps")
TREE = netsim.leaf_spine(2, 2, 2, "8Mbps", oversubscription=2, latency="1ms")


def chains():
    """Jobs of a push and a pull, round and round, two of them at once."""
    return [netsim.JobSpec(k, hosts=range(4), arrival_s=0.05 * (k // 2), iterations=2, stages=[
        netsim.Stage("push", [(k % 3, 3, 1e5 + k), (k % 3, (k + 1) % 3, 2e5)], compute_s=0.01),
        netsim.Stage("pull", [(3, k % 3, 1e5)], after=["push"])]) for k in range(4)]


def ranks():
    return [netsim.llm_job({"layers": 2, "hidden": 64, "ffn": 256, "heads": 2, "vocab": 256,
                            "sequence": 16}, tp=2, dp=2, global_batch=4, forward_s=[0.001] * 3)]


@netsim.compiled(gives="shares")
def square_roots(coflows, jobs, now, order):
    for c in range(len(coflows)):
        order.share[c] = coflows[c].total ** -0.5


class Alternating(netsim.Allocator):
    """Weights of coflows, weights of flows and rates by turns, asked at each end of a flow."""

    wakes_on = "flow"

    def allocate(self, view):
        flows = int(view.flows)
        return (netsim.Allocation(coflow_weights=np.ones(len(view))) if flows % 3 == 0
                else netsim.Allocation(weights=np.full(flows, 2.0)) if flows % 3 == 1
                else netsim.Allocation(rates=view.maxmin()))


#: One for each engine and form of an allocation.
ALLOCATORS = ["maxmin", "coflow-fair", "sebf", "aalo", "aalo:weights=strict", "srtf", "sincronia",
              "parrot", "lccf", "aalo-lbsf", "varys-deadline", "equal-split", "reserved:shares=0.1",
              square_roots(), Alternating()]


def runs():
    """Yield results, by name; the last ones go through the kernels of other rooms."""
    for number, allocator in enumerate(ALLOCATORS):
        name = allocator if isinstance(allocator, str) else type(allocator).__name__
        yield name, netsim.simulate(SWITCH, chains(), allocator=allocator)
        interval = "20ms" if number % 2 else 0
        yield f"{name} on a tree", netsim.simulate(TREE, chains(), allocator=allocator,
                                                   observe_interval=interval)
    for allocator in ("maxmin", "sebf", "parrot"):
        yield f"ranks under {allocator}", netsim.simulate(SWITCH, ranks(), allocator=allocator)
    yield "faults", netsim.simulate(SWITCH, chains(), allocator="sebf", events=[
        {"at": 0.1, "link": "ingress-3", "kind": "fail"},
        {"at": 0.3, "link": "ingress-3", "kind": "repair"}])
    rings = netsim.read_workload("sjf-bco-160", seed=1).jobs[:12]
    for scheduler in ("fifo", "tiresias"):
        yield scheduler, netsim.simulate(netsim.Cluster(4, 8), rings, scheduler=scheduler,
                                         placement="consolidated")
    jobs = [netsim.EdgeJob(id=k, arrival_s=k, chunks=4, worker_type="a", compute_s=0.5,
                           chunk_bytes=1.0, upload_s=[0.1]) for k in range(3)]
    yield "edge", netsim.simulate(netsim.EdgeCloud([["a", "a"]], cloud=False), jobs,
                                  scheduler="a-online")


def returning(coflows, jobs, now, order):
    return 1


def writing_a_column(coflows, jobs, now, order):
    coflows["sent"][0] = 1.0


def writing_a_column_by_name(coflows, jobs, now, order):
    jobs.attained[:] = 1.0


def writing_rows(coflows, jobs, now, order):
    coflows[0] = coflows[1]


def reading_a_column_by_name(coflows, jobs, now, order):
    order.key[0] = coflows.sent.sum()


def refused():
    """Say which rules are refused."""
    found = {}
    for rule in (returning, writing_a_column, writing_a_column_by_name, writing_rows,
                 reading_a_column_by_name):
        try:
            netsim.simulate(SWITCH, chains(), allocator=netsim.compiled(rule))
        except NetsimError as error:
            found[rule.__name__] = str(error)
    return found


def finished():
    return {name: result.jobs["finish_s"].tolist() for name, result in runs()}


def test_results_are_the_same():
    done = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, check=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1",
             "PYTHONPATH": str(Path(netsim.__file__).parents[1])})
    (plain, bad), compiled = json.loads(done.stdout), finished()
    assert compiling.enabled()
    assert plain.keys() == compiled.keys()
    for name, times in compiled.items():
        if name.startswith("square_roots"):  # a power may be rounded otherwise
            np.testing.assert_allclose(plain[name], times, rtol=1e-12)
        else:
            assert plain[name] == times, name
    assert bad.keys() == refused().keys() == {
        "returning", "writing_a_column", "writing_a_column_by_name", "writing_rows"}
    assert "must return nothing" in bad.pop("returning")
    assert all("read-only" in said for said in bad.values())


if __name__ == "__main__":
    print(json.dumps([finished(), refused()]))
    assert not compiling.enabled()
    assert compiling._kernels == []
    kernels = [each for each in gc.get_objects() if isinstance(each, compiling.Kernel)]
    assert len(kernels) > 100
    assert not any({"dispatcher", "_inner"} & vars(each).keys() for each in kernels)
    assert isinstance(compiled_rule(square_roots().compiled_rule).function, FunctionType)
