"""A job that trains a large language model, as a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netsim.llm import llm_job
from netsim.plain import plain_numbers
from netsim.workload import Workload


@plain_numbers
def llm(*, model: str | Mapping[str, Any], iterations: int = 1,
        hosts: Sequence[int] | None = None, job_name: str | None = None, weight: float = 1.0,
        group: int | str | None = None, seed: int = 0, **setup: Any) -> Workload:
    """Train a large language model: one job, as Megatron-LM and DeepSpeed run it.

    Parameters
    ----------
    model : str or mapping
        A ready-made transformer (``netsim list llms``), or its parameters; see `netsim.llm_job`.
    iterations : int
        Number of iterations.
    hosts : sequence of int, optional
        The host of each rank; by default rank r runs on host r.
    job_name : str, optional
        A label of the job; by default that of the model.
    weight : float
        The job's priority; see `netsim.JobSpec`.
    group : int or str, optional
        A label of jobs that belong together; see `netsim.JobSpec`.
    seed : int
        The workload's seed; nothing is drawn here.
    **setup
        Parallelism, batches and so on; see `netsim.llm.TrainingSetup`.

    Raises
    ------
    InputError
        If a value is invalid or contradicts another.

    Examples
    --------
    >>> [job.ranks for job in llm(model="llama-7b", tp=2, dp=2, global_batch=2)]
    [4]
    """
    return Workload([llm_job(model, iterations=iterations, hosts=hosts, name=job_name,
                             weight=weight, group=group, **setup)], "llm", seed=seed)
