# make demo    set up, and compare Parrot with the other schemes on a ready-made workload (1 min);
#              netsim warm-up then compiles what the other allocators need
# make test    set up, and run the tests (5 min)
# make test-all  the same, with all examples and combinations, and what takes too long for each time
#              (45 min)
# make fuzz    100,000 damaged files for all readers (10 min); fewer: make fuzz EXAMPLES=1000
# make lint    ruff and mypy (2 min the first time)
# make bench   the speed of the things that must be fast (15 min)
# make numbas  the small cases of every engine with the oldest Numba that pyproject.toml allows, and
#              with the newest; before a release (10 min)
# make docs    the documentation as web pages, in docs/_build/html (3 min)
# make package the wheel and the source distribution, in dist; the wheel in a new environment (4 min)
# make clean   remove the environment, results and caches
#
# Times are on two cores. Setting up, the first time, takes another minute.
#
# PYTHON=python3.12 make demo   uses another Python than python3; 3.11 or newer.

PYTHON ?= python3
EXAMPLES ?= 100000
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-all fuzz lint bench numbas docs package clean

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

# What is installed is marked by a file each, so that a second call does nothing.

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "netsim needs Python 3.11 or newer, and '$(PYTHON)' is not." \
	         "Name one that is: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/netsim: pyproject.toml $(VENV)/made
	$(BIN)/python -m pip install --quiet --editable '.[all]'
	@touch $@

# What the demo needs, and no more; nothing if all is there.
$(VENV)/demo: pyproject.toml $(VENV)/made
	@test -e $(VENV)/netsim || { set -x; $(BIN)/python -m pip install --quiet --editable '.[plot]'; }
	@touch $@

$(VENV)/test $(VENV)/lint $(VENV)/docs $(VENV)/package: $(VENV)/%: $(VENV)/netsim
	$(BIN)/python -m pip install --quiet --group $*
	@touch $@

demo: $(VENV)/demo
	$(BIN)/netsim compare demo --out runs/demo --plot runs/demo.png

test: $(VENV)/test
	$(BIN)/python -m pytest -n auto --dist worksteal

test-all: $(VENV)/test
	NETSIM_TESTS=all $(BIN)/python -m pytest -n auto --dist worksteal -m ""

fuzz: $(VENV)/test
	NETSIM_FUZZ=$(EXAMPLES) $(BIN)/python -m pytest -vv -n auto --maxfail 5 tests/fuzz

lint: $(VENV)/lint
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/test
	$(BIN)/python tests/bench/run.py

numbas:
	@set -e; tried="$$(mktemp -d)"; trap 'rm -rf "$$tried"' EXIT; \
	oldest="$$(sed -n 's/^    "numba>=\(.*\)",$$/\1/p' pyproject.toml)"; \
	for numba in "numba==$$oldest.*" numba; do \
	    rm -rf "$$tried/venv"; $(PYTHON) -m venv "$$tried/venv"; \
	    "$$tried/venv/bin/python" -m pip install --quiet . "$$numba" pytest hypothesis; \
	    "$$tried/venv/bin/python" -c 'import numba; print("numba", numba.__version__)'; \
	    NUMBA_CACHE_DIR="$$tried/kept" PYTHONPATH=. "$$tried/venv/bin/python" -m pytest \
	        tests/fabric/test_without_compiling.py tests/fabric/test_add_an_engine.py; \
	done

docs: $(VENV)/docs
	$(BIN)/python -m sphinx -W -q docs docs/_build/html

# The wheel is built from the source distribution, and tried away from the checkout, so that nothing
# is found there that it does not have.
package: $(VENV)/package
	rm -rf dist
	$(BIN)/python -m build --outdir dist . >/dev/null
	test ! -e .git || $(BIN)/python tests/package.py dist
	@set -e; tried="$$(mktemp -d)"; trap 'rm -rf "$$tried"' EXIT; \
	    $(PYTHON) -m venv "$$tried/venv"; \
	    "$$tried/venv/bin/python" -m pip install --quiet "$$(ls "$$PWD"/dist/*.whl)[plot]"; \
	    cd "$$tried"; venv/bin/netsim --version; \
	    venv/bin/netsim compare demo --out runs --plot demo.png; \
	    venv/bin/netsim run a-online --set workload.jobs=20 --out edge >/dev/null; \
	    test -s demo.png; test -e venv/lib/python*/site-packages/netsim/py.typed
	@ls dist

clean:
	rm -rf $(VENV) runs build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find netsim tests -name __pycache__ -prune -exec rm -rf {} +
