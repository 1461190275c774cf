"""Jobs that train large language models: the groups of ranks, and the operations of all ranks."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from netsim.base.arrays import Ints
from netsim.base.limits import check_limit
from netsim.base.units import Quantity, parse_seconds
from netsim.base.values import about, as_whole, is_whole
from netsim.errors import InputError, UnknownNameError
from netsim.llm.experts import LayerTokens, tokens_of, totals
from netsim.llm.rank_program import RankStep, TokensOf, rank_program
from netsim.llm.setup import TrainingSetup
from netsim.llm.transformer import Transformer, make_transformer
from netsim.workload import JobSpec, Operations
from netsim.workload.operations import Family, Programs, Row


# --- groups of ranks -----------------------------------------------------------------------
class RankGrid(NamedTuple):
    """The rank at each coordinate of a setup, for routed experts and for all else."""

    dense: Ints  #: shape (pp, dp, cp, tp); for all but routed experts
    expert: Ints  #: shape (pp, dp cp/ep, ep, tp); for routed experts

    @classmethod
    def of(cls, setup: TrainingSetup) -> RankGrid:
        """Number the ranks of a setup."""
        return cls.make(setup.tp, setup.cp, setup.ep, setup.dp, setup.pp, setup.order)

    @classmethod
    def make(cls, tp: int, cp: int, ep: int, dp: int, pp: int, order: str) -> RankGrid:
        """Number ranks in an order, one of `ORDERS`."""
        dense, expert = (dp, cp, tp), (dp * cp // ep, ep, tp)
        ranks = np.arange(tp * cp * dp * pp)
        if order.endswith("pp"):
            return cls(ranks.reshape(pp, *dense), ranks.reshape(pp, *expert))
        # dp, or dp cp/ep, is the slowest.
        return cls(*(ranks.reshape(shape[0], pp, *shape[1:]).swapaxes(0, 1)
                     for shape in (dense, expert)))

    def stage(self, stage: int) -> Ints:
        """Return the ranks of a stage of the pipeline, in order of their coordinates."""
        return self.dense[stage].ravel()

    def of_stage(self, kind: str, stage: int) -> Ints:
        """Return the groups of a kind within a stage; shape (groups, members)."""
        _, dp, cp, tp = self.dense.shape
        dense, expert = self.dense[stage], self.expert[stage]
        return {"tp": lambda: dense.reshape(-1, tp),
                "cp": lambda: np.moveaxis(dense, 1, -1).reshape(-1, cp),
                "dp": lambda: np.moveaxis(dense, 0, -1).reshape(-1, dp),
                "dp-cp": lambda: dense.reshape(dp * cp, tp).T,
                "ep": lambda: np.moveaxis(expert, 1, -1).reshape(-1, expert.shape[1]),
                "edp": lambda: np.moveaxis(expert, 0, -1).reshape(-1, expert.shape[0]),
                }[kind]()


def groups_of(grid: RankGrid) -> dict[str, list[list[int]]]:
    """List all groups of each kind, in order of their first ranks."""
    stages = len(grid.dense)
    pipelines = np.moveaxis(grid.dense, 0, -1).reshape(-1, stages)
    ends = pipelines[:, [0, -1]] if stages > 1 else pipelines
    found = {kind: np.concatenate([grid.of_stage(kind, stage) for stage in range(stages)])
             for kind in ("tp", "cp", "dp", "dp-cp", "ep", "edp")}
    return {name: sorted(np.sort(each, axis=1).tolist())
            for name, each in (found | {"pp": pipelines, "embedding": ends}).items()}


# --- operations of all ranks ---------------------------------------------------------------

Pairs = tuple[tuple[int, int], ...]


def assemble(setup: TrainingSetup, iteration: int = 0) -> Programs:
    """Make the operations of an iteration of a setup, one pipeline stage after the other."""
    return _Assembly(setup, iteration).programs()


class _Assembly:
    """Gives each step of each stage a row; a communication has one operation per group."""

    def __init__(self, setup: TrainingSetup, iteration: int) -> None:
        self._grid = RankGrid.of(setup)
        self._setup, self._iteration = setup, iteration
        self._programs = [rank_program(setup, stage) for stage in range(setup.pp)]
        self._size = setup.world // setup.pp
        self._position = np.zeros(setup.world, np.int64)
        for stage in range(setup.pp):
            self._position[self._grid.stage(stage)] = np.arange(self._size)
        self._families: list[Family] = []
        self._known: dict[tuple[str, int, str, int, TokensOf | None], int] = {}
        self._groups: dict[tuple[str, int], tuple[Ints, Ints]] = {}
        self._each = np.arange(self._size)
        self._rows: list[Row] = []
        self._spanning: dict[str, int] = {}

    def programs(self) -> Programs:
        """Return the operations of all ranks."""
        rows = [[self._row(stage, step) for step in program]
                for stage, program in enumerate(self._programs)]
        return Programs(tuple(self._rows), *self._relations(rows), tuple(self._families),
                        self._setup.world)

    def _row(self, stage: int, step: RankStep) -> int:
        """Add the row of a step, or find the one that it shares; return its place."""
        if step.kind == "compute":
            made = self._add(step, self._grid.stage(stage), -1, self._each)
            if step.tokens is not None:
                work = self._tokens(step.tokens).work()
                self._rows[made] = self._rows[made]._replace(factors=work[self._expert_rank(stage)])
            return made
        if step.kind == "send":
            ends = np.stack((self._grid.stage(stage), self._grid.stage(step.peer)), axis=1)
            return self._add(step, None, self._family(step, stage, ends), self._each)
        if step.group in ("world", "embedding"):
            return self._across(stage, step)
        groups, of_rank = self._groups_of(step.group, stage)
        return self._add(step, None, self._family(step, stage, groups), of_rank)

    def _across(self, stage: int, step: RankStep) -> int:
        """Return the row of a step that several stages share; the first one makes it."""
        if step.name not in self._spanning:
            if step.group == "world":
                made = self._add(step, None, -1, np.zeros(self._size, np.int64))
            else:
                ends = np.stack((self._grid.stage(0), self._grid.stage(self._setup.pp - 1)), axis=1)
                made = self._add(step, None, self._family(step, stage, ends), self._each)
            self._spanning[step.name] = made
        return self._spanning[step.name]

    def _add(self, step: RankStep, ranks: Ints | None, family: int, of_rank: Ints) -> int:
        count = int(of_rank.max()) + 1
        self._rows.append(Row(step.name, step.stream, ranks, step.seconds, family, count, of_rank))
        return len(self._rows) - 1

    def _groups_of(self, kind: str, stage: int) -> tuple[Ints, Ints]:
        """Return the groups of a kind within a stage, and the group of each rank."""
        if (kind, stage) not in self._groups:
            groups = self._grid.of_stage(kind, stage)
            of_rank = np.zeros(self._size, np.int64)
            of_rank[self._position[groups]] = np.arange(len(groups))[:, None]
            self._groups[kind, stage] = groups, of_rank
        return self._groups[kind, stage]

    def _family(self, step: RankStep, stage: int, groups: Ints) -> int:
        """Return the index of a step's family, which equal steps share."""
        key = f"{step.group} {step.peer}", stage, step.kind, step.payload, step.tokens
        if key not in self._known:
            self._known[key] = len(self._families)
            family = Family(step.kind, groups, step.payload, step.group)
            if step.tokens is not None:
                family = self._uneven(family, stage, step.tokens)
            self._families.append(family)
        return self._known[key]

    # --- experts with an uneven load ----------------------------------------------------------

    def _tokens(self, which: TokensOf) -> LayerTokens:
        return tokens_of(self._setup, which.layer, self._iteration)

    def _expert_rank(self, stage: int) -> Ints:
        """Return the place of each rank of a stage in its group of expert parallelism."""
        found = np.empty(self._size, np.int64)
        groups = self._grid.of_stage("ep", stage)
        found[self._position[groups]] = np.arange(groups.shape[1])
        return found

    def _uneven(self, family: Family, stage: int, which: TokensOf) -> Family:
        """Give a family the bytes of the tokens of experts: each way, or of a tensor group."""
        setup, between = self._setup, self._tokens(which).between()
        nbytes = between * (setup.model.hidden * setup.dtype_bytes)
        if family.group == "ep":
            return replace(family, between=nbytes.T if which.back else nbytes)
        ranks = self._expert_rank(stage)[self._position[family.members[:, 0]]]
        return replace(family, payloads=setup.tp * nbytes.sum(axis=0)[ranks])

    def _relations(self, rows: list[list[int]]) -> tuple[Pairs, Pairs]:
        found: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
        places = [{step.name: place for place, step in enumerate(program) if step.kind == "send"}
                  for program in self._programs]
        for own, program in zip(rows, self._programs, strict=True):
            for row, step in zip(own, program, strict=True):
                for pairs, others in zip(found, (step.after, step.after_previous), strict=True):
                    pairs += [(row, own[other]) for other in others]
                found[0].extend((row, rows[sender][places[sender][name]])
                                for sender, name in step.receives)
        return tuple(found[0]), tuple(found[1])


