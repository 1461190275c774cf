"""Hold what `make package` has built to the files that git has: nothing missing, nothing stray.

Run as ``python tests/package.py dist``.
"""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

#: Where the wheel has folders that stand beside the package in the checkout.
INSIDE = {"topologies": "netsim/topologies", "workloads": "netsim/workloads"}
#: What the source distribution has of the checkout, and what building adds to it.
WITH_SOURCES = ("netsim", "topologies", "workloads", "docs", "tests", "pyproject.toml", "README.md",
                "Makefile", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE",
                ".gitignore")
ADDED = {"PKG-INFO"}


def kept(*parts):
    """The files of some parts of the checkout, as git has them."""
    listed = subprocess.run(["git", "ls-files", *parts], check=True, capture_output=True, text=True)
    return set(listed.stdout.splitlines())


def in_wheel(path):
    """Where the wheel has a file of the checkout."""
    first, _, rest = path.partition("/")
    return f"{INSIDE.get(first, first)}/{rest}"


def differences(what, found, wanted):
    return [f"{what}: {path} is {said}" for said, paths in
            (("missing", wanted - found), ("stray", found - wanted)) for path in sorted(paths)]


def main(folder):
    (wheel,), (sources,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    problems = differences(wheel.name, found, set(map(in_wheel, kept("netsim", *INSIDE))))
    with tarfile.open(sources) as archive:
        found = {each.name.partition("/")[2] for each in archive.getmembers() if each.isfile()}
    problems += differences(sources.name, found - ADDED, kept(*WITH_SOURCES))
    return "\n".join(problems) or None


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
