"""A Gymnasium environment in which an agent takes the decisions of a coflow scheduler."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from netsim.base.arrays import Floats
from netsim.base.units import Quantity
from netsim.base.values import is_whole
from netsim.cluster import Cluster
from netsim.errors import InputError, MissingExtraError, UnknownNameError
from netsim.fabric.allocation import Allocation, Event, Information
from netsim.fabric.allocator import Allocator, Undecided
from netsim.fabric.view import FabricView
from netsim.network import Topology
from netsim.simulation.events import RunEvent
from netsim.simulation.simulation import Simulation
from netsim.ties import rank
from netsim.workload import Workload

try:
    import gymnasium
    from gymnasium import spaces
except ImportError:
    raise MissingExtraError("gymnasium", "gym") from None

__all__ = ["COLUMNS", "CoflowEnv"]

#: What an agent observes of each coflow; see `netsim.FabricView`.
COLUMNS = ("sent", "remaining", "gamma", "width", "weight", "valid_s", "job_attained",
           "job_completed")

#: Those of them that an agent without information on sizes does not observe.
_SIZES = {"remaining", "gamma"}

_ACTIONS = ("order", "shares")
_INFORMATION = ("agnostic", "clairvoyant")

#: Replaces infinity, which does not suit spaces; no size, time or key is as large.
_MOST = 1e18


class _Agent(Allocator):
    """Answers once with the agent's decision; otherwise, the run waits for the agent."""

    wakes_on: ClassVar[Event] = Event.COFLOW
    #: The run is held at each decision, so none may be made ahead of the clock.
    asked_ahead: ClassVar[bool] = False

    def __init__(self, action: str, leftover: str) -> None:
        self._action, self._leftover = action, leftover
        self.decided: Floats | None = None
        self.view: FabricView | None = None

    @property
    def leftover(self) -> str:
        return self._leftover

    def allocate(self, view: FabricView) -> Allocation:
        decided, self.decided = self.decided, None
        if decided is None:
            self.view = view
            raise Undecided("the agent has not decided yet: call step with an action, or set "
                            "another allocator")
        self.view = None
        # Coflows that the agent does not see come last.
        given = np.full(len(view), math.inf if self._action == "order" else 0.0)
        shown = min(len(decided), len(view))
        given[:shown] = decided[:shown]
        if self._action == "order":
            return Allocation(order=rank(given), leftover=self._leftover)
        if not given.any():
            given[:] = 1.0
        return Allocation(shares=given * min(view.common_factor(given), 1.0))


