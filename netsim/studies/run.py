"""Runs of single experiments."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from netsim.base.values import known_names
from netsim.edge import EdgeCloud, EdgeWorkload
from netsim.experiment_file.experiment import Experiment
from netsim.experiment_file.load import load_experiment
from netsim.experiment_file.tables import bound_of
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
    """Make a function that adds the LP bound to a result, if the experiment asks for it.

    The bound is computed once, for the first result, and used for all schedulers.
    """
    target, jobs = experiment.target, experiment.jobs
    if not (isinstance(target, EdgeCloud) and isinstance(jobs, EdgeWorkload)):
        return lambda result: result

    @cache
    def add() -> Callable[[Result], Result]:
        return bound_of(target, jobs, experiment.lp_bound)

    return lambda result: add()(result)


run = run_experiment
