"""Memory grows with what is active, not with iterations."""

import subprocess
import sys

import pytest

from tests.pairs import exhaustive

CHAINS = """
jobs = netsim.read_workload("parrot-60", seed=1, iterations=int(sys.argv[1]))
netsim.simulate("big-switch-128-10g", jobs, allocator="parrot", record=["jobs"])
"""
PROCESSES = """
stages = [netsim.Stage("a", [(0, 1, 1e6)]), netsim.Stage("b", [(1, 2, 1e6)]),
          netsim.Stage("c", [(0, 2, 1e6)], after=["a"])]
jobs = [netsim.JobSpec(k, stages=stages, iterations=5 * int(sys.argv[1])) for k in range(9)]
netsim.simulate(netsim.big_switch(16), jobs, record=["jobs"])
"""
RUN = """
import resource, sys, netsim
{}
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("run", [CHAINS, PROCESSES], ids=["chains", "processes"])
def test_iterations_cost_no_memory(run):
    """100 times the iterations, nothing kept but jobs: the same peak within a tenth."""
    peak = [int(subprocess.run([sys.executable, "-c", RUN.format(run), iterations], check=True,
                               text=True, capture_output=True).stdout)
            for iterations in ("1", "100")]
    assert peak[1] < 1.1 * peak[0]
