"""Operations of stages that specify the ranks on which they compute."""

from __future__ import annotations

from functools import lru_cache

from netsim.jobs.patterns import is_ranked_pattern
from netsim.operations import Operations, Sending
from netsim.programs import Programs
from netsim.stage import is_ranked
from netsim.workload import JobSpec, Stage


def has_operations(job: JobSpec) -> bool:
    """Whether the ranks of a job compute, or its iterations overlap; see `operations_of`."""
    return (job.operations is not None or is_ranked(job.stages)
            or is_ranked_pattern(job.pattern))


def count_operations(job: JobSpec) -> int:
    """Return the number of operations of a job that has operations."""
    made = operations_of(job) if job.operations is None else job.operations
    assert made is not None
    return len(made)


def operations_of(job: JobSpec) -> Operations | None:
    """Return the operations of a job's ranks; None if its iterations follow one another."""
    if job.operations is not None:
        made = job.operations
        return made.whole if isinstance(made, Programs) else made
    return _converted(tuple(job.stages), job.ranks) if is_ranked(job.stages) else None


@lru_cache(maxsize=64)
def _converted(stages: tuple[Stage, ...], ranks: int) -> Operations:
    """Make operations of stages: a computation on each rank of a stage, then its coflow.

    By default, a stage without `after` waits for those stages of the previous iteration that no
    other stage has waited for.
    """
    rows: list[tuple[int, float, int, str, str]] = []
    sendings: list[Sending] = []
    begins: dict[str, list[int]] = {}
    ends: dict[str, list[int]] = {}
    after: list[tuple[int, int]] = []
    for stage in stages:
        first = len(rows)
        rows += [(rank, stage.compute_s, -1, stage.stream, stage.name) for rank in stage.ranks]
        begins[stage.name] = ends[stage.name] = list(range(first, len(rows)))
        if stage.flows is None and stage.ranks:
            continue
        sends = -1
        if stage.flows is not None:
            sends = len(sendings)
            sendings.append(Sending(stage.flows, stage.steps, stage.weight, stage.deadline_s,
                                    stage.overhead_s))
        own = len(rows)
        rows.append((-1, 0.0 if stage.ranks else stage.compute_s, sends, stage.stream, stage.name))
        after += [(own, computed) for computed in begins[stage.name]]
        begins[stage.name], ends[stage.name] = begins[stage.name] or [own], [own]
    waited = {parent for stage in stages for parent in stage.after}
    last = [stage.name for stage in stages if stage.name not in waited]
    after_previous: list[tuple[int, int]] = []
    for stage in stages:
        previous = stage.after_previous or (() if stage.after else last)
        for pairs, parents in ((after, stage.after), (after_previous, previous)):
            pairs += [(begin, end) for begin in begins[stage.name] for parent in parents
                      for end in ends[parent]]
    return Operations.make(rows, after, after_previous, sendings, ranks)
