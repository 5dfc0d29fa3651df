# Everything happens inside this folder: the environment is .venv, made once by the first target that needs it.
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
PYTHON ?= $(or $(firstword $(foreach p,python3 python3.13 python3.12 python3.11,\
  $(shell $(p) -c '$(SUPPORTED)' 2>/dev/null && echo $(p)))),python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS := $(VENV)/.docs
ARGS ?=
JOBS ?= 2

export PYTHONDONTWRITEBYTECODE =  # tests start hundreds of processes: modules are compiled once

.DEFAULT_GOAL := help
.PHONY: help venv install lock audit licences run test test-slow test-long test-cluster test-trackers test-libraries test-kill soak test-fuzz test-throughput lint docs results perf perf-envs repro clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

$(BIN)/python:
	@$(PYTHON) -c '$(SUPPORTED)' 2>/dev/null || { \
	  echo "dgpbench needs Python 3.11, 3.12 or 3.13, but '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name another one, e.g.: make run PYTHON=python3.11" >&2; exit 1; }
	@echo "Making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "$(PYTHON) cannot make environments; install its venv module (Debian, Ubuntu: python3-venv)." >&2; exit 1; }

# Every file is checked against the sha256 in requirements.lock. Where a package mirror has other builds of the same
# versions, they are installed without, and that is said; LOCK=strict refuses them.
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
LOCK ?=

$(STAMP): pyproject.toml constraints.txt requirements.lock | $(BIN)/python
	@echo "Installing dgpbench and what it needs into $(VENV) (once; a few minutes)"
	@$(PIP) --require-hashes -r requirements.lock && $(PIP) --no-deps --no-build-isolation -e . || { \
	  [ "$(LOCK)" != strict ] || exit 1; \
	  echo "note: not all files of requirements.lock are available here; installing the same versions without sha256" >&2; \
	  $(PIP) -c constraints.txt -e '.[dev]'; }
	@# GPflow's metadata exclude NumPy 2, which Python 3.13 needs; its code works with both.
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 13))' 2>/dev/null || exit 0; \
	  $(PIP) --no-deps --require-hashes -r .ci/gpflow.lock || $(PIP) --no-deps gpflow==2.11.2
	@touch $@

lock: $(STAMP)  ## write requirements.lock anew, after a change of constraints.txt
	@$(BIN)/python .ci/lock.py

audit: $(STAMP)  ## known vulnerabilities of the locked versions (pip-audit, where the network allows)
	@[ -e .audit-env/bin/pip-audit ] || { $(BIN)/python -m venv .audit-env && \
	  .audit-env/bin/python -m pip install -qq --disable-pip-version-check pip-audit==2.10.1; }
	@.audit-env/bin/pip-audit --strict --require-hashes --disable-pip -r requirements.lock

licences: $(STAMP)  ## the licence of every installed package
	@$(BIN)/python .ci/licences.py

venv: $(BIN)/python  ## make .venv (PYTHON=python3.11 names the interpreter)

install: $(STAMP)  ## make .venv and install dgpbench into it

run: $(STAMP)  ## train and evaluate; ARGS="model=dgp3 dataset=kin8nm" passes overrides on
	@$(BIN)/dgpbench run $(ARGS)

test: $(STAMP)  ## run the fast tests in JOBS=2 processes; ARGS are passed to pytest
	@$(BIN)/python -m pytest -n $(JOBS) -m "not slow" $(ARGS)

test-slow: $(STAMP) $(DOCS)  ## run the tests marked slow: chains, kills, docs that train, the site, the notebooks
	@$(BIN)/python -m pytest -n $(JOBS) -m "slow and not long" $(ARGS)

test-long: $(STAMP)  ## run the tests marked long: further cases of slow proofs, and measurements (minutes)
	@$(BIN)/python -m pytest -n $(JOBS) -m long $(ARGS)

# Optional packages come into environments of their own that also see the packages of .venv: $(call own_env,DIR,packages).
RAY_ENV := $(or $(DGPBENCH_RAY_ENV),.ray-env)
EXTRAS_ENV := $(or $(DGPBENCH_EXTRAS_ENV),.extras-env)
SITE := import sysconfig; print(sysconfig.get_path("purelib"))
define own_env
[ -e $(1)/.installed ] || { \
  echo "Installing $(2) into $(1) (once)"; $(BIN)/python -m venv $(1) && \
  $(BIN)/python -c '$(SITE)' > "$$($(1)/bin/python -c '$(SITE)')/dgpbench.pth" && \
  $(1)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt $(2) && touch $(1)/.installed; \
} || echo "note: $(2) cannot be installed (see above): tests that need it are skipped" >&2
endef

test-cluster: $(STAMP)  ## sweeps on a real one-node SLURM (Debian packages, root) and a real local Ray
	@$(call own_env,$(RAY_ENV),ray==2.60.0)
	@DGPBENCH_TEST_CLUSTER=1 DGPBENCH_RAY_ENV=$(abspath $(RAY_ENV)) $(BIN)/python -m pytest -s tests/cluster $(ARGS)

TRACKER_PACKAGES := mlflow==3.17.2 wandb==0.31.0
test-trackers: $(STAMP)  ## runs and sweeps logged to the real MLflow, W&B (offline) and TensorBoard
	@$(call own_env,$(EXTRAS_ENV)/trackers,$(TRACKER_PACKAGES))
	@$(EXTRAS_ENV)/trackers/bin/python -m pytest tests/adapters/test_trackers.py $(ARGS)

