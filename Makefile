# Everything needs only a clone, Python >= 3.10 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
.DEFAULT_GOAL := help
.PHONY: help install demo test lint results docs parity roundtrip kills fuzz bench clean

help: ## show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(BIN)/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/pip
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

install: $(VENV)/.installed ## install the program into .venv

demo: $(VENV)/.installed ## run the whole pipeline on the bundled sample text
	$(BIN)/nas run examples/demo.yaml

# Containers often set it. The tests start hundreds of processes, and each would compile all modules again.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(VENV)/.installed-dev ## run the tests
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(VENV)/.installed-dev ## check style and types
	$(BIN)/ruff check .
	$(BIN)/mypy

results: $(VENV)/.installed ## write the tables of measurements from benchmarks/results
	$(BIN)/python docs/generate_results.py

docs: $(VENV)/.installed-dev results ## write the generated pages and build the documentation into site/
	$(BIN)/python docs/generate_reference.py
	$(BIN)/python docs/generate_blocks.py
	$(BIN)/mkdocs build --strict

parity: $(VENV)/.installed-dev ## compare the supernet with extracted models, 200 per space
	$(BIN)/python -m tests.parity --per-space 200

roundtrip: $(VENV)/.installed-dev ## compare the supernet with every export of extracted models, 20 per family
	$(BIN)/python -m tests.round_trip --per-family 20

kills: $(VENV)/.installed-dev ## kill or stop commands at random moments and compare their results
	$(BIN)/python -m tests.kills --kills 20
	$(BIN)/python -m tests.search_kills --local 10 --ray 3
	$(BIN)/python -m tests.stops --stops 3

N ?= 1000
fuzz: $(VENV)/.installed-dev ## damage every file the program reads, in N cases, and check that each is rejected with one sentence
	$(BIN)/python -m tests.fuzz --cases $(N)

bench: $(VENV)/.installed ## run every benchmark that needs no run, one JSON line each
	@for script in supernet_overhead training; do $(BIN)/python benchmarks/$$script.py; done

clean: ## delete the environment and caches
	rm -rf $(VENV) build site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
