"""Comparisons: runs of one workload under several allocators or schedulers, as a sweep of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from netsim.allocators import check_installed
from netsim.base.units import format_seconds
from netsim.base.values import known_names
from netsim.cluster import Cluster
from netsim.edge import EdgeCloud, EdgeJob, EdgeWorkload
from netsim.errors import InputError, Interrupted, SpecError, UnknownNameError
from netsim.experiment_file.experiment import Experiment
from netsim.experiment_file.load import load_experiment
from netsim.experiment_file.tables import PolicyTable
from netsim.network import Topology
from netsim.results.result import Result
from netsim.simulation.progress import show_progress
from netsim.simulation.run_spec import RunSpec
from netsim.simulation.targets import built
from netsim.studies.comparison import Comparison
from netsim.studies.grid import Policy, label_in, policies_by_label, runs_of_calls
from netsim.studies.run import adding_bound
from netsim.workload import JobSpec, Workload


@known_names
def compare(network: Topology | Cluster | EdgeCloud | str | Path,
            workload: Workload | Sequence[JobSpec] | EdgeWorkload | Sequence[EdgeJob] | str
            | Path,
            allocators: Sequence[Policy] | Mapping[str, Policy] | None = None, *,
            schedulers: Sequence[Any] | Mapping[str, Any] | None = None,
            baseline: Policy | None = None, seed: int = 0,
            progress: bool | Callable[[int, int], None] = False, **settings: Any) -> Comparison:
    """Simulate a workload under several allocators or schedulers.

    Parameters
    ----------
    network, workload, seed, progress
        As for `netsim.simulate`.
    allocators : sequence or mapping
        Names, tables, classes or instances; ``"parrot:theta_max=0.6"`` is a name with an
        option. The keys of a mapping are used as labels.
    schedulers : sequence or mapping
        Schedulers to compare instead of allocators, on a cluster or an edge-cloud.
    baseline : str, mapping, class or Allocator, optional
        The policy with which the others are compared: its label, its name with options, such as
        ``"dclas:weights=strict"``, or the policy as it was given. By default the first policy.
    **settings
        Other keyword arguments of `netsim.simulate`.

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        If there is nothing to compare, two policies have the same label, no policy has the label
        of the baseline, or an argument is invalid.
    NetsimError
        As `netsim.simulate` does.

    Examples
    --------
    >>> import netsim
    >>> net = netsim.read_network("parrot-fig2")
    >>> jobs = netsim.read_workload("parrot-fig2")
    >>> netsim.compare(net, jobs, ["parrot", "lccf"]).table[["label", "jct_total_s"]].round(4)
             label  jct_total_s
    0       parrot      40.8889
    1         lccf      44.0000
    2  lower bound      28.0000
    """
    if (allocators is None) == (schedulers is None):
        same = "".join(f"; {kind}= holds for all runs, {kind}s= lists what to compare"
                       for kind in ("allocator", "scheduler") if kind in settings)
        raise InputError("give either allocators or schedulers to compare; netsim.sweep varies "
                         f"both{same}")
    if isinstance(seed, list | tuple | range):
        raise InputError(f"seed: a comparison is of one workload, and so of one seed, not of "
                         f"{list(seed)!r}; netsim.sweep(network, workload, allocator=[...], "
                         f"seed={list(seed)!r}) runs each policy with each seed")
    kind = "allocator" if schedulers is None else "scheduler"
    policies = policies_by_label(allocators if schedulers is None else schedulers, kind)
    if baseline is not None:
        baseline = label_in(baseline, policies)
    # Built once, as all runs have the same seed.
    place, jobs = built(RunSpec(network=network, workload=workload, seed=seed))
    results = _results({"network": place, "workload": jobs, **settings}, kind, policies, seed,
                       progress)
    return Comparison(results, baseline=baseline)


def _results(fixed: Mapping[str, Any], kind: str, policies: Mapping[str, Any], seed: int,
             progress: bool | Callable[[int, int], None],
             finish: Callable[[str, Result], Result] = lambda label, result: result
             ) -> dict[str, Result]:
    """Run a sweep over policies, by label, in this process, one run after the other.

    `fixed` are other arguments of `netsim.simulate`, and `finish` turns a label and its result into
    the result to keep. Invalid arguments are found before the first run. Later errors have a note
    about the runs that are lost, and an interruption says which runs had finished.
    """
    runs = runs_of_calls(fixed, {kind: policies}, [seed])
    if kind == "allocator":
        for policy in policies.values():
            check_installed(policy)
    results: dict[str, Result] = {}
    with show_progress(progress, 1) as report:
        for index, run in enumerate(runs):
            label = run.varied[kind]
            try:
                result = run.task.run(progress=_share(report, index, len(runs)))
                results[label] = finish(label, result)
            except KeyboardInterrupt as stop:
                said = _until_then(label, stop, results) + _lost(kind, results)
                raise Interrupted(said) from stop
            except Exception as error:
                error.add_note(f"the run of {label} failed{_lost(kind, results)}")
                raise
    return results


def compare_experiment(experiment: Experiment | str | Path, *,
                       progress: bool | Callable[[int, int], None] = False) -> Comparison:
    """Run an experiment under each allocator or scheduler of its table ``compare``.

    The `spec` of the comparison is the resolved experiment; that of each result belongs to its run.
    """
    if not isinstance(experiment, Experiment):
        experiment = load_experiment(experiment)
    table, (kind, tables) = experiment.compare, _compared(experiment)
    if not tables:
        raise SpecError(["compare.allocators: is empty; list what to compare, or give --allocator "
                         "(or on a cluster compare.schedulers, --scheduler)"])
    policies = policies_by_label([each.given for each in tables], kind)
    baseline = None if table.baseline is None else label_in(table.baseline, policies)
    fixed = {"network": experiment.target, "workload": experiment.jobs, **experiment.arguments}
    seed = fixed.pop("seed")
    specs = {label: experiment.single(**{kind: each}).resolved()
             for label, each in zip(policies, tables, strict=True)}
    add_bound = adding_bound(experiment)
    results = _results(fixed, kind, policies, seed, progress,
                       lambda label, result: add_bound(result).replace(spec=specs[label]))
    return Comparison(results, experiment.resolved(), baseline)


def _compared(experiment: Experiment) -> tuple[str, Sequence[PolicyTable]]:
    """The kind of the policies that an experiment compares, and the policies."""
    table = experiment.compare
    return ("scheduler", table.schedulers) if table.schedulers else ("allocator", table.allocators)


def with_known_baseline(experiment: Experiment) -> Experiment:
    """Drop the baseline of an experiment if it is not one of the compared policies."""
    kind, tables = _compared(experiment)
    table = experiment.compare
    if table.baseline is not None:
        try:
            label_in(table.baseline, policies_by_label([each.given for each in tables], kind))
        except UnknownNameError:
            table = table.model_copy(update={"baseline": None})
    return experiment.model_copy(update={"compare": table})


def _until_then(label: str, stop: KeyboardInterrupt, results: Mapping[str, Result]) -> str:
    """Describe the progress of an interrupted comparison for a message."""
    ended = (f"\n  {name} had ended: JCT {format_seconds(result.summary()['jct_total_s'])} in total"
             for name, result in results.items())
    return f"{label}: {stop}".rstrip(": ") + "".join(ended)


def _lost(kind: str, results: Mapping[str, Result]) -> str:
    """Say which runs of a comparison that does not end are lost, and how to keep such runs."""
    ended = ", ".join(results)
    return "" if not ended else (
        f"\nlost: what had ended ({ended}), as a comparison keeps nothing before its end; netsim "
        f"sweep FILE --vary {kind}=... keeps runs that have ended, and goes on after one that "
        f"fails; in Python, netsim.sweep(..., {kind}=[...], folder=...)")


def _share(report: Callable[[int, int], None], index: int, runs: int
           ) -> Callable[[int, int], None]:
    """Make a progress function for one run that reports the progress of all runs together."""
    return lambda done, total: report(index * total + done, runs * total)
