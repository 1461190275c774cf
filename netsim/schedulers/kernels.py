"""A compiled loop of schedulers by order: the GPUs and jobs before a place in the order.

`tests.twins.job_orders` is a readable version of such schedulers; tests compare the two.
"""

from __future__ import annotations

from netsim.base.compiling import in_place
from netsim.ties import EQUAL


@in_place
def before(levels, values, ties, jobs, gpus, level, value, tie, job):
    """Count the GPUs that the jobs before a place in the order use, and these jobs.

    The arrays have an entry per job: its keys (see `netsim.schedulers.in_order.Keys`), its index
    and its number of GPUs. The place is given by the keys and the index of a job.
    """
    held = 0
    count = 0
    for k in range(len(jobs)):
        if levels[k] != level:
            first = levels[k] < level
        elif abs(values[k] - value) > EQUAL * max(abs(values[k]), abs(value)):
            first = values[k] < value
        elif ties[k] != tie:
            first = ties[k] < tie
        else:
            first = jobs[k] < job
        if first:
            held += gpus[k]
            count += 1
    return held, count
