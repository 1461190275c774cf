"""Compiled loops over the queues of workers: HAPRF, Q of Eq. 5 and A_greedy.

`netsim.reference.a_online` is a readable version of all; the tests hold one against the other.

The arrays have the meaning, shapes and names of `netsim.edge.queues.Queues`. A queue is in the
order of HAPRF, so that of the chunks that are ready the first one is trained.
"""

from __future__ import annotations

from netsim import ties
from netsim.compiling import in_place

#: Relative to the instant: what is not later by more happens at once. Sums of times are off by
#: less, and no two events of a system are nearer.
ROUNDING = 1e-12

_equal = in_place(ties.equal)


@in_place
def _soonest(row, count, left, ready):
    """Return when the first of these chunks will be ready that are not finished; inf if none."""
    least = float("inf")
    for k in range(count):
        if left[k] > 0 and ready[row[k]] < least:
            least = ready[row[k]]
    return least


@in_place
def project(row, count, left, ready, now, until, later):
    """Project one queue from `now` to `until` with nobody else; fill `later` with what is left.

    `later[k]` is of the chunk `row[k]`; 0 if it has finished.
    """
    for k in range(count):
        later[k] = left[row[k]]
    while now * (1 + ROUNDING) < until:
        first = 0
        while first < count and not (later[first] > 0
                                     and ready[row[first]] <= now * (1 + ROUNDING)):
            first += 1
        stop = min(until, _soonest(row, first, later, ready))
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
            job_of, unfinished, ended, log_chunk, log_start, log_end, logged):
    """Let workers train up to an instant; return how many intervals of training are logged.

    Who trains from `until` on is not chosen yet, since chunks may still be dispatched then. Nor is
    it from an instant that differs from `until` by rounding alone.
    """
    for worker in workers:
        row, now = queue[worker], clock[worker]
        while count[worker] > 0 and now * (1 + ROUNDING) < until:
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
    return logged


@in_place
def insert(chunks, where, queue, count, weight):
    """Put chunks into the queues of their workers, behind those of equal weight."""
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
    """Return Q of Eq. 5 for one worker, and how long the planned start is after `now`.

    `own` is D p0 of the new chunk, of a job of so many chunks; `later` is room for the projection.
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
def _least(q, workers, server_of, room, cloud):
    """Return the first worker with the least Q of those whose server has room, and of the cloud.

    -1 is the cloud, which comes last among equals; `cloud` is its Q, inf if there is none.
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
    """Dispatch the chunks of a job: A_greedy; return how many have found a place.

    Parameters
    ----------
    workers : array of int
        The candidates, in order.
    room : array of int, shape (servers,)
        How many chunks of the job each server can still hold; counted down.
    delays : array of float, shape (servers,)
    now, p, cloud_delay, cloud_p : float
        Arrival; time of a chunk with zeta = 0; delay, and time with zeta = 1, in the cloud.
    q, start, later : arrays
        Room for the work, of as many as `workers`, and of the longest queue.
    where, alpha, t_star : arrays, shape (chunks,)
        Filled with the worker (-1: the cloud), Q and t* of each chunk.
    """
    for k in range(len(workers)):
        worker = workers[k]
        q[k], start[k] = calculate_q(queue[worker], count[worker], left, ready, weight, share, now,
                                     delays[server_of[worker]], p, chunks, own, later)
    for chunk in range(chunks):
        cloud = (cloud_delay + (p if chunk else cloud_p)) / chunks
        best = _least(q, workers, server_of, room, cloud if has_cloud else float("inf"))
        if has_cloud and best < 0:
            for rest in range(chunk, chunks):
                where[rest], alpha[rest], t_star[rest] = -1, cloud, now + cloud_delay
            return chunks
        if best < 0:
            return chunk
        where[chunk], alpha[chunk] = workers[best], q[best]
        t_star[chunk] = now + start[best]
        room[server_of[workers[best]]] -= 1
        # A sibling on the same worker is ready when this one is: it only has to wait for it too.
        start[best] += p
        q[best] += p / chunks
    return chunks


@in_place
def begin_spans(job, start, end, fresh):
    """Say which intervals, in order of (job, start), do not go on with those before of the job."""
    until = 0.0
    for k in range(len(job)):
        fresh[k] = k == 0 or job[k] != job[k - 1] or start[k] > until * (1 + ROUNDING)
        until = end[k] if fresh[k] else max(until, end[k])
