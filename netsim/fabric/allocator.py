"""The base class of allocators, and policies that users write as compiled functions."""

from __future__ import annotations

import dataclasses
import inspect
import keyword
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.values import as_collection, known_names
from netsim.errors import AllocationError, InputError
from netsim.fabric.allocation import Allocation, Event, Information, as_event
from netsim.fabric.rule import Rule, columns_in
from netsim.fabric.view import FabricView


class Undecided(Exception):
    """Raised by a policy that has no answer yet. It is asked again when the run continues.

    Only for policies with ``asked_ahead = False``.
    """


class Allocator:
    """Base class of allocators: implement `allocate`, and declare what the policy needs to know.

    A policy without state is a pure function of the view. State, where one is needed,
    lives on the instance; each run gets a fresh copy.

    Attributes
    ----------
    information : {"clairvoyant", "agnostic", "predicted", "job-clairvoyant"}
        What the policy may see, see `Information`. Reading anything else is an `InputError`.
    predictor : str, mapping or object
        With ``"predicted"``: what predicts the iterations of jobs, as for
        `netsim.predictors.make_predictor`. It learns from the history of the workload.
    wakes_on : Event, or {"coflow", "flow"}
        The events on which the policy is asked. It is also asked when a link that flows use fails
        or is repaired, and at the times that its allocations request (`revisit_at`). When the
        capacity of such a link changes otherwise, it is asked only if its last answer was rates or
        shares: an order, a service and weights of coflows stand, and the fabric sets the rates that
        follow.
    scale_free : bool
        Whether rates scale with the unit of bytes; False for a policy with absolute sizes, such as
        thresholds of queues. `netsim.testing.check_allocator` tests this claim, and those of the
        next three attributes.
    time_free : bool
        Whether rates scale with the unit of time; False for a policy with absolute times, such as
        an interval or a longest wait.
    stall_free : bool
        Whether some coflow always sends if one can, unless the policy asks to be woken; False for a
        policy that may leave coflows waiting for ever.
    order_free : bool
        Whether rates do not depend on the order in which a coflow lists its flows; False for a
        policy that serves flows in list order.
    by_flow_alone : bool
        Whether rates are max-min fair and depend only on the links that flows cross, not on their
        coflows, jobs or sizes; see ``symmetry`` of `netsim.simulate`.
    work_conserving : bool
        Whether it claims to leave no bandwidth that an unfinished flow could use.
    plans_ahead : bool
        Whether the policy knows all jobs before the run, and plans for them: see `prepare`. Such a
        policy is for workloads on a network, whose jobs have hosts.
    asked_ahead : bool
        Whether the policy may be asked before SimPy's clock reaches the time of the decision; False
        for a policy that uses anything besides its view, such as the clock.
    needs_extra : tuple of str or None
        The module and the extra of ``coflow-netsim`` that installs it, if the policy cannot run
        without this module.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Drop the inherited compiled rule from a class that overrides a method of its policy."""
        super().__init_subclass__(**kwargs)
        own = vars(cls)
        if "wakes_on" in own and not hasattr(own["wakes_on"], "__get__"):
            cls.wakes_on = as_event(own["wakes_on"])
        overrides = any(callable(value) and not name.startswith("__")
                        and hasattr(super(cls, cls), name) for name, value in own.items())
        if overrides and own.keys().isdisjoint(("compiled_rule", "by_key")):
            cls.compiled_rule = None  # type: ignore[assignment]

    information: ClassVar[Information] = "clairvoyant"
    predictor: Any = "mean"
    scale_free: ClassVar[bool] = True
    by_flow_alone: bool = False
    plans_ahead: ClassVar[bool] = False
    asked_ahead: ClassVar[bool] = True
    needs_extra: ClassVar[tuple[str, str] | None] = None
    wakes_on: ClassVar[Event] = Event.ANY

    @property
    def order_free(self) -> bool:
        """Whether rates do not depend on the order of flows in a coflow. Default: True."""
        return True

    @property
    def time_free(self) -> bool:
        """Whether rates scale with the unit of time. Default: True."""
        return True

    @property
    def stall_free(self) -> bool:
        """Whether some coflow always sends if one can. Default: True."""
        return True

    @property
    def sees_running(self) -> bool:
        """Whether the policy is told which jobs run, and on which hosts. Default: False.

        If so, it reads `FabricView.running`, and is asked whenever a job begins or ends. Such a
        policy makes runs slower, because the fabric cannot run chains of coflows by itself.
        """
        return False

    @property
    def reserves_gpus(self) -> bool:
        """Whether each coflow gets the part of the NICs that belongs to its GPUs. Default: False.

        If so, the weight of each coflow of a placed job is the share of its LP rates at which it
        sends with this part. Stages of a pipeline then send in turn, so that the parts suffice; see
        `netsim.cluster.placed.nic_share` and ``placed_model``.
        """
        return False

    @property
    def work_conserving(self) -> bool:
        """Whether the policy claims to leave no bandwidth that a flow could use. Default: False."""
        return False

    @property
    def leftover(self) -> str:
        """How the policy allocates left-over bandwidth, in one word, for comparison tables.

        By default, the value of its option `work_conservation`, or an empty string without that
        option.
        """
        return str(getattr(self, "work_conservation", ""))

    @property
    def compiled_rule(self) -> Rule | None:
        """The policy as a compiled rule that the fabric runs itself. Default: None.

        With a rule, the fabric does not call `allocate`, which must give the same result in Python.
        `netsim.testing.check_allocator` compares the two. A subclass that overrides a method has no
        rule unless it defines its own.
        """
        return None

    @property
    def title(self) -> str:
        """The name of the policy in error messages. Default: the name of its class."""
        return type(self).__name__

    @property
    def counts(self) -> Mapping[str, float]:
        """What the policy has counted in its run, for the summary. Default: nothing."""
        return {}

    def prepare(self, coming: Coming) -> None:
        """Plan for all jobs of a run, before it begins; called if the policy ``plans_ahead``.

        Parameters
        ----------
        coming : netsim.fabric.allocator.Coming
            The jobs, and what they will do.
        """

    def allocate(self, view: FabricView) -> Allocation:
        """Return the rates that hold until the next decision.

        Parameters
        ----------
        view : FabricView
            The active coflows and flows; read-only.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement allocate")


# --- what a policy that plans ahead is told ------------------------------------------------
class Steps(NamedTuple):
    """What jobs do, in steps that wait for each other; each sends at most one coflow at a time.

    Attributes
    ----------
    job : ndarray of int, shape (steps,)
        The job of each step; jobs are numbered by (arrival, id), as in a view.
    earliest_s : ndarray of float, shape (steps,)
        The earliest time at which a step can end, with every coflow alone on the network.
    begin_s : ndarray of float, shape (steps,)
        The earliest time at which it can begin to send.
    child, parent : ndarray of int, shape (pairs,)
        A step, and a step before it that it waits for; steps are in topological order.
    gap_s : ndarray of float, shape (pairs,)
        The least time from the end of the parent to that of the child, in seconds.
    owner, link : ndarray of int, shape (loads,)
        A step, and a link that it loads.
    seconds : ndarray of float, shape (loads,)
        For how long the load alone fills the link; 0 on a link that is always dead.
    """

    job: Ints
    earliest_s: Floats
    begin_s: Floats
    child: Ints
    parent: Ints
    gap_s: Floats
    owner: Ints
    link: Ints
    seconds: Floats


class Coming(Protocol):
    """All jobs of a run, as a policy with ``plans_ahead`` is told of them before it begins.

    Times are least times at the highest capacities during the run.

    Attributes
    ----------
    arrival_s : ndarray of float, shape (jobs,)
    weight : ndarray of float, shape (jobs,)
        That of each job, `netsim.JobSpec.weight`, times the largest of its stages.
    """

    @property
    def arrival_s(self) -> Floats: ...

    @property
    def weight(self) -> Floats: ...

    def jobs(self) -> Steps:
        """Return a step for each job, with the loads of all its coflows together."""
        ...

    def coflows(self) -> Steps:
        """Return a step for each stage or operation of each iteration."""
        ...


# --- policies that users write as compiled functions ---------------------------------------
#: What a rule takes.
_TAKES = ("coflows", "jobs", "now", "order")


class CompiledAllocator(Allocator):
    """Base class of the policies that `compiled` makes from functions."""

    #: The rule, with the defaults of its options.
    base_rule: ClassVar[Rule]

    def __post_init__(self) -> None:
        for name, value in self._own_rule().options.items():  # checked and converted
            object.__setattr__(self, name, value)

    @property
    def compiled_rule(self) -> Rule:
        """The compiled rule, with the options of this policy."""
        return self._own_rule()

    def _own_rule(self) -> Rule:
        return self.base_rule.with_options(**{
            name: getattr(self, name) for name in self.base_rule.options})

    @property
    def leftover(self) -> str:
        """How left-over bandwidth is allocated; see `compiled`."""
        return self.base_rule.leftover

    def allocate(self, view: FabricView) -> Allocation:
        """Call the rule once; see `Allocator.allocate`."""
        from netsim.fabric.rule_code import RuleError, RuleRunner

        runner = RuleRunner(self._own_rule(), view._table)
        try:
            runner.ask(view.now)
        except RuleError as error:
            raise AllocationError(f"allocator {self.title} at t = {view.now:g} s {error}"
                                  ) from error
        allocation = runner.allocation()
        if runner.rule.in_step and np.isfinite(runner.limit).any():
            at = view.crossings(runner.limit, view.rates(allocation)).min()
            allocation.revisit_at = min(allocation.revisit_at, max(
                float(at), math.nextafter(view.now, math.inf)))
        return allocation


@known_names
def compiled(function: Callable[..., None] | None = None, *,
             gives: str = "order", leftover: str = "none", stretch: str = "none",
             information: Information = "clairvoyant", wakes_on: str | Event = "coflow",
             reads: Collection[str] | None = None, ties: str = "job", rounding: bool = False,
             options: Mapping[str, float] | None = None, notes: Mapping[str, type] | None = None,
             queues: int = 0) -> Any:
    """Turn a function into a policy that the fabric calls in its own loop, compiled by Numba.

    The function is called as ``rule(coflows, jobs, now, order)``. It reads columns, such as
    ``coflows[c].sent`` and ``jobs[coflows[c].job].attained``, and writes its answer to ``order``.
    It cannot write the columns, returns nothing, and has no state.

    Parameters
    ----------
    function : callable
        The function to decorate.
    gives : {"order", "shares", "weights", "queues", "flows"}
        What the function fills in. ``"order"``: ``order.key[c]``. Coflows are served by increasing
        key, each with the largest share of its LP rates that still fits (MADD). ``"shares"``:
        ``order.share[c]``, as multiples of LP rates. ``"weights"``: ``order.weight[c]``. The flows
        of a coflow split its weight, and links are shared max-min fairly by weight. ``"queues"``:
        ``order.queue[c]``, and ``order.part[q]``, the part of each link that a queue gets. Within a
        queue, coflows are served by key, and the flows of each share what is left max-min fairly.
        ``"flows"``: flows are served by the bytes they have left, then by ``order.key[c]``, each
        with all that its links have left.
    leftover : {"none", "maxmin", "greedy"}
        Who gets left-over bandwidth, with an order or queues. ``"none"``: nobody. ``"maxmin"``: it
        is offered to coflows in order, and the flows of a coflow share it max-min fairly.
        ``"greedy"``: each flow in order takes as much as its links have left. With the last two,
        each flow is simulated separately, which is slower.
    stretch : {"none", "all", "others"}
        Whether shares grow before coflows are served in order. ``"all"``: all shares, by the
        largest common factor that fits. ``"others"``: those of coflows without a share, to the
        largest common share that fits.
    information : {"agnostic", "clairvoyant", "predicted", "job-clairvoyant"}
        What the function may read; see `netsim.Allocator`. Reading more is refused, whatever
        `reads` says. The fabric itself always knows sizes, even when it serves the order of an
        agnostic policy. An agnostic policy cannot give shares or flows, which follow from sizes.
    wakes_on : {"coflow", "flow"} or Event
        When the function is called. ``"coflow"``: when coflows come or end, or a link that
        they use fails or is repaired. If its capacity only changes, what the function saw, and so
        what it said, stands; only shares are asked for again.
        ``"flow"``: also when flows end. This makes no difference with `leftover`, with queues or
        with flows: the fabric then sets rates again at each end of a flow, without a call.
    reads : collection of str, optional
        The columns that are kept up to date; others are NaN, or -1. By default, all columns named
        in the function or in compiled functions that it calls.
    ties : {"job", "arrival"}
        How coflows with equal key and equal ``order.tie[c]`` are ordered: by job, or by the time
        they became valid.
    rounding : bool
        Whether keys that differ only by rounding errors count as equal; see `netsim.ties`.
    options : mapping of str to float, optional
        Options of the policy and their defaults; ``order.options[k]`` is the k-th.
    notes : mapping of str to type, optional
        Names of numbers to record with each decision, and their types, float or int;
        ``order.note[k]`` is the k-th.
    queues : int
        The largest number of queues.

    Returns
    -------
    type
        A class of allocators, with the options as its fields.

    Raises
    ------
    InputError
        If the function has another signature or reads a column that it may not know, or arguments
        contradict each other. If it reads such a column unnoticed so far, or the code cannot be
        compiled, the error is raised at first use.

    Notes
    -----
    ``order`` has more fields. With an order, ``order.share[k]`` is the share that the k-th coflow
    in order gets before all others, and ``order.most[k]`` limits what it gets after that. The
    function is called again when coflow c has sent ``order.limit[c]`` bytes, and at the time
    ``order.wake_at[0]``.

    Examples
    --------
    >>> import netsim
    >>> @netsim.compiled(information="agnostic")
    ... def least_attained(coflows, jobs, now, order):
    ...     for c in range(len(coflows)):
    ...         order.key[c] = jobs[coflows[c].job].attained
    >>> least_attained()
    least_attained()
    """
    def decorate(function: Callable[..., None]) -> type[CompiledAllocator]:
        events = as_event(wakes_on)
        _check_signature(function)
        given, kept = dict(options or {}), dict(notes or {})
        _check_names(function.__name__, given, kept)
        rule = Rule(function, gives, leftover, stretch, ties, rounding, information, events,
                    frozenset(columns_in(function) if reads is None else
                              as_collection(reads, "reads", str, "columns")), given, kept, queues)
        return dataclasses.make_dataclass(
            function.__name__, [(name, float, default) for name, default in given.items()],
            bases=(CompiledAllocator,), frozen=True,
            namespace={"base_rule": rule, "information": information,
                       "wakes_on": events, "__doc__": function.__doc__,
                       "__module__": function.__module__,
                       "__qualname__": function.__qualname__})

    return decorate if function is None else decorate(function)


def _check_signature(function: Callable[..., None]) -> None:
    if not inspect.isfunction(function):
        raise InputError("compiled decorates a function rule(coflows, jobs, now, order), not "
                         f"{function!r}")
    code = function.__code__
    takes = inspect.signature(function)
    if tuple(name.strip("_") for name in takes.parameters) != _TAKES:
        raise InputError(f"rule {function.__name__} must take {len(_TAKES)} arguments, "
                         f"({', '.join(_TAKES)}), not {takes} ({code.co_filename}, line "
                         f"{code.co_firstlineno})")


def _check_names(rule: str, options: Mapping[str, float], notes: Mapping[str, type]) -> None:
    for name in options:
        if not (isinstance(name, str) and name.isidentifier()) or keyword.iskeyword(name) \
                or hasattr(CompiledAllocator, name):
            raise InputError(f"rule {rule} cannot have an option {name!r}: it must be a name that "
                             "is no attribute of allocators", "options")
    for name, kind in notes.items():
        if kind not in (float, int):
            raise InputError(f"rule {rule}: note {name} must be float or int, not {kind!r}",
                             "notes")
