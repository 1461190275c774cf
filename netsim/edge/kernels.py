"""Compiled loops over the queues of workers: HAPRF, Q of Eq. 5 and A_greedy.

`tests.twins.a_online` is a readable version; tests compare the two.

The arrays have the meaning, shapes and names of `netsim.edge.schedule.Queues`. Queues are in order
of HAPRF, so that a worker trains the first chunk of its queue that is ready.
"""

from __future__ import annotations

from netsim import ties
from netsim.base.compiling import in_place
from netsim.ties import ROUNDING

_equal = in_place(ties.equal)


@in_place
def _earliest_ready(row, count, left, ready):
    """The earliest instant at which an unfinished chunk becomes ready; inf if there is none."""
    least = float("inf")
    for k in range(count):
        if left[k] > 0 and ready[row[k]] < least:
            least = ready[row[k]]
    return least


@in_place
def project(row, count, left, ready, now, until, later):
    """Project one queue from `now` to `until` as if no more chunks arrived.

    Fills `later[k]` with the seconds of training that chunk `row[k]` will have left; 0 if it will
    have finished.
    """
    for k in range(count):
        later[k] = left[row[k]]
    while now * (1 + ROUNDING) < until:
        first = 0
        while first < count and not (later[first] > 0
                                     and ready[row[first]] <= now * (1 + ROUNDING)):
            first += 1
        stop = min(until, _earliest_ready(row, first, later, ready))
        if first < count:
            end = now + later[first]
            if end <= stop * (1 + ROUNDING):
                later[first] = 0.0
                stop = end
            else:
                later[first] -= stop - now
        now = stop


@in_place
def advance(workers, until, queue, count, clock, current, since, left, ready, finish, preemptions,
            job_of, unfinished, ended, log_chunk, log_start, log_end, logged, work):
    """Simulate workers up to an instant; return the number of training intervals logged so far.

    The chunks that train from `until` on are not chosen yet, since more chunks may be dispatched at
    that instant. Instants that differ from `until` only by rounding count as `until`.

    After about `work` looks at chunks, return early, and say so; the next call goes on.
    """
    for worker in workers:
        row, now = queue[worker], clock[worker]
        while count[worker] > 0 and now * (1 + ROUNDING) < until:
            work -= count[worker]
            if work < 0:
                clock[worker] = now
                return logged, False
            first, upcoming = 0, float("inf")
            while first < count[worker] and ready[row[first]] > now * (1 + ROUNDING):
                upcoming = min(upcoming, ready[row[first]])
                first += 1
            stop = min(until, upcoming)
            if first == count[worker]:
                now = stop
                continue
            chunk = row[first]
            if current[worker] != chunk:
                if current[worker] >= 0:
                    log_chunk[logged], log_end[logged] = current[worker], now
                    log_start[logged] = since[worker]
                    logged += 1
                    preemptions[current[worker]] += 1
                current[worker], since[worker] = chunk, now
            end = now + left[chunk]
            if end > stop * (1 + ROUNDING):
                left[chunk] -= stop - now
                now = stop
                continue
            log_chunk[logged], log_start[logged], log_end[logged] = chunk, since[worker], end
            logged += 1
            current[worker] = -1
            left[chunk], finish[chunk], now = 0.0, end, end
            job = job_of[chunk]
            unfinished[job] -= 1
            ended[job] = max(ended[job], end)
            count[worker] -= 1
            for k in range(first, count[worker]):
                row[k] = row[k + 1]
        clock[worker] = max(now, until)
    return logged, True


@in_place
def insert(chunks, where, queue, count, weight):
    """Insert chunks into the queues of their workers, behind chunks of equal weight."""
    for k in range(len(chunks)):
        worker, chunk = where[k], chunks[k]
        row, place = queue[worker], count[worker]
        while place > 0 and weight[row[place - 1]] > weight[chunk]:
            row[place] = row[place - 1]
            place -= 1
        row[place] = chunk
        count[worker] += 1


@in_place
def calculate_q(row, count, left, ready, weight, share, now, delay, p, chunks, own, later):
    """Compute Q of Eq. 5 for one worker, and the time from `now` to the planned start.

    `own` is D p0 of the new chunk's job, `chunks` is the number of its chunks, and `later` is a
    work array for `project`.
    """
    project(row, count, left, ready, now, now + delay, later)
    ahead = harm = 0.0
    for k in range(count):
        if weight[row[k]] <= own:
            ahead += later[k]
        elif later[k] > 0:
            harm += share[row[k]]
    return (delay + ahead + p) / chunks + p * harm, delay + ahead


@in_place
def _least_q(q, workers, server_of, room, cloud):
    """Find the first worker with the least Q among those whose server has room.

    The result is an index into `workers`, or -1 for the cloud, which loses ties; `cloud` is the Q
    of the cloud, or inf if there is none.
    """
    least = cloud
    for k in range(len(workers)):
        if room[server_of[workers[k]]] > 0 and q[k] < least:
            least = q[k]
    if least < float("inf"):
        for k in range(len(workers)):
            if room[server_of[workers[k]]] > 0 and _equal(q[k], least):
                return k
    return -1


@in_place
def greedy(workers, server_of, room, delays, queue, count, left, ready, weight, share, now, p,
           chunks, own, cloud_delay, cloud_p, has_cloud, q, start, later, where, alpha, t_star):
    """Dispatch the chunks of a job by A_greedy; return the number of chunks placed.

    `room` is the number of the job's chunks that each server can still store, and decreases in
    place. Training times are `p` (zeta = 0) and, in the cloud, `cloud_p` (zeta = 1); `own` is D p0
    of the job. `q`, `start` and `later` are work arrays: the first two have the length of
    `workers`, `later` that of the longest queue. Outputs, by chunk: `where`, the worker (-1 for the
    cloud); `alpha`, its Q; and `t_star`, the planned start.
    """
    for k in range(len(workers)):
        worker = workers[k]
        q[k], start[k] = calculate_q(queue[worker], count[worker], left, ready, weight, share, now,
                                     delays[server_of[worker]], p, chunks, own, later)
    for chunk in range(chunks):
        cloud = (cloud_delay + (p if chunk else cloud_p)) / chunks
        best = _least_q(q, workers, server_of, room, cloud if has_cloud else float("inf"))
        if has_cloud and best < 0:
            for rest in range(chunk, chunks):
                where[rest], alpha[rest], t_star[rest] = -1, cloud, now + cloud_delay
            return chunks
        if best < 0:
            return chunk
        where[chunk], alpha[chunk] = workers[best], q[best]
        t_star[chunk] = now + start[best]
        room[server_of[workers[best]]] -= 1
        # Another chunk of the job on this worker is ready at the same time, and waits for this one.
        start[best] += p
        q[best] += p / chunks
    return chunks


@in_place
def begin_spans(job, start, end, fresh):
    """Mark the intervals, sorted by (job, start), that begin a new span of training.

    The others overlap or touch an earlier interval of the same job.
    """
    until = 0.0
    for k in range(len(job)):
        fresh[k] = k == 0 or job[k] != job[k - 1] or start[k] > until * (1 + ROUNDING)
        until = end[k] if fresh[k] else max(until, end[k])
