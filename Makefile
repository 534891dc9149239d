# make demo    find the clusters of the Old Faithful eruptions, and write a report about them
# make test    lint, then every test
# make test-clients  with BERTopic, scanpy, ONNX, skops, FAISS and EVoC, in an environment of its own
# make test-oldest  every test with the oldest versions that pyproject.toml allows, on Python 3.11
# make test-newest  every test with the newest versions, in an environment of its own
# make release-check  build sdist and wheel, and try the wheel in a new environment
# make test-cpus  every test as other processors would run it (an hour)
# make coverage  which lines the tests run, kernels included (the JIT is off: slow)
# make fuzz    random estimators on random data against the contract (SECONDS=300 SEED=0)
# make lint    ruff, mypy, import-linter
# make docs    the site, into docs/_build/html
# make docs-check  the site without running the gallery: are all links and references right?
# make reproduce  the experiments of the papers, into experiments/results
# make bench   side-by-side timings against other libraries, into benchmarks/log; goes on where it stopped
#
# All of them work in .venv, made on first use and again when pyproject.toml changes.

PYTHON ?= python3
VENV   ?= .venv
OUT    ?= madbayes-out

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: help demo test test-clients test-oldest test-newest test-cpus release-check coverage fuzz \
  lint format docs docs-check reproduce bench clean
.DELETE_ON_ERROR:

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

demo: $(VENV)/.installed-demo
	$(BIN)/madbayes cluster examples/old_faithful.csv --out $(OUT) --plot
	@echo "Open $(OUT)/report.html in a browser."

test: lint
	$(BIN)/python -m madbayes.compile --quiet # once, instead of once in every worker
	$(BIN)/python -m pytest -n auto --dist worksteal

CLIENTS ?= .venv-clients

test-clients:
	@$(MAKE) --no-print-directory VENV=$(CLIENTS) $(CLIENTS)/.installed-clients
	$(CLIENTS)/bin/python -m pytest tests/clients

# The oldest Python too, where there is one: make test-oldest OLDEST_PYTHON=python3.11
OLDEST_PYTHON ?= $(shell command -v python3.11 || echo $(PYTHON))
NEWEST_PYTHON ?= $(PYTHON)

test-oldest:
	@$(MAKE) --no-print-directory VENV=.venv-oldest PYTHON=$(OLDEST_PYTHON) .venv-oldest/bin/python
	.venv-oldest/bin/python tests/oldest.py > .venv-oldest/constraints.txt
	.venv-oldest/bin/python -m pip install --quiet --constraint .venv-oldest/constraints.txt \
	  --editable ".[test,neighbors]"
	.venv-oldest/bin/python -m madbayes.compile --quiet
	.venv-oldest/bin/python -m pytest -n auto --dist worksteal

test-newest:
	@$(MAKE) --no-print-directory VENV=.venv-newest PYTHON=$(NEWEST_PYTHON) .venv-newest/bin/python
	.venv-newest/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager --editable ".[test]"
	.venv-newest/bin/python -m madbayes.compile --quiet
	.venv-newest/bin/python -m pytest -n auto --dist worksteal

release-check: $(VENV)/.installed-release
	$(BIN)/python tests/release.py

test-cpus: $(VENV)/.installed-test
	$(BIN)/python tests/cpus.py

SECONDS ?= 300
SEED    ?= 0

fuzz: $(VENV)/.installed-test
	$(BIN)/python tests/fuzz.py --seconds $(SECONDS) --seed $(SEED)

# Compiled code cannot be traced, so every kernel runs as plain Python on the small problems of the
# tests that compare it with its reference.
KERNEL_TESTS ?= tests/kmeans/test_kmeans.py tests/kmeans/test_dp_means.py \
  tests/kmeans/test_collapsed_dp_means.py tests/groups tests/features tests/test_graph.py \
  tests/medoids

coverage: $(VENV)/.installed-test
	$(BIN)/python -m coverage erase
	-NUMBA_DISABLE_JIT=1 $(BIN)/python -m coverage run -p -m pytest -q -x $(KERNEL_TESTS) -k "plain or reference or brute"
	$(BIN)/python -m coverage run -p -m pytest -q
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --skip-covered --sort=cover

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed-docs
	$(BIN)/python docs/make_cli.py
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

docs-check: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx -W --keep-going -q -D sphinx_gallery_conf.plot_gallery=0 -b html docs \
	  docs/_build/check

EXPERIMENTS := prml_figure9 kj_figure2 kj_table1 kj_scale kj_hdp bkj_tabletop bkj_faces gaps page

reproduce: $(VENV)/.installed-docs
	set -e; for name in $(EXPERIMENTS); do $(BIN)/python experiments/$$name.py; done

bench: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/run.py --resume

clean:
	rm -rf $(VENV) $(CLIENTS) .venv-oldest .venv-newest $(OUT) dist build

# One stamp per set of extras: a second make installs nothing.
$(VENV)/.installed-demo: EXTRAS = cli,plot
$(VENV)/.installed-test: EXTRAS = test
$(VENV)/.installed-clients: EXTRAS = clients
$(VENV)/.installed-docs: EXTRAS = test,docs
$(VENV)/.installed-bench: EXTRAS = test,bench
$(VENV)/.installed-release: EXTRAS = release

$(VENV)/.installed-%: $(VENV)/bin/python pyproject.toml
	@echo "installing madbayes[$(EXTRAS)] into $(VENV) (once; a minute or two)"
	@$(PIP) --editable ".[$(EXTRAS)]"
	@touch $@

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "madbayes needs Python 3.11 or newer; try: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "could not make a virtual environment (on Debian and Ubuntu: apt install python3-venv)"; \
	    rm -rf $(VENV); exit 1; }
