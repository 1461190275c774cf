"""HTML reports of runs, comparisons and sweeps: tables, figures and provenance in one file."""

from __future__ import annotations

import base64
import html
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import pandas as pd
import tomli_w

from netsim.analysis.intervals import without_intervals
from netsim.base.files import atomic_write, read_text
from netsim.base.units import format_aligned, format_bytes, format_count, format_number
from netsim.errors import NetsimError
from netsim.experiment_file.experiment import Experiment
from netsim.plots.bars import picture_of
from netsim.plots.curves import active_counts
from netsim.plots.means import name_of
from netsim.plots.pictures import PICTURES, records_lacking
from netsim.plots.style import WIDTH_IN, looks, require_matplotlib, series_name, series_of, unit_of
from netsim.plots.varied import drawn_together, words
from netsim.results.result import policies_of
from netsim.studies.comparison import Comparison
from netsim.studies.sweep_result import Sweep
from netsim.text import named, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.results.result import Result


# --- a page --------------------------------------------------------------------------------

#: Length of an SVG from which on a figure is a PNG: browsers are slow with so many elements.
_LARGE = 1_500_000

#: Width of a figure, in columns of a paper, from which on it is beside no other.
_COLUMN = 1.25

#: Columns of whole numbers that are not counts, and so have no commas.
_IDS = ("job", "seed")

_LONG = 48  # letters from which on a text is broken

#: The size in a figure's first element; figures of papers are small on a screen.
_SIZE, _SCALE = re.compile(r'width="([\d.]+)pt" height="[\d.]+pt"'), 1.6

_SERIES = re.compile(r'<g id="series:([^"]*)"')


def text_of(value: object) -> str:
    """Escape a value for HTML; policies of a script or a notebook have their bare names."""
    return html.escape(visible(named(str(value)), lines=True))


def page_of(title: str, body: str) -> str:
    """Write a page with a title."""
    page, script = (read_text(Path(__file__).with_name(name))
                    for name in ("report.html", "report.js"))
    return Template(page).substitute(title=text_of(title), body=body, script=script)


def table_of(table: pd.DataFrame) -> str:
    """Write a table as HTML, which scrolls if it is wider than the page; long texts are broken."""
    text = {name for name in table if table[name].dtype.kind not in "iuf"}

    def cell(tag: str, name: Any, shown: str) -> str:
        kinds = ["text"] * (name in text) + ["long"] * (len(shown) > _LONG and tag == "td")
        kind = f' class="{" ".join(kinds)}"' if kinds else ""
        return f"<{tag}{kind}>{text_of(shown)}</{tag}>"

    head = "".join(cell("th", name, str(name)) for name in table)
    texts = table.assign(**{str(name): format_aligned(table[name]) for name in table
                            if table[name].dtype.kind == "f"})
    rows = ("".join(cell("td", name, _shown(name, value)) for name, value in row.items())
            for row in texts.to_dict("records"))
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return (f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n'
            f"<tbody>\n{body}\n</tbody></table></div>")


def _shown(name: Any, value: Any) -> str:
    """Write the text of a cell; empty if it has no value."""
    if pd.isna(value):
        return ""
    if isinstance(value, float):
        return format_number(value)
    counts = isinstance(value, int) and not isinstance(value, bool) and name not in _IDS
    return f"{value:,}" if counts else str(value)


def figure_of(ax: Axes, caption: str) -> str:
    """Write the figure of some axes with its caption, as SVG or, if that is large, as PNG.

    Figures wider than a column of a paper take the whole width of a page.
    """
    figure = ax.figure.canvas.figure
    whole = ' class="whole"' if figure.get_figwidth() > _COLUMN * WIDTH_IN else ""
    return f"<figure{whole}>{_drawn(figure)}<figcaption>{caption}</figcaption></figure>"


def interactive_of(ax: Axes, data: Any, caption: str) -> str:
    """Write a figure that the page's script draws from data, with a picture for use without it."""
    # "</" would end the script element, even within a string.
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("</", "<\\/")
    return (f'<figure class="zoom"><script type="application/json">{text}</script>'
            f"<div>{_drawn(ax.figure.canvas.figure)}</div>"
            f"<figcaption>{caption}</figcaption></figure>")


def _drawn(figure: Figure) -> str:
    """Write a figure as an HTML element."""
    for artist, label in series_of(figure):
        artist.set_gid(f"series:{label}")
    svg = picture_of(figure, "svg").decode().partition("<!DOCTYPE")[2].partition(">")[2].strip()
    if len(svg) <= _LARGE:
        svg = _SIZE.sub(lambda size: f'width="{_SCALE * float(size[1]):.0f}pt"', svg, count=1)
        # Not ids, which must be unique: a policy has several artists, in several figures.
        return _SERIES.sub(r'<g data-series="\1"', svg)
    image = base64.b64encode(picture_of(figure, "png")).decode()
    return f'<img alt="" src="data:image/png;base64,{image}">'


