"""The rows that the fabric and its kernels share: flows, hops, loads, coflows, jobs.

Each is a NumPy structured dtype, so that a kernel takes one array per kind of row and
reads ``coflows[c].left`` as Python would.
"""

from __future__ import annotations

import numpy as np

from netsim.base.compiling import row_type

#: Relative tolerance of a flow's size, a link's capacity or a share: less counts as nothing.
DUST = 1e-9

#: Relative error of a coflow's bytes after subtractions.
ROUNDINGS = 4 * np.finfo(np.float64).eps

#: A flow of fewer bytes counts as empty: divisions by its bytes would leave the range of floats.
LEAST_BYTES = 1e-100

#: A flow of ``size`` bytes from ``src`` to ``dst``, of which it has ``remaining``. It crosses
#: ``hops`` links, those of the HOP rows from ``hop`` on. ``finish`` is when it ends at its present
#: ``rate``, ``weight`` its weight where the fabric shares fairly, ``payload`` its bytes without
#: headers, ``latency`` that of its path, ``index`` its place in the stage's list.
FLOW = row_type([("size", "f8"), ("remaining", "f8"), ("rate", "f8"), ("finish", "f8"),
                 ("weight", "f8"), ("payload", "f8"), ("latency", "f8"), ("hop", "i8"),
                 ("hops", "i4"), ("src", "i4"), ("dst", "i4"), ("index", "i4")])

#: A flow on a ``link``; ``slot`` is the link's place among the loads of the coflow.
HOP = row_type([("link", "i8"), ("slot", "i8")])

#: A coflow on a ``link``: ``nbytes`` are what all its flows have to send over it.
LOAD = row_type([("link", "i8"), ("nbytes", "f8")])

#: What goes on when a coflow has completed: the next coflow of its chain, at once or after a pause;
#: the process that submitted it; nothing, as its completion has been reported; or operations of its
#: graph.
NEXT_IN_CHAIN, WAITED, REPORTED, IN_GRAPH = 1, 2, 3, 4

#: An active coflow of a ``job``, with ``total`` bytes in the ``flows``, ``hops`` and ``loads`` rows
#: from ``flow``, ``hop`` and ``load`` on. What is left to send is ``left`` times what its FLOW and
#: LOAD rows say: policies that keep a coflow's flows in step change one number here (``left``, at
#: ``speed`` per second) and never touch the flows. ``base`` is the sum of the flows' ``remaining``,
#: ``gamma`` the effective bottleneck of the LOAD rows; ``fresh`` is 2 if both hold, 1 if the gamma
#: is out of date, 0 if the loads are too. ``finish`` is when the coflow ends at its present rates,
#: ``last`` when the last of its flows ended, ``start`` when it first moved (-1: not yet), ``open``
#: the number of its unfinished flows, ``key`` a number that identifies it, ``nominal_gamma`` that
#: of all its bytes at nominal capacities, ``order`` its place in its job, ``deadline`` the instant
#: by which it should finish (inf: none), ``max_hops`` the most links that one of its flows crosses,
#: ``longest`` the bytes of its longest flow, ``waited`` says what goes on when it has completed:
#: nothing if 0 or `REPORTED`, else `NEXT_IN_CHAIN`, `WAITED` or `IN_GRAPH`; ``split`` the weight
#: that its unfinished flows have together, 0 if each has its own, ``thinner`` 1 if one has ended
#: since that was split, ``unit`` the number of its unit in the max-min engine. The coflow
#: begins, and is ``valid`` for policies, ``overhead`` seconds after its stage is. ``arrives`` is
#: the arrival of its messages without bytes (-inf if there are none), and that of all its flows
#: once it has completed; ``reach`` is the longest latency of a flow, ``payload`` the bytes of all
#: without headers. The columns that each decision reads come first, side by side.
COFLOW = row_type([("left", "f8"), ("speed", "f8"), ("finish", "f8"), ("open", "i8"),
                   ("gamma", "f8"), ("job", "i8"), ("key", "i8"), ("base", "f8"),
                   ("total", "f8"), ("start", "f8"), ("last", "f8"), ("fresh", "i8"),
                   ("load", "i8"), ("loads", "i8"), ("valid", "f8"), ("weight", "f8"),
                   ("nominal_gamma", "f8"), ("order", "i8"), ("flow", "i8"), ("flows", "i8"),
                   ("hop", "i8"), ("hops", "i8"), ("deadline", "f8"), ("max_hops", "i8"),
                   ("longest", "f8"), ("waited", "i8"), ("split", "f8"), ("thinner", "i8"),
                   ("unit", "i8"), ("overhead", "f8"), ("arrives", "f8"), ("reach", "f8"),
                   ("payload", "f8")])

NO_COFLOWS = np.empty(0, COFLOW)

#: A job, with its ``arrival``: ``attained`` bytes of its ``completed`` coflows, ``sent`` those of
#: the active ones too (as of the last `job_attained`), ``ahead`` the sum of the gammas of coflows
#: that it has not emitted yet, ``predicted`` what that is predicted to be, ``longest`` the longest
#: gamma of those that it has, ``active`` the number of its active coflows, ``gpus`` those that it
#: holds, ``per_gamma`` the seconds that it takes alone for each second of ``ahead`` (both 0 if not
#: known).
JOB = row_type([("arrival", "f8"), ("attained", "f8"), ("sent", "f8"), ("ahead", "f8"),
                ("predicted", "f8"), ("longest", "f8"), ("completed", "i8"), ("active", "i8"),
                ("gpus", "f8"), ("per_gamma", "f8")])

