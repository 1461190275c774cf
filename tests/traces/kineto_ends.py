"""When the events of a profile end: a few lines to compare a run with."""


def ends_ns(graph, *, free=False, nccl=True):
    """Compute when each event ends, in nanoseconds after the begin.

    If `free`, the host launches everything at once, without gaps. Without `nccl`, kernels of NCCL
    take no time; otherwise they take the recorded one.
    """
    ends = []
    host = [0]  # the end of each synchronization; the last one is the begin
    for k, event in enumerate(graph.events):
        start = max((ends[other] for other in graph.after[k]), default=0)
        launch = graph.launch[k]
        if launch is not None and not free:
            base, later = launch
            while len(host) <= base + 1:
                sync = graph.syncs[len(host) - 1]
                host.append(max(host[sync.base + 1] + sync.begin_ns, ends[sync.event])
                            + sync.rest_ns)
            start = max(start, host[base + 1] + later)
        length = 0 if event.is_nccl and not nccl else event.end_ns - event.start_ns
        ends.append(start + (0 if free else graph.gap[k]) + length)
    return ends
