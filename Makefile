# The one door to the project. `make help` lists the targets.
VENV := .venv
PY := $(VENV)/bin/python
PYTHON ?= python3
# Each starts a Spark of its own, of about 1 GB.
TEST_PROCESSES ?= 2
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install demo test lint format bench fuzz stubs clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(STAMP) ## Make .venv with the odf command, the engines, Java and the developers' tools

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "odf needs Python 3.11 or later; this is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 install" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
		{ echo "Python's venv module is missing. On Debian or Ubuntu: sudo apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[spark,datafusion]' --group dev
	@$(PY) -m compileall -q odf # engines run where the source cannot be written to
	@echo "Preparing Spark to start quickly (about a minute)"
	@$(VENV)/bin/odf engine build --only archive --quiet || echo "Spark works, but starts slowly; try later: odf engine build" >&2
	@touch $(STAMP)

demo: install ## Run the main job from nothing to a verified copy, and show every command
	$(PY) examples/demo.py

test: install ## Run the tests
	$(PY) -m pytest -q -n $(TEST_PROCESSES) --dist loadfile

lint: install ## Check style, types and layers
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: install ## Put the code into the project's format
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

bench: install ## Measure speed against yardsticks run at the same time; writes docs/perf.md
	$(PY) -m tests.bench

bench-quick: install ## The same on small data in under three minutes; prints only
	$(PY) -m tests.bench --quick

fuzz: install ## Feed mutated input to everything that reads strangers' bytes (FUZZ_RUNS=200000)
	$(PY) -m pip install --quiet --disable-pip-version-check --group fuzz
	$(PY) -m tests.fuzz $(FUZZ_TARGETS)

stubs: install ## Make the gRPC stubs anew from the .proto files
	$(PY) -m odf.protocol.generate

clean: ## Remove .venv and everything that was made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-run
