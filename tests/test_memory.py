"""Memory grows with what is active, not with iterations."""

import subprocess
import sys

RUN = """
import resource, sys, netsim
jobs = netsim.read_workload("parrot-60", seed=1, iterations=int(sys.argv[1]))
netsim.simulate("big-switch-128-10g", jobs, allocator="parrot", record=["jobs"])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_iterations_cost_no_memory():
    """100 times the iterations, nothing kept but jobs: the same peak within a tenth."""
    peak = [int(subprocess.run([sys.executable, "-c", RUN, iterations], check=True, text=True,
                               capture_output=True).stdout) for iterations in ("1", "100")]
    assert peak[1] < 1.1 * peak[0]
