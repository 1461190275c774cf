"""Measurements for some of A-SRPT's statements; see ``papers/a-srpt.toml``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from netsim.analysis.intervals import means_of
from netsim.base.streams import stream
from netsim.cluster import Cluster
from netsim.errors import NetsimWarning
from netsim.models import ModelStage, ParallelModel
from netsim.models.catalogue import MODELS, make_model, parallel_models
from netsim.models.iteration_time import per_iteration
from netsim.models.mapping import MAPPINGS, can_hold, heavy_edge, job_graph
from netsim.models.planner import plan_model
from netsim.models.servers import ServerKind
from netsim.plots.facets import bar_facets
from netsim.plots.style import looks, name_axes
from netsim.predictors.evaluation import evaluate
from netsim.reproductions.reproduction import panels
from netsim.results.result import Result
from netsim.schedulers.competitive import competitive_ratio
from netsim.simulation.simulation import simulate
from netsim.traces import read_workload
from netsim.workload import JobSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The bins of Fig. 4, in iterations.
_BINS = range(10, 310, 10)

#: The models of Table I: millions of parameters, and samples of a mini-batch.
_TABLE_1 = {"vgg19": (144, 32), "resnet152": (60, 4), "inception-v3": (24, 32),
            "bert-large": (340, 4), "xlnet-large": (550, 4), "t5-11b": (11_000, 8),
            "gpt-6.7b": (6_700, 32), "gpt-13b": (13_000, 32), "gpt-175b": (175_000, 16)}

#: The servers of the simulations: 8 GPUs, 10 Gbps, 300 GB/s.
_SERVER = ServerKind(gpus=8, nic=1.25e9, intra=300e9)

#: Number of cases of Table II, and the time limit of HiGHS for each.
_CASES, _LIMIT_S = 20, 5.0


def over_shortest(result: Result) -> Mapping[str, float]:
    """Average the running time of jobs over the least time by the safe bound on an iteration."""
    jobs = result.jobs
    return {"over_shortest": float(((jobs["finish_s"] - jobs["start_s"])
                                    / jobs["lower_bound_s"]).mean())}


def errors(seed: int) -> pd.DataFrame:
    """Measure the error of each predictor, in a row each.

    The trace is drawn with as many jobs as the paper's. Columns are the mean absolute error in
    iterations (`mae`), the time of learning (`fit_s`), the share of the jobs that is learnt from
    (`trained`), and the share of the others whose error is below each bound of the bins of Fig. 4
    (``below_10`` to ``below_300``).
    """
    jobs = read_workload(format="recurrent", jobs=758_223, train=0.8, mean_interarrival="7.065s",
                         gpu="v100", configurations="planned-apart", seed=seed)
    rows = []
    for name in ("random-forest", "median", "mean"):
        found = evaluate(name, jobs)
        off = np.abs(found.predicted - found.iterations)
        rows.append({"predictor": name, "mae": found.mae, "fit_s": found.fit_s,
                     "trained": found.trained_on / (found.trained_on + len(off)),
                     **{f"below_{most}": float((off < most).mean()) for most in _BINS}})
    return pd.DataFrame(rows)


def draw_errors(table: pd.DataFrame, columns: Sequence[str]) -> Axes:
    """Draw Fig. 4, the share of jobs by their error, beside the mean errors of Fig. 9."""
    del columns
    forest = table[table["predictor"] == "random-forest"]
    below = [0.0, *(float(forest[f"below_{most}"].mean()) for most in _BINS), 1.0]

    def draw(part: str, ax: Axes) -> None:
        if part == "mae":
            bar_facets(means_of(table, ["predictor"], ["mae"]), "mae", ax=ax)
            return
        ax.bar(range(len(below) - 1), np.diff(below), width=0.8,
               color=looks(["random-forest"])["random-forest"].colour)
        ax.set_xticks([0, 10, 20, 30], ["0", "100", "200", "> 300"])
        name_axes(ax, "error of the random forest (iterations)", "share of jobs")

    return panels({"errors (Fig. 4)": "below", "mean error (Fig. 9)": "mae"}, draw)


# --- Table II -------------------------------------------------------------------------------------


def _mapped(name: str, rng: np.random.Generator) -> Iterator[ParallelModel]:
    """Yield the jobs of Table II: a plan of VGG19, or GPT-175B, whose layers are all alike.

    GPT-175B has 48 stages, on A100: HiGHS does not solve the 96 that it needs on V100.
    """
    for _ in range(_CASES):
        if name == "gpt-175b":
            yield make_model(name, 48, gpu="a100")
        else:
            plans = plan_model(name, int(rng.choice([8, 12, 16])), gpu="v100", server=_SERVER)
            yield plans[rng.integers(len(plans))].model


def table_2(seed: int) -> pd.DataFrame:
    """Map jobs to servers with 1 to 8 free GPUs, by Heavy-Edge and by the ILP: a row for each.

    The columns are ``alpha_ms``, the mean time of an iteration over 20 jobs, ``took_ms``, that of a
    mapping, and ``proven``, the share of jobs for which it is known to be the optimum.
    """
    rows = []
    for name in ("vgg19", "gpt-175b"):
        rng = stream(seed, f"table-2-{name}")
        jobs = [(job, _free(job.gpus, rng)) for job in _mapped(name, rng)]
        for mapping in ("heavy-edge", "optimal"):
            solve = MAPPINGS.resolve(mapping)
            limit = {"time_limit": _LIMIT_S} if mapping == "optimal" else {}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NetsimWarning)  # `proven` has the same information
                began = perf_counter()
                found = [solve(job, counts, _SERVER, **limit) for job, counts in jobs]
                took = perf_counter() - began
            rows.append({"model": name, "mapping": mapping,
                         "alpha_ms": 1e3 * float(np.mean([each.alpha_s for each in found])),
                         "took_ms": 1e3 * took / len(jobs),
                         "proven": float(np.mean([each.status == "optimal" for each in found]))})
    return pd.DataFrame(rows)


def _free(gpus: int, rng: np.random.Generator) -> list[int]:
    """Draw the numbers of free GPUs of servers, until a job has enough."""
    counts: list[int] = []
    while (left := gpus - sum(counts)):
        counts.append(min(left, int(rng.integers(1, _SERVER.gpus + 1))))
    return counts


# --- the model ------------------------------------------------------------------------------------


def model(seed: int) -> pd.DataFrame:
    """Check Sections III to VI on small jobs: a row per ``check``, 1 if it is as the paper says."""
    del seed
    facts = {name: MODELS.resolve(name).facts for name in _TABLE_1}
    return pd.DataFrame([{"check": name, "value": float(value)} for name, value in {
        **_of_iterations(), **_of_mapping(), **_of_scheduling(), **_of_groups(),
        "parameters": np.mean([facts[name]["parameters"] / 1e6 == millions
                               for name, (millions, _) in _TABLE_1.items()]),
        "mini-batches": np.mean([facts[name]["batch"] == batch
                                 for name, (_, batch) in _TABLE_1.items()])}.items()])


def _of_iterations() -> dict[str, float]:
    """Check Eq. 4 to 7 and their extensions.

    Two replicas compute for 30 ms and send 1 MB each to one that computes for 50 ms, which is on
    the server of the first. GPUs have 0.25 GB/s of the NIC. The second replica sends in 8 ms both
    ways, and all-reduces 20 MB, both ways, in 80 ms: 118 ms.
    """
    server = ServerKind(gpus=4, nic=1e9, intra=100e9)
    parts = [ModelStage(2, 0.01, 0.02, out_bytes=1e6, param_bytes=2e7),
             ModelStage(1, 0.02, 0.03, in_bytes=2e6)]
    ring, tree = (ParallelModel(parts, allreduce=name) for name in ("ring", "tree"))
    here = [[1, 1], [1, 0]]
    three = job_graph(ParallelModel([ModelStage(3, 0.01, 0.02, param_bytes=3e7)]))
    # Of two stages of 30 and 50 ms, each half a mini-batch: 15 + 25 + 25 ms.
    plain = [ModelStage(1, 0.01, 0.02), ModelStage(1, 0.02, 0.03)]
    return {"iteration": per_iteration(ring, here, server) / 0.118,
            "tree": per_iteration(tree, here, server) / per_iteration(ring, here, server),
            "ring edge": three[0][1]["weight"] / (2 * (3 - 1) / 3 * 3e7),
            "stage edge": job_graph(ring)[0][2]["weight"] / (2 * 2e6 / 2),
            "asynchronous": per_iteration(ParallelModel(plain), [[1, 1]], server) / 0.05,
            "synchronous": per_iteration(
                ParallelModel(plain, micro_batches=2), [[1, 1]], server) / 0.065}


def _of_mapping() -> dict[str, float]:
    """Check Heavy-Edge on the job of Fig. 2, and that slices stay together (Section VI)."""
    job = ParallelModel([
        ModelStage(2, 0.01, 0.01, out_bytes=1e6, param_bytes=20e6),
        ModelStage(2, 0.01, 0.01, in_bytes=1e6, out_bytes=1e6, param_bytes=0.5e6),
        ModelStage(2, 0.01, 0.01, in_bytes=1e6, param_bytes=0.5e6)])
    sliced = ParallelModel([ModelStage(1, 0.01, 0.01, slices=4, slice_bytes=1e9)])
    experts = job_graph(ParallelModel([ModelStage(3, 0.01, 0.01, expert_bytes=1e7)]))
    return {"heavy edge": heavy_edge(job, [4, 1, 1], _SERVER).placement[0].tolist() == [2, 2, 0],
            "slices": can_hold(sliced, [4]) and not can_hold(sliced, [2, 2]),
            "experts": experts[0][1]["weight"] / (2 * 1e7 / (3 - 1))}


def _of_scheduling() -> dict[str, float]:
    """Check Algorithm 1 on four jobs of 10 s with one GPU each, on two GPUs.

    Each is 5 s of work for the virtual machine, which completes them at 5, 10, 15 and 20 s. They
    therefore end at 15, 20, 25 and 30 s, and in the optimum at 10, 10, 20 and 20 s.
    """
    one = ParallelModel([ModelStage(1, 0.05, 0.05)])
    jobs = [JobSpec(k, model=one, iterations=100) for k in range(4)]

    def ends(scheduler: str) -> float:
        done = simulate(Cluster(gpus=[2]), jobs, scheduler=scheduler, execution="asrpt")
        return float(done.jobs["finish_s"].sum())

    own = ends("a-srpt:predictor=perfect")
    bound = competitive_ratio(rho=1, tau=0, gpus=2, most_gpus=1, alpha_max=0.1, alpha_min=0.1,
                              error=0)
    return {"algorithm 1": own / 90, "theorem 1": own / 60 / bound,
            "perfect": ends("a-srpt-perfect") / own}


def _of_groups() -> dict[str, float]:
    """Check that a planner gives several configurations, of which each group has one."""
    jobs = read_workload(format="recurrent", jobs=2000, single_gpu_share=0.0, gpu="v100",
                         configurations="planned-apart", seed=0)
    groups: dict[int | str | None, set[ParallelModel | None]] = {}
    for job in jobs:
        groups.setdefault(job.group, set()).add(job.model)
    plans = min(len(plan_model(name, 64, gpu="v100"))
                for name, least in parallel_models("v100").items() if least <= 64)
    alike = np.mean([len(own) == 1 for own in groups.values()])
    return {"plans": plans, "one per group": float(alike)}
