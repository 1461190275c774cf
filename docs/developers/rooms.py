"""Draw the rooms of the package, from the ground up; the area of each is its number of lines.

Boxes that would be too narrow for a name are wider than that.

``python docs/developers/rooms.py`` writes ``docs/img/rooms.svg``. The order of the rooms is the one
that ``tests/test_imports.py`` enforces.
"""

import ast
import re
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

ROOT = Path(__file__).resolve().parents[2]

#: The modules at the bottom are too small for boxes of their own.
GROUND = "errors, columns, jobs, ..."

#: Layers from the ground up: the first room of each.
LAYERS = ("collectives", "fabric", "allocators", "cluster", "edge", "results", "analysis",
          "plots", "reproductions")

#: The rooms of each group, and its colour.
GROUPS = {
    "ground": ("#d9d9d9", ("base", GROUND)),
    "what a run is given": (
        "#fdd49e", ("collectives", "models", "workload", "llm", "network", "traces")),
    "fabric, jobs, clusters, edge-clouds": (
        "#a6cee3", ("fabric", "jobs", "cluster", "engine", "edge")),
    "policies": ("#b2df8a", ("allocators", "predictors", "placements", "schedulers")),
    "runs": ("#fb9a99", ("simulation", "gym", "scripting", "experiment_file",
                         "studies", "reproductions")),
    "results": ("#cab2d6", ("results", "analysis", "plots")),
    "for users and developers": ("#ffffb3", ("testing", "cli")),
}

WIDTH, HEIGHT, GAP, LEAST = 11.0, 7.6, 0.05, 1.0


def rooms():
    """Return the rooms in order, with their numbers of lines; the small modules are one."""
    text = (ROOT / "tests" / "test_imports.py").read_text()
    names = ast.literal_eval(re.search(r"^ROOMS = (\(.*?\))$", text, re.MULTILINE | re.DOTALL)[1])
    lines = {GROUND: 0}
    for name in names:
        path = ROOT / "netsim" / name
        files = path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]
        count = sum(len(file.read_text().splitlines()) for file in files)
        if name == "__main__":
            lines["cli"] += count
        elif name in {room for _, members in GROUPS.values() for room in members}:
            lines[name] = count
        else:
            assert not path.is_dir(), f"{name} belongs to no group"
            lines[GROUND] += count
    return lines


def layers(lines):
    """Split the rooms into layers."""
    found = [[]]
    for name in lines:
        if name in LAYERS:
            found.append([])
        found[-1].append(name)
    return found


def draw(lines):
    """Return a figure with a box per room, its area in proportion to its lines."""
    plt.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "rooms", "font.family": "sans-serif"}
    colour = {room: shade for shade, members in GROUPS.values() for room in members}
    fig, ax = plt.subplots(figsize=(WIDTH, HEIGHT + 0.9))
    bottom, total = 0.0, sum(lines.values())
    for layer in layers(lines):
        of_layer = sum(lines[name] for name in layer)
        height, left = HEIGHT * of_layer / total, 0.0
        tall = height > 0.55
        widths = [max(WIDTH * lines[name] / of_layer, LEAST) for name in layer]
        for name, width in zip(layer, (WIDTH * each / sum(widths) for each in widths), strict=True):
            ax.add_patch(Rectangle((left, bottom), width - GAP, height - GAP, linewidth=0.6,
                                   facecolor=colour[name], edgecolor="#555555"))
            text = name if tall else f"{name} {lines[name]:,}"
            where = left + (width - GAP) / 2, bottom + (height - GAP) / 2
            ax.annotate(text, where, (0, 5 if tall else 0), textcoords="offset points",
                        ha="center", va="center",
                        fontsize=min(11.0 if tall else 9.0, 82 * width / len(text)))
            if tall:
                ax.annotate(f"{lines[name]:,}", where, (0, -8), textcoords="offset points",
                            ha="center", va="center", fontsize=8.5, color="#444444")
            left += width
        bottom += height
    ax.legend([Rectangle((0, 0), 1, 1, facecolor=shade, edgecolor="#555555")
               for shade, _ in GROUPS.values()], GROUPS, loc="upper center",
              bbox_to_anchor=(0.5, 0.0), ncol=4, frameon=False, fontsize=9.5)
    ax.annotate("", (-0.15, HEIGHT), (-0.15, 0), annotation_clip=False,
                arrowprops={"arrowstyle": "<-", "color": "#555555"})
    ax.annotate("imports", (-0.3, HEIGHT / 2), rotation=90, ha="center", va="center", fontsize=10,
                color="#555555", annotation_clip=False)
    ax.set(xlim=(-0.4, WIDTH), ylim=(-0.05, HEIGHT))
    ax.axis("off")
    return fig


if __name__ == "__main__":
    figure = draw(rooms())
    figure.savefig(ROOT / "docs" / "img" / "rooms.svg", bbox_inches="tight",
                   metadata={"Date": None, "Creator": None})
