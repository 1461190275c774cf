"""Jobs of a workload as processes that a user would write."""

import numpy as np
import simpy

import netsim
from netsim.jobs.plan import JobPlan, place_randomly

TIMES = ["valid_s", "start_s", "finish_s", "bytes"]


def scripted(network, workload, seed=0, **options):
    """Run a workload of chains as processes in SimPy; return the fabric and its result."""
    env = simpy.Environment()
    fabric = netsim.Fabric(env, network, **options)

    def training(spec):
        plan = JobPlan(spec, network, place_randomly(spec, network, seed), workload.seed,
                       network.capacity)
        graph = plan.graph(0)
        assert graph.runs_without_process()
        stages = [graph.stages[k] for k in graph.dag.sequence]
        flows = [netsim.Flows(plan.hosts[stage.flows.src], plan.hosts[stage.flows.dst],
                              stage.flows.nbytes) for stage in stages]
        yield env.timeout(spec.arrival_s)
        job = fabric.job(spec.name, communication_s=plan.communication_s(),
                         gpus=max(spec.ranks, 1), alone_s=plan.alone_s())
        yield env.timeout(stages[0].release_s + stages[0].compute_s)
        for iteration in range(spec.iterations):
            for k, stage in enumerate(stages):
                if k + iteration:
                    yield env.timeout(stage.compute_s)
                yield fabric.coflow(flows[k], job=job, name=stage.name, weight=stage.weight,
                                    deadline_s=stage.deadline_s)
        job.end()

    for spec in workload.jobs:
        env.process(training(spec))
    env.run()
    return fabric, fabric.result()


def are_chains(network, jobs):
    """Whether all jobs send one coflow after the other, and each sends something."""
    for spec in jobs:
        plan = JobPlan(spec, network, np.arange(max(spec.ranks, network.hosts)), 0,
                       network.capacity)
        graph = plan.graph(0)
        if spec.redraw or not graph.runs_without_process() or len(graph.stages) == 0:
            return False
    return True


def times(result, workload=None):
    """Return the times and sizes of coflows, job by job in order of time.

    On a fabric, jobs are numbered by arrival and id; those of a workload have ids.
    """
    table = result.coflows
    if workload is not None:
        place = {spec.id: k for k, spec in enumerate(workload.jobs)}
        table = table.assign(job=table["job"].map(place))
    return table.sort_values(["job", "valid_s", "finish_s"], kind="stable")[TIMES].to_numpy()