# --- a report ------------------------------------------------------------------------------

#: Name of experiments that were not given one.
_UNNAMED = Experiment.model_fields["name"].default

#: Captions by what is drawn, the kind of plot, and the quantity if there are several.
_CAPTIONS: dict[str, dict[str, str]] = {
    "run": {
        "gantt coflows": "Coflows of each job over time",
        "gantt training": "Where and when each job trained",
        "gantt ranks": "What each rank computed over time",
        "cdf jct": "Distribution of JCTs; <i>alone</i>: of jobs that run alone",
        "cdf cct": "Distribution of CCTs; <i>alone</i>: of coflows that have the network to "
                   "themselves",
        "slowdown": "Slowdowns of coflows by class: bars end at means, thin lines at 95th "
                    "percentiles",
        "utilisation links": "Utilisation of links over time",
        "utilisation workers": "Utilisation of workers over time",
        "gpus": "Which job held which GPU, and how many jobs waited",
        "usage": "GPUs in use and jobs waiting over time",
    },
    "comparison": {
        "bars": "Total JCT over the lower bound",
        "classes": "Mean CCT of each policy over that of the baseline, by class of coflow: less "
                   "than 1 is better",
        "usage": "GPUs held and jobs waiting over time",
    },
    "sweep": {
        "bars": "Means over seeds", "sweep": "Means over seeds, against what was varied",
        "cdf jct": "Distributions of JCTs, all seeds pooled",
        "scatter": "Means over seeds, at each point"},
}

_ZOOM = (" over time; drag to zoom in on a time, turn the wheel to zoom in and out. Without "
         "JavaScript, the whole run is shown")

#: Columns of the table of claims that are shown.
_CLAIMED = ("claim", "paper", "measured", "holds_on", "verdict")

#: Columns of the jobs that took longest, as far as there are such, and the number of these jobs.
_JOBS = ("job", "name", "arrival_s", "start_s", "finish_s", "jct_s", "lower_bound_s", "slowdown",
         "coflows", "bytes", "gpus", "preemptions", "restarts")

_LONGEST = 15

#: Headings of shares, which are in per cent.
_SHARES = {"utilisation": "utilisation (%)", "gpu_utilisation": "GPU utilisation (%)",
           "useful_utilisation": "useful utilisation (%)",
           "idle_while_waiting": "idle while a job waits (%)", "cloud_share": "cloud share (%)"}

#: Headings with abbreviations and names, which `words` does not know.
_NAMES = {"jct_s": "JCT (s)", "simpy_events": "SimPy events", "ps_shortages": "shortages of PSs",
          "leftover": "leftover bandwidth",
          "decides_per": "rates decided per",
          "lower_bound_total_s": "lower bound of total JCT (s)", **_SHARES}

#: Columns of ratios to a baseline.
_RATIOS = ("over_baseline", "ratio")

#: Times of jobs, which have one unit in a summary; totals have their own.
_OF_JOBS = {f"{time}_{figure}_s" for time in ("jct", "queue")
            for figure in ("mean", "p50", "p95", "p99")}

#: Left out: the same run gives the same page.
_UNSTEADY = ("wall_s",)

#: Columns of a comparison that labels repeat, and those shown if runs differ in them.
_REPEATED, _SHARING = ("scheme", "work_conservation"), ("leftover", "decides_per")

#: Most steps of a curve on an interactive timeline, and of intervals if there are more.
_STEPS, _INTERVALS = 20_000, 4_000


def report_page(thing: Result | Comparison | Sweep, claims: pd.DataFrame | None = None,
                title: str | None = None) -> str:
    """Return a report as an HTML page that refers to no other file.

    Policies can be hidden in its figures, and timelines zoomed.

    Parameters
    ----------
    thing : Result, Comparison or Sweep
    claims : DataFrame, optional
        Claims of a paper and whether the sweep confirms them; see `netsim.reproductions`.
    title : str, optional
        By default the name of the experiment, or what was run.

    Raises
    ------
    InputError
        If there is no run.
    MissingExtraError
        If matplotlib is not installed.
    """
    require_matplotlib()
    if isinstance(thing, Sweep):
        parts, spec, called = _of_sweep(thing, claims), thing.experiment, (
            f"Sweep {thing.folder.resolve().name}")
    elif isinstance(thing, Comparison):
        parts, spec, called = _of_comparison(thing.as_shown()), thing.spec or {}, (
            f"Comparison on {_places(next(iter(thing.results.values())))}")
    else:
        parts, spec, called = _of_run(thing), thing.spec or {}, (
            f"{policies_of(thing.run)} on {_places(thing)}")
    # The description of a file is about all that it compares, not about one run.
    text = spec.get("description") if isinstance(thing, Sweep | Comparison) else None
    described = f"<p>{text_of(text)}</p>\n" if text else ""
    named = spec.get("name")
    return page_of(title or (named if named != _UNNAMED else None) or called,
                   described + "\n".join(parts))


