"""A user's story in the cells of a notebook; `flows_csv`, `folder` and `seeds` are given."""

# %%
import numpy as np
import pandas as pd

import netsim
from netsim.plots.bars import save_plot
from netsim.plots.report import save_report


# %%
class LeastAttained(netsim.Allocator):
    """Coflows in order of what their jobs have sent."""

    information = "agnostic"

    def allocate(self, view):
        order = np.argsort(view.job_attained, kind="stable")
        return netsim.Allocation(service=netsim.PriorityService(order, backfill="maxmin"))


# %% Flows between ranks: each seed places the jobs on other hosts.
jobs = netsim.Workload.from_frame(pd.read_csv(flows_csv), coflow="job",  # noqa: F821
                                  endpoints="ranks")

# %%
found = netsim.sweep({speed: netsim.big_switch(16, speed) for speed in ("10Gbps", "40Gbps")}, jobs,
                     allocator=["fifo", "sebf", "maxmin", LeastAttained],
                     observe_interval=["1ms", "10ms", "100ms"], seed=seeds,  # noqa: F821
                     folder=folder, progress=False)  # noqa: F821

# %%
ax = found.plot("sweep", of="jct_mean_s", x="network", col="observe_interval")
save_plot(ax, folder / "figure.svg")  # noqa: F821
save_report(found, folder / "report.html", title="Own flows")  # noqa: F821
