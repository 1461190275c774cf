"""Sphinx configuration: ``make docs`` builds the pages into docs/_build/html."""

import re

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

from netsim import __version__

project = "netsim"
author = "The netsim developers"
copyright = author
release = __version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon",
              "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["netsim.css"]
myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]

# The notebooks show what they gave when they were last run; the tests run them.
nb_execution_mode = "off"

# Names in docstrings stand in single backticks.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autosummary_generate = False
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_preprocess_types = False
python_use_unqualified_type_names = True
# Attributes of that name that several classes have.
suppress_warnings = ["ref.python"]


def formula(display):
    """Return a visitor that writes a formula as MathML, which browsers show without a script."""
    def visit(self, node):
        self.body.append(convert(node.astext(), display=display))
        raise SkipNode

    return visit


#: The names of several attributes, and what is said of them, on lines that napoleon wrote.
ATTRIBUTES = re.compile(r"^:(ivar|vartype) (\S+, [^:]+):(.*(?:\n(?: .*)?$)*)", re.MULTILINE)


def split_attributes(app, what, name, obj, options, lines):
    """Give each name of ``a, b : type`` an entry; Sphinx would take ``a,`` for the type of b."""
    lines[:] = ATTRIBUTES.sub(
        lambda found: "\n".join(f":{found[1]} {each}:{found[3]}" for each in found[2].split(", ")),
        "\n".join(lines)).split("\n")


def summarise(app, docname, source):
    """Let each page of the reference list its names, below what it says of itself."""
    if docname.startswith("api/"):
        names = re.findall(r"auto(?:class|function):: (\S+)", source[0])
        title, what, rest = source[0].split("\n\n", 2)
        summary = "\n".join(["```{eval-rst}", ".. autosummary::", "   :nosignatures:", "",
                             *(f"   {name}" for name in names), "```"])
        source[0] = "\n\n".join([title, what, summary, rest])


def setup(app):
    """Write formulas as MathML, an entry for each attribute, and summaries of the reference."""
    app.add_html_math_renderer("mathml", (formula("inline"), None), (formula("block"), None))
    app.connect("source-read", summarise)
    app.connect("autodoc-process-docstring", split_attributes, priority=600)  # after napoleon


html_math_renderer = "mathml"
