"""Draw the figures of these pages into ``docs/img/``, as SVG.

Run as ``python docs/figures.py [NAME ...]``; without names, it draws those that take less than a
minute each. Figures of reproductions are drawn by their names: those of papers, such as
``parrot-fig5``, from the runs that netsim ships; those of studies from runs that are kept in
``reproductions/``. Where ``NETSIM_TRACES`` names a folder with the public traces, those
are used. The figures of the front page, of the gallery and of ``own-data.md`` are drawn by the code
above them. The speed of a machine is drawn by ``tests/bench/scale.py`` and its neighbours, the
rooms by ``docs/developers/rooms.py``.
"""

import os
import re
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from matplotlib.collections import Collection

import netsim
from netsim.plots.bars import save_plot, total_jct_bars
from netsim.plots.collectives import collective_curves
from netsim.plots.gantt import gantt
from netsim.reproductions import PAPERS, REPRODUCTIONS
from netsim.studies.compare import compare_experiment

DOCS = Path(__file__).resolve().parent
LARGE = 200_000  # bytes of an SVG beyond which its bars are smaller, and quicker to show, as pixels
PAGES = ("index", "gallery", "own-data")  # whose code draws their figures
TRACES = Path(os.environ.get("NETSIM_TRACES", "none"))


@cache
def demo():
    """Return the comparison of ``make demo``."""
    return compare_experiment("demo", progress=False)


@cache
def facebook(record, limit=None):
    """Return allocators on the Facebook trace, or on its first coflows."""
    file = TRACES / "coflow-benchmark" / "FB2010-1Hr-150-0.txt"
    jobs = netsim.read_workload(file, **({"limit": limit} if limit else {}))
    return netsim.compare(
        "coflow-benchmark-150-1g", jobs, ["maxmin:decisions=coflow", "sebf", "aalo", "fifo"],
        record=[record], progress=False)


@cache
def plan():
    """Return SJF-BCO and FIFO on the same cluster."""
    keys = netsim.load_experiment("sjf-bco").resolved()
    return compare_experiment(netsim.Experiment(**{
        **keys, "compare": {"schedulers": ["sjf-bco", "fifo"]}}), progress=False)


def small_cluster(**options):
    """Draw eight ring jobs on the GPUs of four servers."""
    cluster = netsim.Cluster(gpus=[8, 8, 4, 4], nic="10Gbps", intra="300GB/s")
    jobs = [netsim.JobSpec(k, pattern="ring-all-reduce", ranks=gpus, nbytes="50MB",
                           compute_s="20ms", iterations=500, arrival_s=3 * k)
            for k, gpus in enumerate([4, 8, 2, 12, 1, 6, 4, 3])]
    return netsim.simulate(cluster, jobs, execution="fabric", **options).plot("gpus")


def tutorial():
    """Draw the figure of the tutorial."""
    return netsim.sweep(
        netsim.big_switch(128, "40Gbps"), "parrot-60", seed=range(1, 5), progress=False,
        allocator=["parrot", "aalo-lbsf", "lccf"],
        observe_interval=["1ms", "10ms", "30ms", "100ms"]).plot("sweep")


def busbw():
    """Draw what ``netsim collective all-reduce --ranks 64 --bytes 1GB`` measures."""
    sizes = [8 * 2**k for k in range(27)]
    table = netsim.collective_times("all-reduce", "gpu-cluster-8x8", 64, sizes)
    return collective_curves({"all-reduce": table})


def pipeline():
    """Draw four stages of a pipeline."""
    job = netsim.llm_job("llama-7b", pp=4, global_batch=8)
    return netsim.simulate(netsim.big_switch(4, "50GB/s"), [job], timeline=True).plot(
        "gantt", of="ranks")


def edge():
    """Draw twelve jobs of an edge-cloud under A_online."""
    cloud = netsim.draw_edge_cloud(servers=20, seed=1)
    jobs = netsim.draw_edge_jobs(jobs=12, servers=20, span="40h", seed=1)
    return netsim.simulate(cloud, jobs, scheduler="a-online", record=["training"]).plot("gantt")


def parrot_trace():
    """Draw every scheme of Parrot on the whole trace, at two speeds."""
    settings = ["workload.name=tiresias", f"workload.file={TRACES / 'tiresias' / '60_job.csv'}"]
    return total_jct_bars({f"{speed} Gbps": compare_experiment(netsim.load_experiment(
        "parrot-trace", [*settings, f"network.capacity={speed}Gbps"])).table for speed in (10, 40)})


FIGURES = {
    "demo": lambda: demo().plot("bars"),
    "tutorial": tutorial,
    "analysis-gantt": lambda: gantt(demo().results["lccf"], jobs=12, longest=True),
    "analysis-classes": lambda: facebook("coflows").plot("classes"),
    "analysis-links": lambda: facebook("links", 100).plot("utilisation"),
    "analysis-usage": lambda: plan().plot("usage"),
    "analysis-gpus": lambda: plan().results["sjf-bco"].plot("gpus"),
    "clusters-gpus": lambda: small_cluster(scheduler="fifo", placement="least-loaded",
                                           allocator="maxmin"),
    "clusters-preempted": lambda: small_cluster(
        scheduler={"name": "las", "quantum_s": 20},
        preemption={"checkpoint_s": 2, "restore_s": 5}),
    "busbw": busbw,
    "train-llms": pipeline,
    "a-online-gantt": edge,
}

#: Those that take minutes.
SLOW = {"parrot-trace": parrot_trace}


def reproduced(name):
    """Draw a figure of a paper from kept runs; of a study, run what is missing."""
    for paper in PAPERS.values():
        if name in paper.reproductions:
            return paper.figure(name.removeprefix(f"{paper.name}-"))
    traced = {"preemption-tiresias": "tiresias/60_job.csv",
              "accuracy-m3": "m3", "accuracy-htsim": "htsim", "accuracy-allreduce": "vidur"}
    found = [TRACES / file for start, file in traced.items() if name.startswith(start)]
    options = {"trace": found[0]} if found and found[0].exists() else {}
    if name == "preemption-recurrent":
        options["seeds"] = 3  # as the page says: ten take an hour and a half
    return REPRODUCTIONS[name].run(folder=f"reproductions/{name}", progress=True, **options).draw()


def gallery():
    """Draw the figures of pages whose code draws them, by the blocks of code above them."""
    block = re.compile(r"```python\n((?:(?!```).)*)```(?:\n\n!\[.*?\]\(img/([\w-]+)\.svg\))?",
                       re.DOTALL)
    before = os.getcwd()
    for page in PAGES:
        names = {"__name__": "__main__"}
        with TemporaryDirectory() as folder:
            os.chdir(folder)
            for code, name in block.findall((DOCS / f"{page}.md").read_text()):
                exec(compile(code, page, "exec"), names)
                if name:
                    yield name, names["ax"]
            os.chdir(before)


def save(name, ax):
    """Write a figure as SVG; if it has very many bars, these as pixels in it."""
    path = save_plot(ax, DOCS / "img" / f"{name}.svg")
    if path.stat().st_size > LARGE:
        for bars in ax.figure.findobj(Collection):
            bars.set_rasterized(True)
        save_plot(ax, path)
    print(path.relative_to(DOCS), flush=True)


def main(names):
    """Draw the figures of some names, or those that take little time."""
    drawn = {**FIGURES, **SLOW}
    for name in names or FIGURES:
        save(name, drawn[name]() if name in drawn else reproduced(name))
    if not names:
        for name, ax in gallery():
            save(name, ax)


if __name__ == "__main__":
    main(sys.argv[1:])
