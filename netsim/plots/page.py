"""Parts of HTML pages that refer to no other file: tables, figures, and the page around them."""

from __future__ import annotations

import base64
import html
import io
import json
import re
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import pandas as pd

from netsim.plots.style import WIDTH_IN, series_of
from netsim.reading import read_text
from netsim.text import named, visible
from netsim.units import format_aligned, format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { color-scheme: light dark; --ink: #222; --page: #fff; --pale: #555; --line: #ddd;
        --box: #f5f5f5; --failed: #a00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ddd; --page: #181818; --pale: #aaa; --line: #444; --box: #262626;
          --failed: #f88; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
       max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-size: .85rem; white-space: nowrap; }
div.wide { overflow-x: auto; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid var(--line);
         vertical-align: top; }
th { border-bottom: 2px solid #888; } td.text, th.text { text-align: left; }
td.long { white-space: normal; min-width: 16rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(25rem, 100%), 1fr));
           gap: 0 1.5rem; align-items: start; }
.figures > .whole, .figures > .zoom { grid-column: 1 / -1; }
figure { margin: 1rem 0; } figure svg, figure img { max-width: 100%; height: auto; }
/* Figures stay dark on light: their colours are chosen for it. */
figure > svg, figure > img, .zoom > div { background: #fff; color: #222; }
figcaption { font-size: .85rem; color: var(--pale); }
pre { background: var(--box); padding: .8rem; overflow-x: auto; font-size: .8rem; }
.failed { color: var(--failed); }
.policies { position: sticky; top: 0; background: var(--page); padding: .3rem 0;
            font-size: .85rem; border-bottom: 1px solid var(--line); z-index: 1; }
.policies label { margin-right: 1rem; white-space: nowrap; }
.zoom svg { width: 100%; touch-action: none; user-select: none; cursor: crosshair; }
.key { font-size: .8rem; } .key span { margin-right: 1rem; white-space: nowrap; }
.zoom .key svg { width: 24px; cursor: auto; vertical-align: middle; }
.zoom button { font: inherit; font-size: .8rem; } .off { display: none; }
</style>
</head>
<body>
<h1>$title</h1>
$body
<script>
$script
</script>
</body>
</html>
""")


def text_of(value: object) -> str:
    """Escape a value for HTML; policies of a script or a notebook have their bare names."""
    return html.escape(visible(named(str(value)), lines=True))


def page_of(title: str, body: str) -> str:
    """Write a page with a title."""
    script = read_text(Path(__file__).with_name("report.js"))
    return _PAGE.substitute(title=text_of(title), body=body, script=script)


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
    from matplotlib import rc_context

    for artist, label in series_of(figure):
        artist.set_gid(f"series:{label}")
    file = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "netsim"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    svg = file.getvalue().partition("<!DOCTYPE")[2].partition(">")[2].strip()
    if len(svg) <= _LARGE:
        svg = _SIZE.sub(lambda size: f'width="{_SCALE * float(size[1]):.0f}pt"', svg, count=1)
        # Not ids, which must be unique: a policy has several artists, in several figures.
        return _SERIES.sub(r'<g data-series="\1"', svg)
    image = io.BytesIO()
    figure.savefig(image, format="png", metadata={"Software": None})
    return f'<img alt="" src="data:image/png;base64,{base64.b64encode(image.getvalue()).decode()}">'