# --- jobs ----------------------------------------------------------------------------------
def llm_job(model: str | Mapping[str, Any] | Transformer = "llama-7b", *, id: int = 0,
            arrival_s: Quantity = 0.0, iterations: int = 1,
            hosts: Sequence[int | str] | None = None, name: str | None = None,
            weight: float = 1.0, group: int | str | None = None, seed: int = 0,
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
    hosts : sequence of int or str, optional
        The host of each rank; by default rank r runs on host r.
    name : str, optional
        A label; by default that of the model.
    weight, group
        As for `netsim.JobSpec`.
    seed : int
        Seed of the loads of experts, unless `expert_load` has its own.
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
    with about("model"):
        _check_model(model)
        shape = make_transformer(model)
    _check_options(setup)
    made = TrainingSetup(model=shape, **setup)
    seed = as_whole(seed, "llm: seed")
    if made.expert_load is not None:
        made = replace(made, expert_load=made.expert_load.seeded(seed))
    label = model if isinstance(model, str) else "llm"
    if isinstance(model, Mapping):
        label = str(model.get("name", label))
    return JobSpec(id, parse_seconds(arrival_s, "llm: arrival_s"), iterations,
                   name=label if name is None else name,
                   hosts=range(made.world) if hosts is None else hosts,
                   operations=_programs(made, _period(made, iterations)), weight=weight,
                   group=group)


def _check_model(model: object) -> None:
    """Raise an error if a model's parameters include options of the job."""
    options = {field.name for field in fields(TrainingSetup)}
    if isinstance(model, Mapping) and (stray := sorted(options.intersection(model))):
        raise InputError(
            f"model: {', '.join(map(repr, stray))} are no parameters of the model; "
            'options of the job stand beside its model, as in {llm = "llama-7b", tp = 2}')


def _check_options(setup: Mapping[str, Any]) -> None:
    known = [field.name for field in fields(TrainingSetup)]
    for name in setup:
        if name not in known:  # the intended one may be an argument of the job
            own = [each for each in inspect.signature(llm_job).parameters if each != "setup"]
            raise UnknownNameError("option of llm", name, [*known, *own], key=name)


def _period(setup: TrainingSetup, iterations: int) -> int:
    """Return after how many of the iterations of a job the loads of experts repeat."""
    if setup.expert_load is None or not is_whole(iterations):  # `JobSpec` refuses these
        return 1
    return max(1, min(setup.expert_load.period or iterations, iterations))


@lru_cache(maxsize=8)
def _programs(setup: TrainingSetup, period: int = 1) -> Programs:
    """Return the programs of a setup's ranks in an iteration; equal jobs share them."""
    if setup.expert_load is None:
        return assemble(setup)
    made: list[Programs] = []
    for iteration in range(period):
        made.append(replace(assemble(setup, iteration), tokens=totals(setup, iteration)))
        if period > 1 and not iteration:
            check_limit("operations", period * len(made[0]), where="expert_load")
    return made[0] if period == 1 else replace(made[0], variants=tuple(made))


def llm_operations(setup: TrainingSetup) -> Operations:
    """Return the operations of all ranks in an iteration; jobs with equal setups share them."""
    return _programs(setup).whole
