"""A user's compiled rules, one of each kind of answer, for runs in other processes."""

import netsim


@netsim.compiled(leftover="maxmin")
def oldest(coflows, jobs, now, order):
    """Coflows in order; what is left over is shared."""
    order.key[:] = coflows.valid_s


@netsim.compiled()
def in_step(coflows, jobs, now, order):
    """Coflows in order, whose flows keep in step."""
    order.key[:] = coflows.valid_s


@netsim.compiled(gives="queues", leftover="maxmin", queues=2)
def queued(coflows, jobs, now, order):
    """Two queues that share links."""
    order.part[0], order.part[1] = 0.75, 0.25
    for c in range(len(coflows)):
        order.queue[c] = coflows[c].job % 2


@netsim.compiled(gives="shares", stretch="all")
def even(coflows, jobs, now, order):
    """Equal shares of LP rates."""
    order.share[:] = 1.0


@netsim.compiled(gives="weights")
def weighted(coflows, jobs, now, order):
    """Links shared by weight."""
    for c in range(len(coflows)):
        order.weight[c] = 1.0 + coflows[c].job


@netsim.compiled(gives="flows")
def shortest(coflows, jobs, now, order):
    """Flows by what they have left."""
