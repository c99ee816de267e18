# Two commands set everything up on a fresh machine with python3 (with venv) and make:
#   make quickstart   trains PLR⊥ on mazes for some minutes, evaluates it and writes a report
#   make test         lint, format, types, import layers, then the tests
# Each makes the virtual environment on its first call and reuses it afterwards. For work on the code:
#   make test-fast    the tests that are not marked slow
#   make test-all     all tests, also those marked nightly
#   make lint         ruff, mypy, import layers
#   make format       ruff's formatter and its safe fixes
#   make docs         the documentation as a site in artefacts/site; needs no network once its packages are there
#   make bench        speed, printed as tables
#   make clean        removes what the others made

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal --durations 25

.DELETE_ON_ERROR:
.PHONY: quickstart test test-fast test-all lint format docs bench clean help

help:
	@sed -n 's/^#   //p' Makefile

quickstart: $(VENV)/.runtime
	$(BIN)/tutelage train plr-perp --preset laptop --total-steps 16000000 --out artefacts/quickstart --overwrite
	$(BIN)/tutelage eval artefacts/quickstart --suite paper --episodes 20 --baselines
	$(BIN)/tutelage report artefacts/quickstart

test: lint
	$(PYTEST) -m "not nightly"

test-fast: $(VENV)/.dev
	$(PYTEST) -m "not slow and not nightly"

test-all: lint
	$(PYTEST)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

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

$(VENV)/.docs: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@ $(VENV)/.runtime

clean:
	rm -rf $(VENV) artefacts build dist
