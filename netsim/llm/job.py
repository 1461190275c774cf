"""Jobs that train large language models."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

from netsim.checks import check_options
from netsim.errors import InputError, UnknownNameError
from netsim.llm.assembly import assemble
from netsim.llm.setup import TrainingSetup
from netsim.llm.transformer import Transformer, make_transformer
from netsim.operations import Operations
from netsim.programs import Programs
from netsim.units import Quantity, parse_seconds
from netsim.workload import JobSpec


def llm_job(model: str | Mapping[str, Any] | Transformer = "llama-7b", *, id: int = 0,
            arrival_s: Quantity = 0.0, iterations: int = 1, hosts: Sequence[int] | None = None,
            name: str | None = None, weight: float = 1.0, group: int | str | None = None,
            **setup: Any) -> JobSpec:
    """Make a job that trains a large language model, following Megatron-LM and DeepSpeed.

    Parameters
    ----------
    model : str, mapping or Transformer
        A ready-made transformer (``netsim list llms``), or the parameters of one; see
        `netsim.llm.Transformer`. If these include the ``name`` of a ready-made transformer, they
        replace some of its parameters.
    id, arrival_s, iterations
        As for `netsim.JobSpec`.
    hosts : sequence of int, optional
        The host of each rank; by default rank r runs on host r.
    name : str, optional
        A label; by default that of the model.
    weight, group
        As for `netsim.JobSpec`.
    **setup
        Parallelism, batches and so on; see `netsim.llm.TrainingSetup`.

    Returns
    -------
    JobSpec

    Raises
    ------
    InputError
        If a value is invalid or contradicts another; the message lists all problems.

    Examples
    --------
    >>> import netsim
    >>> job = netsim.llm_job("llama-7b", tp=2, pp=2, dp=2, global_batch=8)
    >>> job.ranks, len(job.operations)
    (8, 3283)
    """
    _check_model(model)
    made = TrainingSetup(model=make_transformer(model), **_known(setup))
    label = model if isinstance(model, str) else "llm"
    if isinstance(model, Mapping):
        label = str(model.get("name", label))
    return JobSpec(id, parse_seconds(arrival_s, "llm: arrival_s"), iterations,
                   name=label if name is None else name,
                   hosts=range(made.world) if hosts is None else hosts,
                   operations=_programs(made), weight=weight, group=group)


def _check_model(model: object) -> None:
    """Raise an error if a model's parameters include options of the job."""
    options = {field.name for field in fields(TrainingSetup)}
    if isinstance(model, Mapping) and (stray := sorted(options.intersection(model))):
        raise InputError(
            f"model: {', '.join(map(repr, stray))} are no parameters of the model; "
            'options of the job stand beside its model, as in {llm = "llama-7b", tp = 2}')


def _known(setup: dict[str, Any]) -> dict[str, Any]:
    known = [field.name for field in fields(TrainingSetup)]
    for name in setup:
        if name not in known:  # the intended one may be an argument of the job
            own = [each for each in inspect.signature(llm_job).parameters if each != "setup"]
            raise UnknownNameError("option of llm", name, [*known, *own])
    check_options(TrainingSetup, ("model", *setup), "llm")
    return setup


@lru_cache(maxsize=8)
def _programs(setup: TrainingSetup) -> Programs:
    """Return the programs of a setup's ranks in an iteration; equal jobs share them."""
    return assemble(setup)


def llm_operations(setup: TrainingSetup) -> Operations:
    """Return the operations of all ranks in an iteration; jobs with equal setups share them."""
    return _programs(setup).whole