class CoflowEnv(gymnasium.Env[dict[str, Any], Floats]):
    """Runs of a workload in which an agent decides at each coflow event.

    An observation is a dict of arrays of length `coflows`. Those named in `COLUMNS` have one value
    per coflow, in order of arrival. ``active`` is 1 for entries of existing coflows; all other
    entries are 0. ``now`` is the time in seconds. Infinite values, such as gamma on a failed link,
    are replaced by 1e18. An action also has one value per entry. If there are more coflows than
    entries, the last to arrive are not seen, and are served last.

    Parameters
    ----------
    network : Topology, Cluster or str
        As for `netsim.Simulation`.
    workload : Workload, str or callable
        As for `netsim.Simulation`; or a function that returns a workload for a seed, so that each
        episode has another workload.
    coflows : int
        The largest number of coflows that an agent sees.
    action : {"order", "shares"}
        The meaning of an action. ``"order"``: keys; coflows are served by increasing key, at MADD
        rates. The action space is from -1 to 1, but any numbers may be given, because only their
        order counts. ``"shares"``: shares of LP rates (see the glossary), from 0 to 1; they are
        scaled down if they exceed a capacity. If all shares are 0, coflows get equal shares.
    leftover : {"maxmin", "greedy", "none"}
        With ``action="order"``: how left-over bandwidth is allocated; see `netsim.Allocation`.
    information : {"clairvoyant", "agnostic"}
        Whether observations include the sizes of coflows.
    reward : callable, optional
        ``reward(sim, start_s, active)`` returns the reward of a step. The arguments are the
        simulation at the end of the step, the time at which the step began, and the number of
        coflows that were active at that time. By default, minus the seconds for which coflows were
        active during the step, summed over coflows. Over an episode, these rewards add up to minus
        the sum of the coflows' completion times, as the simulation observes them.
    until : quantity, optional
        Time at which an episode is cut off.
    **options
        Further arguments of `netsim.Simulation`.

    Attributes
    ----------
    sim : Simulation
        The run of this episode, for inspection.

    Raises
    ------
    InputError
        If an argument is invalid.
    MissingExtraError
        When this module is imported, if Gymnasium is not installed.

    Examples
    --------
    An agent that equals SEBF:

    >>> import netsim
    >>> from netsim.gym import CoflowEnv
    >>> env = CoflowEnv("parrot-fig2", "parrot-fig2", coflows=4)
    >>> seen, _ = env.reset(seed=1)
    >>> done = False
    >>> while not done:
    ...     keys = np.where(seen["active"], seen["gamma"], 0)
    ...     seen, reward, done, cut_off, _ = env.step(keys)
    >>> alone = netsim.simulate("parrot-fig2", "parrot-fig2", allocator="sebf")
    >>> bool((env.sim.result().jobs["jct_s"] == alone.jobs["jct_s"]).all())
    True
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # as Gymnasium has it

    def __init__(self, network: Topology | Cluster | str,
                 workload: Workload | str | Callable[[int], Workload], *, coflows: int = 32,
                 action: str = "order", leftover: str = "maxmin",
                 information: Information = "clairvoyant",
                 reward: Callable[[Simulation, float, int], float] | None = None,
                 until: Quantity | None = None, **options: Any) -> None:
        if action not in _ACTIONS:
            raise UnknownNameError("action", action, _ACTIONS)
        if information not in _INFORMATION:
            raise UnknownNameError("information", information, _INFORMATION)
        if not (is_whole(coflows) and coflows > 0):
            raise InputError(f"coflows must be a whole number of at least 1, not {coflows!r}")
        if reward is not None and not callable(reward):
            raise InputError(f"reward must be a function, not {reward!r}")
        if action == "shares" and leftover != "maxmin":
            raise InputError(f"leftover={leftover!r} is for orders; shares leave nothing over")
        for name, why in (("allocator", "the agent is the allocator"),
                          ("seed", "give the seed to reset")):
            if name in options:
                raise InputError(f"{name}: {why}")
        self._network, self._workload, self._options = network, workload, options
        self._coflows, self._action, self._leftover = coflows, action, leftover
        self._columns = [name for name in COLUMNS
                         if information != "agnostic" or name not in _SIZES]
        self._reward, self._until = reward, until
        self._active = 0
        self.observation_space = spaces.Dict({
            **{name: spaces.Box(0.0, _MOST, (coflows,), np.float64) for name in self._columns},
            "active": spaces.MultiBinary(coflows),
            "now": spaces.Box(0.0, _MOST, (1,), np.float64)})
        self.action_space = spaces.Box(-1.0 if action == "order" else 0.0, 1.0, (coflows,),
                                       np.float64)

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
              ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin another episode, and run it up to its first decision; see Gymnasium.

        The seed is used for the simulation, and for the workload if it is a function. Without a
        seed, each episode draws its own.
        """
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(2**31))
        workload = self._workload(drawn) if callable(self._workload) else self._workload
        self.sim = Simulation(self._network, workload, seed=drawn,
                              allocator=_Agent(self._action, self._leftover), **self._options)
        self._waiting, self._since_s, self._waited_s = 0, 0.0, 0.0
        if self._reward is None:
            self.sim.on("coflow-valid", self._hear)
            self.sim.on("coflow-done", self._hear)
        agent = self.sim.allocator  # a copy of that
        assert isinstance(agent, _Agent)
        self._agent = agent
        self._go_on()
        return self._seen(), self._info()

    def step(self, action: Floats) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Apply an action, and run up to the next decision; see Gymnasium.

        An episode is terminated when all jobs have finished, and truncated at `until`.

        Raises
        ------
        InputError
            If an action has the wrong shape, or is not a number.
        """
        if not hasattr(self, "sim"):
            raise InputError("call reset before step")
        decided = np.asarray(action, np.float64)
        if decided.shape != (self._coflows,) or np.isnan(decided).any():
            raise InputError(f"an action has {self._coflows} numbers, not {action!r}")
        if self._action == "shares" and not ((decided >= 0) & (decided <= 1)).all():
            raise InputError(f"shares are from 0 to 1, not {action!r}")
        start_s, active = self.sim.now, self._active
        self._agent.decided = decided
        held = self._go_on()
        reward = (self._seconds_of_coflows() if self._reward is None
                  else self._reward(self.sim, start_s, active))
        ended = self.sim.ended
        return self._seen(), float(reward), ended, not (held or ended), self._info()

    def _go_on(self) -> bool:
        """Run up to the next decision, or the end; return whether it is a decision."""
        try:
            self.sim.run(self._until)
        except Undecided:
            return True
        return False

    def _seen(self) -> dict[str, Any]:
        view = self._agent.view
        self._active = 0 if view is None else len(view)
        count = min(self._active, self._coflows)
        seen: dict[str, Any] = {name: np.zeros(self._coflows) for name in self._columns}
        for name in self._columns:
            if view is not None:
                seen[name][:count] = np.clip(getattr(view, name)[:count], 0.0, _MOST)
        active = np.zeros(self._coflows, np.int8)
        active[:count] = 1
        return {**seen, "active": active, "now": np.array([self.sim.now])}

    def _info(self) -> dict[str, Any]:
        return {"coflows": self._active, "hidden": max(self._active - self._coflows, 0)}

    def _hear(self, event: RunEvent) -> None:
        """Sum the seconds for which coflows have been active."""
        self._waited_s += self._waiting * (event.at_s - self._since_s)
        self._since_s = event.at_s
        self._waiting += 1 if event.kind == "coflow-valid" else -1

    def _seconds_of_coflows(self) -> float:
        """Return minus the seconds of active coflows since the last call."""
        now, waited = self.sim.now, self._waited_s + self._waiting * (self.sim.now - self._since_s)
        self._since_s, self._waited_s = now, 0.0
        return -waited
