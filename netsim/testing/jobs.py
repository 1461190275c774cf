"""Random small workloads, drawn through `netsim.testing.cases.Pick`."""

from __future__ import annotations

from dataclasses import replace

from netsim.testing.cases import Pick
from netsim.workload import JobSpec, Stage, Workload

_NBYTES = 50_000.0
_SECONDS = 0.25
_PATTERNS = ("ring-all-reduce", "all-to-all", "parameter-server")


def draw_workload(pick: Pick, hosts: int, max_jobs: int, chains: bool) -> Workload:
    """Draw a workload; see `netsim.testing.workloads`."""
    jobs = []
    for job in range(pick(1, max_jobs)):
        kind = 0 if chains else pick(0, 2)
        spec = JobSpec(job, arrival_s=_SECONDS * pick(0, 4), iterations=pick(1, 2),
                       compute_s=_SECONDS * pick(0, 1),
                       **_draw_pattern(pick, hosts) if kind == 2 else
                       {"stages": (_draw_chain, _draw_graph)[kind](pick, hosts)})
        if chains or pick(0, 1):
            spec = replace(spec, hosts=tuple(range(hosts)))
        jobs.append(spec)
    return Workload(tuple(jobs), "random", seed=pick(0, 9))


def _draw_stage_flows(pick: Pick, hosts: int) -> list[tuple[int, int, float]]:
    """Draw flows, possibly none; some may be loopback or have no bytes."""
    return [(pick(0, hosts - 1), pick(0, hosts - 1), _NBYTES * pick(0, 20))
            for _ in range(pick(0, 4))]


def _draw_chain(pick: Pick, hosts: int) -> list[Stage]:
    """Draw stages that follow each other."""
    return [Stage(f"stage-{k}", _draw_stage_flows(pick, hosts), compute_s=_SECONDS * pick(0, 1),
                  after=(f"stage-{k - 1}",) if k else ()) for k in range(pick(1, 3))]


def _draw_graph(pick: Pick, hosts: int) -> list[Stage]:
    """Draw stages in topological order. Some only compute, some wait for others to finish."""
    stages: list[Stage] = []
    for k in range(pick(1, 4)):
        relation = [pick(0, 3) for _ in stages]
        stages.append(Stage(
            f"stage-{k}", _draw_stage_flows(pick, hosts) if pick(0, 3) else None,
            compute_s=_SECONDS * pick(0, 2), release_s=_SECONDS * pick(0, 2),
            weight=float(pick(1, 3)),
            after=[stage.name for stage, how in zip(stages, relation, strict=True) if how == 1],
            finishes_before=[stage.name for stage, how in zip(stages, relation, strict=True)
                             if how == 2]))
    return stages


def _draw_pattern(pick: Pick, hosts: int) -> dict[str, object]:
    """Draw a pattern with its ranks and message size."""
    return {"pattern": _PATTERNS[pick(0, 2)], "ranks": 2 * pick(1, hosts // 2),
            "nbytes": _NBYTES * pick(1, 20), "redraw": bool(pick(0, 1))}
