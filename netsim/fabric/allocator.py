"""The base class of allocators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from netsim.fabric.allocation import Allocation, Event, Information, as_event
from netsim.fabric.view import FabricView

if TYPE_CHECKING:
    from netsim.fabric.protocols import Coming
    from netsim.fabric.rule import Rule


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
        coming : netsim.fabric.protocols.Coming
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