def save_report(thing: Result | Comparison | Sweep, path: str | Path,
                claims: pd.DataFrame | None = None, title: str | None = None) -> Path:
    """Write a report to a file, as an HTML page that refers to no other file.

    Policies can be hidden in its figures, and timelines zoomed.

    Parameters
    ----------
    thing : Result, Comparison or Sweep
    path : str or Path
        The file, which is replaced if it exists, at once and as a whole.
    claims, title
        As for `report_page`.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        If there is no run.
    MissingExtraError
        If matplotlib is not installed.
    OutputError
        If the file cannot be written.
    """
    page, target = report_page(thing, claims, title), Path(path)
    with atomic_write(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return target


# --- parts of a report ---------------------------------------------------------------------
def _of_run(run: Result) -> Iterator[str]:
    """Yield the parts of a report of a run."""
    summary = run.summary()
    finished = f"{summary['jobs_finished']:,} of {format_count(summary['jobs'], 'job')} finished"
    yield f"<p>{_text_of_policies(run)} on {text_of(_places(run))}: {finished}.</p>"
    yield "<h2>Summary</h2>"
    yield table_of(_summary(summary))
    yield from _figures(run, "run", {policies_of(run.run): run})
    yield f"<h2>The {format_count(min(_LONGEST, len(run.jobs)), 'job')} that took longest</h2>"
    jobs = run.jobs.sort_values("jct_s", ascending=False, kind="stable").head(_LONGEST)
    yield table_of(_in_words(jobs[[name for name in _JOBS if name in jobs]]))
    yield from _origin(run.spec, run)


def _of_comparison(compared: Comparison) -> Iterator[str]:
    """Yield the parts of a report of a comparison."""
    first = next(iter(compared.results.values()))
    yield (f"<p>{format_count(len(compared.results), 'run')} of {text_of(_places(first))}, "
           f"{format_count(len(first.jobs), 'job')}.</p>")
    yield "<h2>Results</h2>"
    base = compared.baseline or next(iter(compared.results))
    yield (f"<p>Ratios are of total JCT: to the lower bound, and to {text_of(base)}. Less is "
           "better.</p>")
    left_out = {*_REPEATED, *_UNSTEADY, *(() if compared.note else _SHARING)}
    table = compared.table.drop(columns=left_out, errors="ignore")
    yield table_of(_in_words(table.rename(columns={"label": compared.what}), base))
    yield from _figures(compared, "comparison", compared.results)
    yield from _origin(compared.spec, first)


def _of_sweep(sweep: Sweep, claims: pd.DataFrame | None) -> Iterator[str]:
    """Yield the parts of a report of a sweep."""
    # Allocators keep their whole labels, so that the file can be run.
    varied = {"seeds": sweep.grid["seed"], "vary": {
        name: values for name, values in sweep.with_units().grid.items() if name != "seed"}}
    sweep = sweep.as_shown()
    over = " &times; ".join(map(text_of, (*map(words, sweep.columns), "seed")))
    missing = f', <span class="failed">{sweep.missing} missing</span>' if sweep.missing else ""
    yield f"<p>{format_count(len(sweep.table), 'run')} over {over}{missing}.</p>"
    if claims is not None:
        yield "<h2>Claims</h2>"
        yield table_of(claims[[name for name in _CLAIMED if name in claims]])
    alone = text_of(without_intervals(sweep.means()).capitalize())
    yield f"<h2>{'Results' if alone else 'Means over seeds'}</h2>"
    yield f"<p>{alone or 'With 95 % confidence intervals. Means of ratios are geometric'}.</p>"
    yield table_of(_in_words(sweep.means()))
    if (ratios := sweep.ratios_if_any()) is not None:
        yield "<h2>Ratios, pair by pair</h2>"
        means = "" if alone else "geometric means with 95 % confidence intervals, and "
        yield (f"<p>Total JCT over that of {text_of(ratios['baseline'].iloc[0])} on the same "
               f"workload: {means}the numbers of pairs with a ratio below 1 and above 1. Less is "
               "better.</p>")
        yield table_of(_in_words(ratios.drop(columns="baseline"), ratios["baseline"].iloc[0]))
    if sweep.columns:
        yield from _figures(sweep, "sweep", {})
    if len(sweep.failures):
        yield "<h2>Failed runs</h2>"
        yield table_of(_in_words(sweep.failures[[*sweep.columns, "seed", "error"]]))
    yield "<h2>Runs</h2>"
    yield table_of(_in_words(sweep.table[[*sweep.columns, "seed", "jobs_finished", "jct_total_s",
                                          "over_lower_bound", "makespan_s", "key"]]))
    whole = math.prod(map(len, sweep.grid.values())) == len(sweep.table) + sweep.missing
    yield _experiment({**sweep.experiment, **({"sweep": varied} if whole else {})})
    if not whole:
        yield ("<p>Its settings were varied together, not in all combinations; they are those of "
               "the table of runs.</p>")
    version, _, digest = sweep.code.partition(" ")
    yield _provenance({"netsim": version, "digest of its code": digest,
                       "seeds": ", ".join(map(str, sweep.grid["seed"])),
                       "runs stored in": sweep.folder.resolve().name})


def _places(run: Result) -> str:
    """The names of workload and network, cluster or edge-cloud of a run."""
    where = next((run.run[key] for key in ("cluster", "edge_cloud", "network")
                  if run.run.get(key)), "")
    return f"{run.run['workload']}, {where}".removesuffix(", ")


def _text_of_policies(run: Result) -> str:
    """The policies of a run, escaped."""
    placement = run.run.get("placement")
    name = placement["name"] if isinstance(placement, Mapping) else placement
    return text_of(policies_of(run.run) + (f", placement {name}" if name else ""))


# --- tables --------------------------------------------------------------------------------
def _summary(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Make a table of the numbers of a summary in words."""
    known = {name: value for name, value in summary.items() if name not in _UNSTEADY
             and isinstance(value, int | float) and not math.isnan(value)}
    of_jobs = unit_of(max((value for name, value in known.items() if name in _OF_JOBS),
                          default=0.0))
    rows = []
    for name, value in known.items():
        unit, length = of_jobs if name in _OF_JOBS else _unit(name, value)
        rows.append((_heading(name, unit),
                     format_bytes(value) if _counts_bytes(name) else f"{value:,}"
                     if isinstance(value, int) else format_number(value / length)))
    return pd.DataFrame(rows, columns=["what", "value"])


def _unit(name: str, most: float) -> tuple[str, float]:
    """The unit in which a column is shown, and its length in the column's own unit."""
    return ("%", 0.01) if name in _SHARES else unit_of(most) if name.endswith("_s") else ("", 1.0)


def _counts_bytes(name: str) -> bool:
    return name == "bytes" or name.endswith("_bytes")


def _heading(name: str, unit: str = "s") -> str:
    """Name a column in words, with its unit if it has times."""
    if name in _NAMES:
        return _NAMES[name].replace("(s)", f"({unit})")
    if name.endswith("_gpu_s"):
        return f"{name.removesuffix('_gpu_s')} GPU time ({unit})".replace("_", " ")
    return f"{name_of(name)} ({unit})" if name.endswith("_s") else name_of(name)


def _in_words(table: pd.DataFrame, baseline: object = "") -> pd.DataFrame:
    """Name columns in words with units: per cent, or hours where seconds have too many digits.

    Ratios have the name of their baseline, and bytes their unit in the cell. Empty columns are left
    out, and means share a cell with their intervals.
    """
    full = table.loc[:, (table.notna() & (table != "")).any()] if len(table) else table
    units = {str(name): _unit(str(name), float(full[name].max())) for name in full
             if pd.api.types.is_numeric_dtype(full[name])}
    scaled = full.assign(**{column: full[column] / length for name, (_, length) in units.items()
                            if length != 1 for column in (name, f"{name}_low", f"{name}_high")
                            if column in full}).assign(
        **{str(name): [format_bytes(value) for value in full[name]] for name in full
           if _counts_bytes(str(name))})
    return _joined(scaled).rename(columns={
        name: _heading(str(name), units.get(str(name), ("s", 1.0))[0]) for name in full}
        | dict.fromkeys(_RATIOS, f"total JCT / {baseline}"))


def _joined(table: pd.DataFrame) -> pd.DataFrame:
    """Merge each mean of a table with its interval into one cell."""
    joined = table.copy()
    for name in [name for name in table if f"{name}_low" in table]:
        means, lows, highs = (table[key] for key in (name, f"{name}_low", f"{name}_high"))
        shown = format_aligned([*means, *lows, *highs])
        texts = zip(shown[:len(means)], shown[len(means):-len(means)], shown[-len(means):],
                    lows < highs, strict=True)
        joined[name] = [f"{mean} [{low}, {high}]" if wide else mean
                        for mean, low, high, wide in texts]
    return joined[[name for name in table if not str(name).endswith(("_low", "_high"))]]


# --- figures -------------------------------------------------------------------------------
def _figures(thing: Any, what: str, results: Mapping[str, Result]) -> Iterator[str]:
    """Yield all plots of a thing, and the reasons why others are left out."""
    yield "<h2>Figures</h2>"
    if what != "run":  # with one policy, there is nothing to hide
        yield '<div class="policies"></div>'
    yield '<div class="figures">'
    impossible, lacking = records_lacking(thing, what), []
    for kind, picture in PICTURES[what].items():
        if kind == "scatter" and not drawn_together(thing.table, thing.columns):
            continue  # lines and bars show all of a grid
        for of in _quantities(kind, what, picture.of):
            if picture.of[of] in impossible:
                continue  # such as GPUs of a network
            try:
                ax = picture.draw(thing, of, None)
            except NetsimError as error:  # such as lines against a parameter if none was varied
                lacking.append(f"{kind} {of}".rstrip() + f": {error}")
                continue
            yield (_timeline(ax, results) if kind == "timeline" else
                   figure_of(ax, _caption(what, f"{kind} {of}") or _caption(what, kind)))
    yield "</div>"
    if lacking:
        items = "".join(f"<li>{text_of(each)}</li>" for each in lacking)
        yield f"<details><summary>Plots left out</summary><ul>{items}</ul></details>"


def _caption(what: str, key: str) -> str:
    return _CAPTIONS[what].get(key) or _CAPTIONS["run"].get(key, "")


def _quantities(kind: str, what: str, of: Iterable[str]) -> list[str]:
    """The quantities of a plot that a report shows."""
    every = list(of)
    if what == "sweep" or kind == "usage" or "" in every:
        return every[:1]
    return every


def _timeline(ax: Axes, results: Mapping[str, Result]) -> str:
    """Write a timeline, with the data that the page's script needs to draw it."""
    style = looks(results)
    panels: list[dict[str, Any]] = []
    notes = set()
    for of in ("jobs", "coflows", "training"):
        if not any(of == "jobs" or of in result.recorded for result in results.values()):
            continue
        name, curves, note = active_counts(results, of, _STEPS, _INTERVALS)
        notes.add(note)
        panels.append({"name": name, "series": [
            {"label": series_name(label), "colour": style[label].colour,
             "hollow": style[label].hollow, "t": [float(f"{time:.9g}") for time in times],
             "y": [float(f"{count:.6g}") for count in counts]}
            for label, (times, counts) in curves.items()]})
    times = [time for panel in panels for series in panel["series"] for time in series["t"]]
    span = [min(times), max(times)] if times else [0.0, 1.0]
    unit, length = unit_of(span[1])
    drawn = [panel for panel in panels if panel["series"]]
    data = {"panels": drawn, "span": span, "unit": unit, "length": length}
    counted = " and ".join(panel["name"] for panel in drawn)
    caption = [f"{counted}{_ZOOM}", *sorted(notes - {""})]
    return interactive_of(ax, data, ". ".join(each[:1].upper() + each[1:] for each in caption))


# --- provenance ----------------------------------------------------------------------------
def _origin(spec: Mapping[str, Any] | None, run: Result) -> Iterator[str]:
    """Yield the experiment, if there is one, and the version of netsim."""
    if spec:
        yield _experiment(spec)
    yield _provenance({"netsim": run.run["version"], "Python": run.run["python"],
                       "seed": run.run["seed"]})


def _experiment(spec: Mapping[str, Any]) -> str:
    return f"<h2>Experiment</h2>\n<pre>{text_of(tomli_w.dumps(_without_none(spec)))}</pre>"


def _provenance(facts: Mapping[str, Any]) -> str:
    items = "".join(f"<li>{text_of(name)}: {text_of(value)}</li>" for name, value in facts.items())
    return f"<h2>Provenance</h2>\n<ul>{items}</ul>"


def _without_none(value: Any) -> Any:
    """Drop entries that are None, which TOML cannot represent."""
    if isinstance(value, Mapping):
        return {name: _without_none(each) for name, each in value.items() if each is not None}
    return [_without_none(each) for each in value] if isinstance(value, list) else value
