"""Run an experiment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from netsim.edge import EdgeCloud, EdgeWorkload
from netsim.experiment_file.edge_tables import bound_of
from netsim.experiment_file.experiment import Experiment
from netsim.experiment_file.load import load_experiment
from netsim.results.result import Result
from netsim.simulation.simulate import simulate

__all__ = ["run", "run_experiment"]


def run_experiment(experiment: Experiment | str | Path, *, timeline: bool = False,
                   progress: bool | Callable[[int, int], None] = False) -> Result:
    """Run an experiment under its allocator; `netsim.run`.

    Parameters
    ----------
    experiment : Experiment, str or path
        An experiment, or what `load_experiment` reads.
    timeline : bool
        As for `netsim.simulate`. What the experiment does not ask for is not saved either.
    progress : bool or callable
        As for `netsim.simulate`.

    Returns
    -------
    Result
        Its `spec` is the resolved experiment.

    Raises
    ------
    NetsimError
        As `load_experiment` and `netsim.simulate` do.
    """
    if not isinstance(experiment, Experiment):
        experiment = load_experiment(experiment)
    alone = experiment.single()
    target, jobs = alone.target, alone.jobs
    result = simulate(target, jobs, timeline=timeline, progress=progress, **alone.sharing,
                      **alone.settings)
    if isinstance(target, EdgeCloud) and isinstance(jobs, EdgeWorkload):
        result = bound_of(target, jobs, alone.lp_bound)(result)
    return result.replace(spec=alone.resolved())


run = run_experiment
