# make demo: the main job end to end (make demo FULL=1: more of it); make test: all tests (make test-fast: those that are quick). All set everything up by themselves.
# another Python next to this one: make test-fast PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# workers that take neighboring tests share their fixtures
PARALLEL := -n $(or $(WORKERS),auto) --dist worksteal
# hundreds of processes are started: none compiles the package again
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install same-python demo test test-fast test-newest test-lowest test-datumaro test-slurm gpu-check lint format docs package bench campaign clean

install: $(READY)

# a Python that is named is the one that runs, whatever was here before
same-python:
	$(if $(filter command line,$(origin PYTHON)),@test ! -x $(BIN)/python || \
		test "$$($(BIN)/python -V)" = "$$($(PYTHON) -V)" || \
		{ echo "$(VENV) has $$($(BIN)/python -V): make clean removes it and VENV=DIR names another"; exit 1; })

$(READY): requirements.lock pyproject.toml | same-python
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nooch needs Python 3.11 or newer; say which with: make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(READY)

demo: $(READY)
	$(BIN)/python examples/demo.py --out demo-out $(if $(FULL),--full)

test: $(READY)
	$(BIN)/python -m pytest $(PARALLEL)

# TESTS="tests/cli": only these
test-fast: $(READY)
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow" --hypothesis-profile=fast $(TESTS)

# make test-fast with other packages than the lock's, for each Python of this machine, or
# PYTHONS="3.12 3.13": the newest, and the lower bounds of pyproject.toml
test-newest test-lowest:
	WORKERS=$(WORKERS) scripts/unlocked.sh $(@:test-%=%) tests $(PYTHONS)

# Datumaro and Inspect AI pin packages, so that they are tested in an environment of their own
test-datumaro: pyproject.toml | $(READY)
	test -x .venv-datumaro/bin/python || $(PYTHON) -m venv .venv-datumaro
	.venv-datumaro/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[datumaro,inspect]' datasets pytest hypothesis
	.venv-datumaro/bin/python -m pytest -W default tests/data/test_datumaro.py tests/data/test_conformance.py tests/report/test_inspect_tasks.py

test-slurm: $(READY)
	bash tests/slurm.sh start .slurm
	SLURM_CONF=$(CURDIR)/.slurm/slurm.conf NOOCH_TEST_SLURM=1 $(BIN)/python -m pytest -n 0 tests/base/test_slurm_engine.py \
		tests/base/test_cluster_engines.py tests/cli/test_bench_engines.py -k "slurm or submitit"; \
		status=$$?; bash tests/slurm.sh stop .slurm; exit $$status

# with PYTHON=python3 on the command line: that interpreter, as it is, and nothing is installed (docs/gpu.md)
GPU_PYTHON := $(if $(filter command line,$(origin PYTHON)),$(PYTHON),$(BIN)/python)
gpu-check: $(if $(filter command line,$(origin PYTHON)),,$(READY))
	PYTHONPATH=$(CURDIR)/src$(if $(PYTHONPATH),:$(PYTHONPATH)) $(GPU_PYTHON) -m pytest -W default -p no:cacheprovider --durations=10 tests/gpu tests/rehearsals

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell
	$(BIN)/python scripts/check_wording.py

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

TOOLS := $(VENV)/.tools-ready
$(TOOLS): requirements-tools.lock $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-tools.lock
	touch $(TOOLS)

# the documentation as a site in site/; a broken link, a missing page or an unknown name fails
# (not --quiet: warnings that are not shown do not fail a strict build)
docs: $(TOOLS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

# source distribution and wheel in dist/, as a release has them; the former unpacked in .venv-sdist
package: $(TOOLS)
	rm -rf dist .venv-sdist
	$(BIN)/python -m hatchling build --target sdist
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--wheel-dir dist dist/*.tar.gz
	$(BIN)/python -m twine check --strict dist/*
	mkdir .venv-sdist
	tar -xzf dist/*.tar.gz -C .venv-sdist --strip-components 1

bench: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt
	$(BIN)/python benchmarks/run.py

# everything that can go wrong, and one table of what happened: an hour; SECONDS=60 for less; SEED=7
campaign: $(READY)
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check -r campaign/requirements.txt
	$(BIN)/python -W ignore campaign/campaign_run.py $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

clean:
	rm -rf $(VENV) .venv-* demo-out dist site benchmarks/data .mypy_cache .pytest_cache .ruff_cache .hypothesis
