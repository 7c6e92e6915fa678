# Needs make and Python 3.11 or newer: where uv is missing, a private one is made in .uv/.
UV := $(if $(shell uv --version 2>/dev/null),uv,.uv/bin/uv)
RUN := $(UV) run --all-groups
PYTHON ?= $(or $(shell command -v python3.11),python3)
CODE := core plugins tests
# All tests run on all cores; with ARGS in one process. WORKERS=auto, or a number, says otherwise.
WORKERS ?= $(if $(ARGS),0,auto)
BESIDE := --numprocesses $(WORKERS) --maxprocesses 8 --dist worksteal --durations 20

.PHONY: demo test lint ruff mypy pyright fix bench pins

demo: $(filter .uv/%,$(UV))  ## GridSim, rehearsed through the functions that Miles loads
	$(UV) run --quiet --only-group demo agentenv rehearse examples/gridsim --policy greedy

test: $(filter .uv/%,$(UV))  ## all tests; ARGS="-k name" goes to pytest
	$(RUN) pytest $(if $(filter-out 0,$(WORKERS)),$(BESIDE)) $(ARGS)

lint: ruff mypy pyright  ## ruff, mypy --strict, pyright strict

ruff: $(filter .uv/%,$(UV))
	$(RUN) ruff check .
	$(RUN) ruff format --check .

mypy: $(filter .uv/%,$(UV))
	$(RUN) mypy $(CODE)

pyright: $(filter .uv/%,$(UV))
	$(RUN) pyright

fix: $(filter .uv/%,$(UV))  ## format, and mend what ruff can
	$(RUN) ruff check --fix .
	$(RUN) ruff format .

bench: $(filter .uv/%,$(UV))  ## benchmarks: ratios against peers of the same run
	$(RUN) python bench/install.py
	$(RUN) python bench/episodes.py
	$(RUN) python bench/wire.py
	$(RUN) python bench/resets.py

pins: $(filter .uv/%,$(UV))  ## take the newest versions and write them into pyproject.toml
	$(UV) run --quiet --no-project python bench/pins.py $(UV)

.uv/bin/uv:
	$(PYTHON) -m venv .uv && .uv/bin/python -m pip install --quiet uv || $(PYTHON) -m pip install --quiet --target .uv uv
