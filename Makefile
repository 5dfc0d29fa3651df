# Everything happens inside this folder: the environment is .venv, made once by the first target that needs it.
SUPPORTED := import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 13))
PYTHON ?= $(or $(firstword $(foreach p,python3 python3.12 python3.11 python3.10,\
  $(shell $(p) -c '$(SUPPORTED)' 2>/dev/null && echo $(p)))),python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help venv install run test test-fast lint perf clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

$(BIN)/python:
	@$(PYTHON) -c '$(SUPPORTED)' 2>/dev/null || { \
	  echo "dgpbench needs Python 3.10, 3.11 or 3.12, but '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name another one, e.g.: make run PYTHON=python3.11" >&2; exit 1; }
	@echo "Making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "$(PYTHON) cannot make environments; install its venv module (Debian, Ubuntu: python3-venv)." >&2; exit 1; }

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing dgpbench and what it needs into $(VENV) (once; a few minutes)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

venv: $(BIN)/python  ## make .venv (PYTHON=python3.11 names the interpreter)

install: $(STAMP)  ## make .venv and install dgpbench into it

run: $(STAMP)  ## train and evaluate; ARGS="model=dgp3 dataset=kin8nm" passes overrides on
	@$(BIN)/dgpbench run $(ARGS)

test: $(STAMP)  ## run all tests; ARGS are passed to pytest
	@$(BIN)/python -m pytest $(ARGS)

test-fast: $(STAMP)  ## run the tests but those marked slow
	@$(BIN)/python -m pytest -m "not slow" $(ARGS)

lint: $(STAMP)  ## check style
	@$(BIN)/ruff check .

perf: $(STAMP)  ## measure speed beside GPflow (and GPflux, GPyTorch if installed)
	@$(BIN)/python -m tests.perf $(ARGS)

clean:  ## remove .venv and build products; datasets/ and results/ stay
	@rm -rf $(VENV) build dist .ruff_cache .pytest_cache *.egg-info
	@find dgpbench tests -name __pycache__ -type d -prune -exec rm -rf {} +
