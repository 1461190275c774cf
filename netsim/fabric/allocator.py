"""What an allocator is: the base class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from netsim.fabric.allocation import Allocation, Event, Information
from netsim.fabric.view import FabricView

if TYPE_CHECKING:
    from netsim.fabric.rule import Rule

__all__ = ["Allocator", "Undecided"]


class Undecided(Exception):
    """Raised by a policy that is not ready to answer: it is asked again when the run goes on.

    The policy must not be `Allocator.asked_ahead`.
    """


class Allocator:
    """Base of bandwidth allocators: implement `allocate`, and say what the policy sees.

    A policy without state is a pure function of the view. State, where one is needed,
    lives on the instance; each run gets a fresh copy.

    Attributes
    ----------
    information : {"clairvoyant", "agnostic", "job-clairvoyant"}
        What the policy may see, see `Information`; sizes that it may not see are NaN.
    wakes_on : Event
        The events on which it is asked. It is always asked after a capacity change, and when
        it has asked to be.
    scale_free : bool
        Whether rates scale with the unit of bytes; False for a policy that counts in absolute
        bytes, such as thresholds of queues. `netsim.testing.check_allocator` holds it to that.
    time_free : bool
        Whether rates scale with the unit of time; False for a policy that counts in absolute
        seconds, such as an interval or a time after which nobody waits any more. Held to it
        likewise.
    stall_free : bool
        Whether somebody moves as long as some coflow could, or it asks to be woken; False for a
        policy that may leave coflows waiting for ever. Held to it likewise.
    order_free : bool
        Whether it does not matter in which order a coflow lists its flows; False for a policy
        that serves flows in list order. Held to it likewise.
    by_flow_alone : bool
        Whether rates follow from the links that flows cross alone, max-min fairly, whatever their
        coflows, jobs and sizes; see ``symmetry`` of `netsim.simulate`.
    work_conserving : bool
        Whether it claims that no unfinished flow could be given more.
    asked_ahead : bool
        Whether it may be asked ahead of SimPy's clock; False for a policy that looks at something
        beside its view, such as the clock.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Drop the inherited rule of a class that overrides a method of its policy."""
        super().__init_subclass__(**kwargs)
        own = vars(cls)
        says_anew = any(callable(value) and not name.startswith("__")
                        and hasattr(super(cls, cls), name) for name, value in own.items())
        if says_anew and own.keys().isdisjoint(("compiled_rule", "by_key")):
            cls.compiled_rule = None  # type: ignore[assignment]

    information: ClassVar[Information] = "clairvoyant"
    scale_free: ClassVar[bool] = True
    by_flow_alone: bool = False
    asked_ahead: ClassVar[bool] = True
    wakes_on: ClassVar[Event] = Event.ANY

    @property
    def order_free(self) -> bool:
        """Whether the order in which a coflow lists its flows does not matter; True unless said."""
        return True

    @property
    def time_free(self) -> bool:
        """Whether rates scale with the unit of time; True unless said."""
        return True

    @property
    def stall_free(self) -> bool:
        """Whether somebody moves as long as some coflow could; True unless said."""
        return True

    @property
    def sees_running(self) -> bool:
        """Whether it is told which jobs run, and where; False unless said.

        Then `FabricView.running` says so, and it is asked whenever a job begins or ends. Such a
        policy costs more: no job is left to the fabric to go through.
        """
        return False

    @property
    def reserves_gpus(self) -> bool:
        """Whether it gives coflows the part of NICs that their GPUs have; False unless said.

        Then a coflow of a job that a cluster has placed comes with that part, a share of its LP
        rates, as its weight, and stages of a pipeline exchange in turn so that parts suffice; see
        `netsim.cluster.placed.nic_share` and ``placed_model``.
        """
        return False

    @property
    def work_conserving(self) -> bool:
        """Whether the policy claims that no flow could be given more; False unless said."""
        return False

    @property
    def leftover(self) -> str:
        """Who gets what its order leaves of the links, in a word, for tables that compare.

        Its option `work_conservation`, or nothing if it has none, unless said.
        """
        return str(getattr(self, "work_conservation", ""))

    @property
    def compiled_rule(self) -> Rule | None:
        """The policy as a compiled rule, by which the fabric then goes; None unless said.

        The policy is then not asked, but `allocate` says the same in Python: see
        `netsim.testing.check_allocator`, which holds one against the other. A class that overrides
        a method of such a policy has no rule, unless it says so itself.
        """
        return None

    @property
    def title(self) -> str:
        """What errors call it; the name of its class unless said."""
        return type(self).__name__

    @property
    def counts(self) -> Mapping[str, int]:
        """What the policy has counted in its run, for the summary; nothing unless said."""
        return {}

    def allocate(self, view: FabricView) -> Allocation:
        """Return the rates that hold until the next decision.

        Parameters
        ----------
        view : FabricView
            The active coflows and flows; read-only.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement allocate")
