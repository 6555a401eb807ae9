# What a newcomer types: make demo, make test. What a sceptic types: make faults, make bench. What a developer types: make check.
# Options go in ARGS: make demo ARGS="--seconds 10", make test ARGS="-k binlog".

BIN := .venv/bin
ARGS :=
.DEFAULT_GOAL := help
.PHONY: help setup demo bench faults test nightly unit fuzz check format lock

help:  ## Show this list
	@sed -n 's/^\([a-z]*\):.*##/\1\t/p' Makefile

setup: .venv/.ready  ## Create .venv, install what the system lacks, fetch the pinned jars

# Newer than what it was made from: then there is nothing to do.
.venv/.ready: requirements.lock pyproject.toml scripts/bootstrap.sh scripts/install_packages.sh
	@sh scripts/bootstrap.sh
	@touch $@

demo: setup  ## Run the main job, end to end, on real servers on this machine
	$(BIN)/penstock demo $(ARGS)

bench: setup  ## Measure ourselves beside our peers: docs/benchmarks.md; ARGS="--only decode" for one part
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps mysql-replication==1.0.17
	$(BIN)/penstock bench capture $(ARGS)

faults: setup  ## Break a running pipeline 200 times, for an hour or two: docs/reliability.md; ARGS="--faults 20 --seed 7"
	$(BIN)/penstock faults $(ARGS)

# More processes than cores: most tests wait for something.
TESTS := $(BIN)/python -m pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder

test: setup  ## Run all tests that every change must pass, in some 20 minutes on 2 cores
	@sh scripts/install_for_tests.sh
	$(TESTS) --budget-minutes 30 $(ARGS)

# One process per core: most of these are whole pipelines, which wait for little but the cores.
nightly: setup  ## Run the tests that take longer: what is proven on one server or target, on all others as well, and random examples
	@sh scripts/install_for_tests.sh
	HYPOTHESIS_PROFILE=nightly $(TESTS) --numprocesses 2 -m "nightly or hypothesis" --timeout 1200 $(ARGS)
	$(TESTS) --numprocesses 2 -m "" --timeout 1200 --postgres-18 $(wildcard tests/servers/test_*postgres*.py)

unit: setup  ## Run the tests that need no servers
	$(TESTS) tests/unit tests/fuzz $(ARGS)

fuzz: setup  ## For hours: damaged bytes, and random tables and statements on real servers, compared with what they select
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest tests/fuzz tests/servers/test_types_fuzz.py tests/servers/test_ddl_fuzz.py \
	    tests/servers/test_postgres_fuzz.py --timeout 0 $(ARGS)

check: setup  ## Run every gate
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/deptry .
	$(BIN)/vulture
	$(BIN)/python -m pytest --quiet tests/unit/test_tidy.py

format: setup  ## Format the code and mend what can be mended
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

lock: setup  ## Write requirements.lock anew, for the oldest Python that we support
	$(BIN)/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe --no-header --extra dev \
	    --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --output-file requirements.lock pyproject.toml
