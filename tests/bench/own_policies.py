"""Policies as users would write them, unlike every one that is built in."""

import numpy as np

import netsim


class LeastAttained(netsim.Allocator):
    """An order in NumPy: jobs by the bytes that they have sent."""

    wakes_on = netsim.Event.COFLOW

    def allocate(self, view: netsim.FabricView) -> netsim.Allocation:
        """See `netsim.Allocator.allocate`."""
        return netsim.Allocation(order=np.lexsort((view.job, view.job_attained)))


@netsim.compiled(information="agnostic", wakes_on="coflow")
def attained_by_width(coflows, jobs, now, order):
    """Order jobs by the root of the bytes that they have sent, times the width of their coflow."""
    for c in range(len(coflows)):
        order.key[c] = np.sqrt(jobs[coflows[c].job].attained) * coflows[c].width
