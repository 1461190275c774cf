"""`netsim.Fabric`: the network of a user's SimPy program."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.allocators import make_allocator
from netsim.base.lazy import simpy
from netsim.base.units import Quantity, format_count, parse_seconds
from netsim.base.values import (
    Node,
    as_flag,
    as_label,
    as_list,
    as_name,
    as_weight,
    as_whole,
    known_names,
)
from netsim.errors import InputError, NetsimWarning
from netsim.fabric.allocation import sees
from netsim.fabric.allocator import Allocator
from netsim.network import Topology
from netsim.network.files import as_network
from netsim.results.result import Result
from netsim.scripting.coflow import Coflow
from netsim.scripting.job import Job
from netsim.scripting.run import ProgramRun
from netsim.simulation.events import RunEvent
from netsim.simulation.faults import dead_links, listed
from netsim.simulation.handle import Listener, RunHandle
from netsim.workload import Flows, JobSpec

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


@known_names
class Fabric(RunHandle):
    """A network in a user's SimPy environment, on which processes send coflows.

    `netsim.simulate` uses the same code to move bytes. Coflows submitted at the same time share one
    decision of the allocator. An environment may have several fabrics.

    Coflows with flows that start or end at a failed host fail with `netsim.Cancelled`, also if they
    are submitted after the failure and before the repair. Those of jobs given to `submit` wait.

    Parameters
    ----------
    env : simpy.Environment
        Any environment, including `simpy.rt.RealtimeEnvironment`.
    network : Topology, str or path
    allocator, observe_interval, record, check, seed
        As for `netsim.simulate`; the seed is that of jobs given to `submit`.

    Raises
    ------
    InputError
        If `netsim.simulate` would not accept an argument.

    Examples
    --------
    >>> import simpy, netsim
    >>> env = simpy.Environment()
    >>> fabric = netsim.Fabric(env, netsim.big_switch(2, "8Mbps"))
    >>> def sender():
    ...     done = yield fabric.transfer(0, 1, "3MB")
    ...     print(f"{done.bytes:g} bytes in {done.cct_s:g} s, at {env.now:g} s")
    >>> process = env.process(sender())
    >>> env.run()
    3e+06 bytes in 3 s, at 3 s
    """

    __slots__ = ("_began", "_drawn")
    _open_run: ProgramRun

    def __init__(self, env: simpy.Environment, network: Topology | str, *,
                 allocator: str | Mapping[str, Any] | Allocator | type[Allocator] = "maxmin",
                 observe_interval: Quantity = 0,
                 record: Sequence[str] = ("jobs", "coflows"), check: bool = True,
                 seed: int = 0) -> None:
        if not isinstance(env, simpy.Environment):
            raise InputError(f"env must be a simpy.Environment, not {env!r}")
        super().__init__(ProgramRun(env, as_network(network), make_allocator(allocator),
                                    parse_seconds(observe_interval, "observe_interval"), record,
                                    as_flag(check, "check"), as_whole(seed, "seed")))
        self._drawn = next(env._eid)  # of the numbers of SimPy's events
        self._began = time.perf_counter()

    @property
    def env(self) -> simpy.Environment:
        """The environment."""
        return self._open_run.env

    @property
    def network(self) -> Topology:
        """The network."""
        return self._open_run.network

    @property
    def _run(self) -> ProgramRun:
        self._open_run.check_clock()
        return self._open_run

    def _change(self, change: Callable[..., Any], *given: Any) -> Any:
        with self._open_run.fabric.closing(InputError):
            return change(*given)

    def _call(self, function: Listener, event: RunEvent) -> None:
        function(event)

    # --- jobs and coflows -------------------------------------------------------------

    @known_names
    def job(self, name: str = "", *, hosts: Sequence[Node] | None = None,
            communication_s: Quantity | None = None, gpus: int = 1,
            alone_s: Quantity | None = None, weight: float = 1.0,
            group: int | str | None = None) -> Job:
        """Make a job, which arrives now; policies that rank jobs see its coflows as one job.

        Parameters
        ----------
        name : str
        hosts : sequence of int or str, optional
            The hosts that it runs on, by number or name, for allocators that are told which jobs
            run.
        communication_s : quantity, optional
            Sum of the effective bottlenecks of all coflows that it will submit, or a prediction of
            it, for allocators that know the future of jobs or go by predictions (``information`` is
            ``"job-clairvoyant"`` or ``"predicted"``).
        gpus : int
            GPUs that it holds, for `netsim.fabric.view.FabricView.job_service`.
        alone_s : quantity, optional
            Seconds that it would take if it were alone, computation included, for the same. By
            default `communication_s`.
        weight : float
            Its priority, for policies that use weights: that of each of its coflows is this times
            the coflow's own.
        group : int or str, optional
            A label of jobs that belong together, for policies that look at it.

        Raises
        ------
        InputError
            If the allocator needs an argument that is not given, or a value is not allowed.
        """
        name = as_name(name, "name of a job")
        allocator = self._open_run.fabric.allocator
        if communication_s is None and sees(allocator.information, "predicted"):
            raise InputError(f"allocator {allocator.title} knows or predicts what jobs are yet to "
                             "send: give communication_s, the sum of the effective bottlenecks of "
                             "the coflows")
        if allocator.sees_running and hosts is None:
            raise InputError(f"allocator {allocator.title} is told which jobs run, and where: give "
                             "hosts")
        where = self.network.host_numbers(as_list(
            () if hosts is None else hosts, "hosts", int | np.integer | str | tuple,
            "names or numbers"))
        gpus = as_whole(gpus, "gpus", 1)
        weight = as_weight(weight, "weight of a job")
        group = as_label(group, "group of a job")
        ahead_s = 0.0 if communication_s is None else parse_seconds(communication_s,
                                                                    "communication_s")
        return self._run.add_job(
            name, where, ahead_s,
            ahead_s if alone_s is None else parse_seconds(alone_s, "alone_s"), gpus, weight, group)

    @known_names
    def coflow(self, flows: Flows | Iterable[tuple[Node, Node, Quantity]] | NDArray[Any]
               | pd.DataFrame, *, job: Job | None = None, name: str = "coflow",
               weight: float = 1.0, deadline_s: Quantity | None = None) -> Coflow:
        """Submit a coflow now; return the event of its completion.

        Parameters
        ----------
        flows : Flows, iterable of (src, dst, nbytes), ndarray or DataFrame
            Flows between hosts, by number or name: as an array, of shape (flows, 3); as a table,
            with the columns src, dst and nbytes. A `Flows` object, with numbers as hosts, is routed
            only once if it is submitted repeatedly.
        job : Job, optional
            The job of the coflow. By default, the coflow gets its own job, which ends with it.
        name : str
            The name in records; coflows with the same name and job take the same paths.
        weight : float
            How much it counts among the coflows of its job, for policies that use weights.
        deadline_s : quantity, optional
            Seconds from now by which it should complete.

        Raises
        ------
        InputError
            If the job has ended or belongs to another fabric, or a flow is invalid.
        """
        return self._run.coflow(flows, job, name, weight, deadline_s)

    @known_names
    def transfer(self, src: Node, dst: Node, nbytes: Quantity, *, job: Job | None = None,
                 name: str = "transfer", weight: float = 1.0, deadline_s: Quantity | None = None
                 ) -> Coflow:
        """Submit a coflow of one flow; see `coflow`."""
        return self.coflow([(src, dst, nbytes)], job=job, name=name, weight=weight,
                           deadline_s=deadline_s)

    def submit(self, job: JobSpec) -> simpy.Event:
        """Add a job of netsim, which arrives now or later; return the event of its end.

        It runs as `netsim.simulate` runs it, beside the coflows of your processes: it sends its
        coflows by itself, on its hosts or on those that the seed draws for it. It is in the tables
        from its arrival on, when it gets its number; its own id counts only for what is drawn. The
        value of the event is a `netsim.scripting.job.JobDone`.

        Raises
        ------
        InputError
            If its arrival is in the past, or it cannot run here.
        """
        event: simpy.Event = self._change(self._run.submit, job)
        return event

    # --- the result -------------------------------------------------------------------

    def result(self) -> Result:
        """Return the tables recorded until now; see `netsim.Result`.

        May be called at any time. Times that are not known yet are NaN for coflows in flight or
        cancelled, and for jobs that have not ended. Cancelled coflows have a row in `other_coflows`
        as well, with the end and the bytes that were sent. The iteration of your coflows is 0. The
        ranks of your jobs are 0, and their lower_bound_s is NaN, because both are unknown. The
        bytes of a job are those of its completed coflows.

        Raises
        ------
        InputError
            If an error, such as one of the allocator or Ctrl-C, has closed the fabric.
        """
        run = self._open_run
        run.fabric.check_open()
        if run.env.peek() == math.inf and (waiting := run.waiting()):
            warnings.warn(NetsimWarning("; ".join(
                ["no event is left, and coflows wait for bandwidth: "
                 + listed(f"{number} {name!r}" for number, name in waiting),
                 *dead_links(run.fabric)])), stacklevel=2)
        self._drawn += 1  # the number drawn here belongs to no event
        return run.result(next(run.env._eid) - self._drawn, time.perf_counter() - self._began)

    def __repr__(self) -> str:
        run = self._open_run
        return (f"<Fabric of {run.network.name!r} under {run.allocator.title} at "
                f"{run.env.now:g} s: {format_count(len(run.fabric.in_flight.all()), 'coflow')} "
                "in flight>")