LIBRARY_PACKAGES := torch==2.13.0 gpytorch==1.15.2 onnx onnxruntime
test-libraries: $(STAMP)  ## models of scikit-learn, PyTorch, GPyTorch and ONNX, stored and loaded again
	@$(call own_env,$(EXTRAS_ENV)/libraries,$(LIBRARY_PACKAGES))
	@$(EXTRAS_ENV)/libraries/bin/python -m pytest tests/models/test_other_libraries.py $(ARGS)

KILLS ?= 100
test-kill: $(STAMP)  ## KILLS=100 random SIGKILLs over sweeps, then the numbers of undisturbed ones (minutes)
	@DGPBENCH_TEST_KILL=1 DGPBENCH_KILLS=$(KILLS) $(BIN)/python -m pytest -s tests/sweep/test_sweep_kills.py $(ARGS)

MINUTES ?= 10
soak: $(STAMP)  ## sweeps of 200 tiny units under random faults for MINUTES=10, then `dgpbench verify`
	@DGPBENCH_SOAK_MINUTES=$(MINUTES) $(BIN)/python -m pytest -s tests/sweep/test_sweep_kills.py -k soak $(ARGS)

FUZZ ?= 50
test-fuzz: $(STAMP)  ## FUZZ=50 times the fuzzing of `make test`: records, plans, leases, checkpoints, CSV, words
	@DGPBENCH_FUZZ=$(FUZZ) $(BIN)/python -m pytest -s tests/fuzz $(ARGS)

test-throughput: $(STAMP)  ## 20 units of 10 s and more: a sweep beside one process per unit (minutes, idle machine)
	@DGPBENCH_TEST_THROUGHPUT=1 $(BIN)/python -m pytest -s tests/sweep/test_sweep_throughput.py $(ARGS)

lint: $(STAMP)  ## check style, format and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

$(DOCS): .ci/constraints-docs.txt .ci/requirements-docs.lock $(STAMP)
	@echo "Installing what the documentation site and the notebooks need into $(VENV) (once)"
	@$(PIP) --no-deps --require-hashes -r .ci/requirements-docs.lock || { [ "$(LOCK)" != strict ] || exit 1; \
	  echo "note: not all files of .ci/requirements-docs.lock can be had here; the same versions without their sha256" >&2; \
	  $(PIP) -c constraints.txt -c .ci/constraints-docs.txt -e '.[docs]'; }
	@touch $@

docs: $(DOCS)  ## the documentation site, site/index.html (Python 3.11 or later): from the disk, without network
	@$(BIN)/python -c 'import mkdocs' 2>/dev/null || { \
	  echo "the site needs Python 3.11 or later: make clean, then make docs PYTHON=python3.11" >&2; exit 1; }
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build -f .ci/mkdocs.yml && echo "site/index.html"

results: $(STAMP)  ## write docs/results/ and cited numbers anew, from records and measurements
	@$(BIN)/python .ci/results.py

repro: $(STAMP)  ## run the published tables' cells, in the order of cells.txt, records to results/reference; BUDGET=2h
	@$(BIN)/dgpbench repro $(if $(BUDGET),--budget $(BUDGET)) $(ARGS)

# GPflux and GPyTorch are measured in environments of their own; one that is not available is left out with a note.
PERF_ENVS := $(or $(DGPBENCH_PERF_ENVS),.perf-envs)
PEER_gpflux := tensorflow==2.21.0 gpflux==0.4.5 tf_keras==2.21.0
PEER_gpytorch := torch==2.13.0 gpytorch==1.15.2

perf: $(STAMP) perf-envs  ## measure speed beside GPflow, GPflux and GPyTorch; ARGS="--cases b --rounds 3"
	@DGPBENCH_PERF_ENVS=$(PERF_ENVS) $(BIN)/python -m benchmarks $(ARGS)

perf-envs: $(STAMP)  ## make the peers' environments in .perf-envs (or DGPBENCH_PERF_ENVS)
	@$(foreach peer,gpflux gpytorch,[ -e $(PERF_ENVS)/$(peer)/.installed ] || { \
	  echo "Installing $(PEER_$(peer)) into $(PERF_ENVS)/$(peer) (once; a few minutes)"; \
	  mkdir -p $(PERF_ENVS) && $(BIN)/python -m venv $(PERF_ENVS)/$(peer) && \
	  $(PERF_ENVS)/$(peer)/bin/python -m pip install -qq --disable-pip-version-check $(PEER_$(peer)) && \
	  touch $(PERF_ENVS)/$(peer)/.installed; \
	} || echo "note: $(peer) cannot be installed (see above): measured without it" >&2;) :

.PHONY: test-browser
test-browser: $(STAMP)  ## the report page, and site/ of make docs, in headless Chromium (Debian: apt-get install chromium chromium-driver)
	@$(BIN)/python -m pytest tests/browser/check_report.py tests/browser/check_docs.py $(ARGS)

clean:  ## remove .venv and build products; datasets/ and results/ stay
	@rm -rf $(VENV) build dist site .ruff_cache .pytest_cache *.egg-info
	@find dgpbench benchmarks tests -name __pycache__ -type d -prune -exec rm -rf {} +
