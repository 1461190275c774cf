"""Runs of single experiments."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from netsim.base.values import known_names
from netsim.edge import EdgeCloud, EdgeWorkload
from netsim.edge.bound import lp_bound
from netsim.experiment_file.experiment import Experiment
from netsim.experiment_file.load import load_experiment
from netsim.results.result import Result
from netsim.simulation.simulation import simulate_spec


@known_names
def run_experiment(experiment: Experiment | str | Path, *, timeline: bool = False,
                   progress: bool | Callable[[int, int], None] = False) -> Result:
    """Run an experiment with its own policies; available as `netsim.run`.

    Parameters
    ----------
    experiment : Experiment, str or path
        An experiment, or the name or file of one; see `load_experiment`.
    timeline : bool
        As for `netsim.simulate`. Tables that only the timeline needs are not saved.
    progress : bool or callable
        As for `netsim.simulate`.

    Returns
    -------
    Result
        With the resolved experiment as its `spec`.

    Raises
    ------
    NetsimError
        As `load_experiment` and `netsim.simulate` do.
    """
    if not isinstance(experiment, Experiment):
        experiment = load_experiment(experiment, single=True)
    experiment = experiment.single()
    result = simulate_spec(experiment.run_spec(timeline=timeline), progress)
    return adding_bound(experiment)(result).replace(spec=experiment.resolved())


def adding_bound(experiment: Experiment) -> Callable[[Result], Result]:
    """Make a function that adds the LP bound to a run's counts, if the experiment asks for it.

    It also adds the run's total JCT divided by the bound, which is NaN if the run was stopped
    before all jobs had finished. The bound is computed once, for the first result.
    """
    slot_s, system, jobs = experiment.lp_bound, experiment.target, experiment.jobs
    if slot_s is None:
        return lambda result: result
    assert isinstance(system, EdgeCloud)
    assert isinstance(jobs, EdgeWorkload)
    bound_of = cache(lambda: lp_bound(system, jobs, slot=slot_s))

    def add(result: Result) -> Result:
        bound, total = bound_of(), float(result.jobs["jct_s"].sum(skipna=False))
        counts = {"lp_bound_s": bound.lp_s, "jct_bound_s": bound.jct_s,
                  "ratio_paper": bound.ratio_paper(total), "ratio": bound.ratio(total)}
        run = {**result.run, "counts": {**result.run["counts"], **counts}}
        return result.replace(run=run)

    return add


run = run_experiment