#: A job that the fabric runs by itself. As a *chain*, it sends one coflow after the other: its
#: ``stages``, from ``first`` on among those of all, follow each other, round and round, until
#: ``total`` coflows have been ``emitted``; the next is due at ``due``, inf while one is active.
#:
#: As a *graph*, its ``count`` operations are done in each of its ``iterations``. They, their
#: ``children`` and their ``state`` are from these places on. The first iteration that is not
#: complete is ``iteration``; those before ``opened`` may have begun. Those from ``kept`` on have
#: their state in one of ``slots`` each, round and round. ``finish`` is the latest end so far, and
#: ``noticed`` the time at which it is noticed. Its stages are the coflows of the operations, and
#: it is never due as a chain.
GRAPH = row_type([("first", "i8"), ("stages", "i8"), ("emitted", "i8"), ("total", "i8"),
                  ("due", "f8"), ("operations", "i8"), ("count", "i8"), ("iteration", "i8"),
                  ("iterations", "i8"), ("opened", "i8"), ("kept", "i8"), ("slots", "i8"),
                  ("state", "i8"), ("children", "i8"), ("finish", "f8"), ("noticed", "f8")])

#: A stage sends a ``coflow``, given by its place among those of all graphs. In a chain, it begins
#: ``pause`` seconds after the coflow before has arrived, its overhead included.
STAGE = row_type([("coflow", "i8"), ("pause", "f8")])

#: An operation computes for ``compute_s``, and then ``sends`` that one of its graph's coflows, if
#: not -1. It waits for as many others as there are ``blockers``; in the first iteration, for
#: ``blockers_first``. From ``child`` on there are as many ``children`` that wait for it, and
#: then those that do in the next iteration, ``nexts``.
OPERATION = row_type([("compute_s", "f8"), ("sends", "i8"), ("child", "i8"), ("children", "i4"),
                      ("nexts", "i4"), ("blockers", "i4"), ("blockers_first", "i4")])

#: How far an operation is in an iteration: for how many others it still waits (``blockers``), and
#: the latest end of those that it does not wait for any more: with none left, it is ``ready`` then.
#: Its coflow ``begins`` when it has computed, and its overhead is over. After the operations of an
#: iteration there is one row more, whose ``blockers`` are the operations that have not ended.
STATE = row_type([("ready", "f8"), ("begins", "f8"), ("blockers", "i8")])

#: The numbers of coflows of graphs that will begin (``begins``) and that are ``due`` but not yet
#: active, of operations that are ``parked`` until there is a slot for the next iteration, and of
#: graphs that have ``ended``.
GRAPHS = row_type([("begins", "i8"), ("due", "i8"), ("parked", "i8"), ("ended", "i8")])

#: The state of the event loop. Bytes are as of ``now``; at the rates in force the next flow ends at
#: ``end``, in ``dt`` seconds, and a coflow reaches its limit at ``limit_at``. The loop stops before
#: ``bound``, when the policy must be asked, and is held before ``until``, when SimPy has an event.
#: Events are observed at multiples of ``interval``, and next at ``observed_at``, inf if nothing has
#: happened; the next coflow of a chain becomes valid at ``due``. The observer has been told what
#: happened until ``reported_until``; it is told when ``pause`` says. There are ``count`` rows, and
#: ``key`` is that of the next. Since the loop began, ``admitted`` pending coflows have become
#: active; since the last pause, the number of jobs with an active coflow has grown by ``idle``,
#: ``removed`` coflows have gone from the rows, ``ended`` flows have ended, and there were
#: ``decisions``. ``finished`` coflows have completed and are not noticed yet. The loop
#: ``admits_arrivals``, and so goes on past coflow events, and ``removes_finished`` coflows from the
#: rows. With ``advance_only``, it only moves bytes until ``observed_at``; with ``simultaneous``,
#: flows that end within a few roundings end at once. ``decides`` says that the next rates are a
#: decision, ``reason`` why the loop has stopped, ``link`` which link is overloaded, ``shows`` that
#: coflows have come, begun or ended, or that there was a decision: with ``stepwise``, the loop is
#: held then. After ``steps`` steps it returns, so that Python can handle signals.
LOOP = row_type([("now", "f8"), ("dt", "f8"), ("end", "f8"), ("limit_at", "f8"), ("until", "f8"),
                 ("interval", "f8"), ("observed_at", "f8"), ("due", "f8"),
                 ("reported_until", "f8"), ("pause", "i8"), ("count", "i8"), ("key", "i8"),
                 ("admitted", "i8"), ("idle", "i8"), ("removed", "i8"), ("ended", "i8"),
                 ("decisions", "i8"), ("finished", "i8"), ("admits_arrivals", "i8"),
                 ("removes_finished", "i8"), ("advance_only", "i8"), ("simultaneous", "i8"),
                 ("decides", "i8"), ("reason", "i8"), ("link", "i8"), ("bound", "f8"),
                 ("shows", "i8"), ("stepwise", "i8"), ("steps", "i8")])
