"""Sphinx configuration: ``make docs`` builds the pages into docs/_build."""

from netsim import __version__

project = "netsim"
author = "The netsim developers"
release = __version__
extensions = ["myst_parser"]
exclude_patterns = ["_build"]
html_theme = "furo"
myst_heading_anchors = 2
