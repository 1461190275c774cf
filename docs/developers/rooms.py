"""Draw the rooms of the package as boxes, from the ground up: writes ``docs/img/rooms.svg``.

The order is that of ``ROOMS`` in ``tests/test_imports.py``. The area of a box is its number of
lines, except that boxes too narrow for their names are wider.
"""

import re
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.patches import Patch

ROOT = Path(__file__).resolve().parents[2]

#: The first room of each layer but the lowest.
LAYERS = ("collectives", "fabric", "allocators", "cluster", "results", "analysis", "reproductions")

#: One box of the lowest layer, for modules that are in no group.
SMALL = "errors, text, ties, ..."

#: Groups of rooms, and their colours.
GROUPS = {
    "ground": ("#d9d9d9", "base"),
    "what a run is given": ("#fdd49e", "collectives models workload llm network traces"),
    "fabric, jobs, clusters, edge-clouds": ("#a6cee3", "fabric jobs cluster engine edge"),
    "policies": ("#b2df8a", "allocators predictors placements schedulers"),
    "runs": ("#fb9a99", "simulation gym scripting experiment_file studies reproductions"),
    "results": ("#cab2d6", "results analysis plots"),
    "for users and developers": ("#ffffb3", "testing cli"),
}

WIDTH, HEIGHT, LEAST = 11, 7.6, 1.3

colours = {room: colour for colour, rooms in GROUPS.values() for room in rooms.split()}
listed = re.search(r"^ROOMS = \((.*?)\)$", (ROOT / "tests" / "test_imports.py").read_text(),
                   re.MULTILINE | re.DOTALL)[1]
layers = [{}]
for room in re.findall(r'"(\w+)"', listed):
    if room in LAYERS:
        layers.append({})
    box, layer = (room, layers[-1]) if room in colours else (SMALL, layers[0])
    layer[box] = layer.get(box, 0) + sum(
        len(file.read_text().splitlines()) for pattern in (f"{room}.py", f"{room}/**/*.py")
        for file in (ROOT / "netsim").glob(pattern))

plt.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "rooms", "font.family": "sans-serif"}
fig, ax = plt.subplots(figsize=(WIDTH, HEIGHT + 0.9))
bottom, total = 0, sum(sum(layer.values()) for layer in layers)
for layer in layers:
    of_layer, left = sum(layer.values()), 0
    height = HEIGHT * of_layer / total
    widths = [max(WIDTH * count / of_layer, LEAST) for count in layer.values()]
    for (room, count), width in zip(layer.items(), widths, strict=True):
        width *= WIDTH / sum(widths)
        ax.bar(left, height, width, bottom, align="edge", edgecolor="white", linewidth=4,
               color=colours.get(room, GROUPS["ground"][0]))
        ax.text(left + width / 2, bottom + height / 2,
                f"{room}{chr(10) if height > 0.55 else ' '}{count:,}", ha="center", va="center")
        left += width
    bottom += height
ax.legend([Patch(color=colour) for colour, _ in GROUPS.values()], GROUPS,
          loc="upper center", bbox_to_anchor=(0.5, 0), ncol=4, frameon=False)
ax.annotate("", (-0.15, 0), (-0.15, HEIGHT), arrowprops={"arrowstyle": "->"})
ax.text(-0.3, HEIGHT / 2, "imports", rotation=90, ha="center", va="center")
ax.set(xlim=(-0.4, WIDTH), ylim=(-0.05, HEIGHT))
ax.axis("off")
fig.savefig(ROOT / "docs" / "img" / "rooms.svg", bbox_inches="tight",
            metadata={"Date": None, "Creator": None})
