# Two commands set everything up on a fresh machine with python3 (with venv) and make:
#   make quickstart   trains PLR⊥ on mazes for a few minutes, evaluates it and writes a report
#   make test         lint, format, types, import layers, then the whole test suite
# Each makes the virtual environment on its first call and reuses it afterwards.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.DELETE_ON_ERROR:
.PHONY: quickstart test lint test-fast format bench clean help

help:
	@sed -n 's/^#   //p' Makefile

quickstart: $(VENV)/.runtime
	$(BIN)/tutelage train plr-perp --preset laptop --out artefacts/quickstart --overwrite
	$(BIN)/tutelage eval artefacts/quickstart --suite maze --episodes 20 --baselines
	$(BIN)/tutelage report artefacts/quickstart

test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The inner loop of work: everything not marked slow.
test-fast: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks env
	$(BIN)/python -m benchmarks train
	$(BIN)/python -m benchmarks racing

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.runtime: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/.runtime

clean:
	rm -rf $(VENV) artefacts build dist
