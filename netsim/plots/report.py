"""An HTML report of a sweep in one self-contained file: tables, figures and provenance."""

from __future__ import annotations

import html
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import tomli_w

from netsim.atomic import atomic_write
from netsim.errors import InputError
from netsim.plots.pictures import PICTURES
from netsim.text import visible

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from netsim.studies.sweep_result import Sweep

__all__ = ["report_page", "save_report"]

_MEANS = ("Means over seeds, geometric ones for ratios; whiskers and bands show 95 % confidence "
          "intervals")
_CAPTIONS = {"bars": _MEANS, "sweep": _MEANS, "cdf": "Distribution of JCTs, all seeds pooled"}

#: Columns of the table of claims that are shown.
_CLAIMED = ("claim", "paper", "measured", "holds_on", "verdict")

#: More curves than this cannot be told apart in one figure.
_MOST_CURVES = 6

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 62rem; margin: 2rem auto;
       padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-size: .85rem; white-space: nowrap; }
div.wide { overflow-x: auto; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #ddd; }
th { border-bottom: 2px solid #888; } td.text, th.text { text-align: left; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; width: 34rem; }
figcaption { font-size: .85rem; color: #555; } pre { background: #f5f5f5; padding: .8rem;
       overflow-x: auto; font-size: .8rem; } .failed { color: #a00; }
</style>
</head>
<body>
<h1>$title</h1>
$body
</body>
</html>
""")


def report_page(sweep: Sweep, claims: pd.DataFrame | None = None) -> str:
    """Return a report of a sweep as an HTML page that refers to no other file.

    Parameters
    ----------
    sweep : Sweep
    claims : DataFrame, optional
        Claims of a paper and whether the sweep confirms them; see `netsim.reproductions`.

    Raises
    ------
    InputError
        If the sweep has no run.
    MissingExtraError
        If matplotlib is not installed.
    """
    title = f"Sweep {sweep.folder.resolve().name}"
    parts = [_lead(sweep)]
    if claims is not None:
        parts += ["<h2>Claims</h2>",
                  _table(claims[[name for name in _CLAIMED if name in claims]])]
    parts += ["<h2>Means over seeds</h2>",
              "<p>With 95 % confidence intervals. Means of ratios are geometric.</p>",
              _table(_joined(sweep.means()))]
    if (ratios := sweep.ratios_if_any()) is not None:
        parts += ["<h2>Ratios, pair by pair</h2>",
                  f"<p>Total JCT over that of {_text(ratios['baseline'].iloc[0])} on the same "
                  "workload: geometric means with 95 % confidence intervals, and the numbers of "
                  "pairs with a ratio below 1 and above 1.</p>",
                  _table(_joined(ratios.drop(columns="baseline")))]
    if sweep.columns:
        parts += ["<h2>Figures</h2>", *_figures(sweep)]
    if len(sweep.failures):
        parts += ["<h2>Failed runs</h2>", _table(sweep.failures[[*sweep.columns, "seed",
                                                                 "error"]])]
    parts += ["<h2>Runs</h2>", _table(sweep.table[[*sweep.columns, "seed", "jobs_finished",
                                                   "jct_total_s", "over_lower_bound",
                                                   "makespan_s", "key"]]),
              "<h2>Experiment</h2>", f"<pre>{_text(_spec(sweep))}</pre>",
              "<h2>Provenance</h2>", _provenance(sweep)]
    return _PAGE.substitute(title=_text(title), body="\n".join(parts))


def save_report(sweep: Sweep, path: str | Path, claims: pd.DataFrame | None = None) -> Path:
    """Write `report_page` to a file atomically.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    page, target = report_page(sweep, claims), Path(path)
    with atomic_write(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return target


def _text(value: object) -> str:
    """Escape a value for HTML."""
    return html.escape(visible(value, lines=True))


def _lead(sweep: Sweep) -> str:
    """Return a paragraph with the number of runs and what was varied."""
    over = " &times; ".join(map(_text, (*sweep.columns, "seed")))
    missing = f', <span class="failed">{sweep.missing} missing</span>' if sweep.missing else ""
    return f"<p>{len(sweep.table):,} runs over {over}{missing}.</p>"


def _joined(table: pd.DataFrame) -> pd.DataFrame:
    """Merge each mean of a table with its interval into one cell."""
    joined = table.copy()
    for name in [name for name in table if f"{name}_low" in table]:
        ends = zip(table[name], table[f"{name}_low"], table[f"{name}_high"], strict=True)
        joined[name] = [f"{mean:.4g} [{low:.4g}, {high:.4g}]" if low < high else f"{mean:.4g}"
                        for mean, low, high in ends]
    return joined[[name for name in table if not str(name).endswith(("_low", "_high"))]]


def _table(table: pd.DataFrame) -> str:
    """Return a table as HTML."""
    text = {name for name in table if table[name].dtype.kind not in "iuf"}

    def cell(tag: str, name: Any, value: Any) -> str:
        kind = ' class="text"' if name in text else ""
        shown = f"{value:.6g}" if isinstance(value, float) else value
        return f"<{tag}{kind}>{_text(shown)}</{tag}>"

    head = "".join(cell("th", name, name) for name in table)
    rows = ("".join(cell("td", name, value) for name, value in row.items())
            for row in table.to_dict("records"))
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return (f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n'
            f"<tbody>\n{body}\n</tbody></table></div>")


def _figures(sweep: Sweep) -> Iterator[str]:
    """Yield the figures of the plots that apply to a sweep."""
    curves = len(sweep.table.drop_duplicates(list(sweep.columns)))
    for kind, picture in PICTURES["sweep"].items():
        if kind == "cdf" and curves > _MOST_CURVES:
            yield (f"<p>Distributions are left out: {curves} curves in one figure cannot be told "
                   "apart. <code>netsim plot --kind cdf</code> draws them.</p>")
            continue
        try:
            ax = picture.draw(sweep, next(iter(picture.of)))
        except InputError as error:  # such as lines against a parameter if none was varied
            yield f"<!-- {kind}: {_text(error)} -->"
            continue
        yield f"<figure>{_svg(ax)}<figcaption>{_CAPTIONS[kind]}</figcaption></figure>"


def _svg(ax: Axes) -> str:
    """Return the figure of some axes as an SVG element."""
    from matplotlib import rc_context

    file = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "netsim"}):
        ax.figure.canvas.figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue().partition("<!DOCTYPE")[2].partition(">")[2].strip()


def _spec(sweep: Sweep) -> str:
    """Return the experiment and the varied keys as TOML, with allocators by their labels."""
    vary = {name: values for name, values in sweep.grid.items() if name != "seed"}
    return tomli_w.dumps(_without_none({
        **sweep.experiment, "sweep": {"seeds": sweep.grid["seed"], "vary": vary}}))


def _without_none(value: Any) -> Any:
    """Drop entries that are None, which TOML cannot represent."""
    if isinstance(value, Mapping):
        return {name: _without_none(each) for name, each in value.items() if each is not None}
    return [_without_none(each) for each in value] if isinstance(value, list) else value


def _provenance(sweep: Sweep) -> str:
    """Return a list of the version, the seeds and the place of the runs."""
    version, _, digest = sweep.code.partition(" ")
    seeds = ", ".join(map(str, sweep.grid["seed"]))
    facts = {"netsim": version, "digest of its code": digest, "seeds": seeds,
             "runs stored in": sweep.folder.resolve().name}
    items = "".join(f"<li>{_text(name)}: {_text(value)}</li>" for name, value in facts.items())
    return f"<ul>{items}</ul>"
