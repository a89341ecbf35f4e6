# `make` lists the targets. A machine needs python3 (3.11 or newer), pip and make; the rest goes
# into .venv.
PYTHON ?= python3
BIN    := .venv/bin
STAMP  := .venv/.stamp
DEMO   := .venv/.stamp-demo
# Torch and the demo's weights are large: a machine that has none skips their few tests, but for CI,
# where nothing is skipped.
COMMA  := ,
EXTRAS := dev$(if $(filter true,$(CI)),$(COMMA)executor$(COMMA)demo)
PYTEST := $(BIN)/python -m pytest
# On all processors; whoever runs pytest by hand adds this, or not.
SHARED := -n auto --dist worksteal

# Without its caches pytest would work on each module anew in each of many processes.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup proto fix lint types verify test-quick test test-pythons sim mutants chaos chaos-long chaos-clean chaos-disks bench demo up clean

help: ## list the targets
	@awk -F ':.*[#][#] ' 'NF == 2 { sub("^# ", "", $$1); printf "%-20s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv (every target below does it when needed)

$(STAMP): pyproject.toml constraints.txt
	ci/venv.sh .venv $(PYTHON) $(EXTRAS)

# Beside that one, so that neither takes away what the other has installed.
$(DEMO): pyproject.toml constraints.txt demo/requirements.txt
	ci/venv.sh .venv $(PYTHON) demo

proto: $(STAMP) ## regenerate the code that comes from proto/
	$(BIN)/python proto/generate.py .

fix: $(STAMP) ## format, and mend what can be mended
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(STAMP)
	$(BIN)/mypy

verify: lint types ## lint, types, tidy, unit: within a minute, changes nothing
	$(PYTEST) $(SHARED) -m "not slow" tests/tidy tests/unit

test-quick: lint types ## everything but the slow tests: under three minutes
	$(PYTEST) $(SHARED) -m "not slow and not serial"
	$(PYTEST) -m "not slow and serial"

test: lint types ## everything, on every Python found, and real processes under faults (as root)
	ci/test.sh $(BIN)/python

test-pythons: $(STAMP) ## the unit tests, on every other supported Python found
	ci/pythons.sh $(BIN)/python

bench: $(STAMP) ## run every script in benchmarks/
	@set -e; for name in $(basename $(notdir $(wildcard benchmarks/bench_*.py))); do \
	    echo "== $$name"; $(BIN)/python -m benchmarks.$$name; done

SUITE ?= scheduler
SEEDS ?= 500
SEED  ?=

sim: $(STAMP) ## simulated runs: SUITE=scheduler SEEDS=500; or one of them again: SEED=7
	@case "$(SEEDS)" in ''|0*|*[!0-9]*) \
	    echo "make $@: SEEDS=$(SEEDS) is not a number of seeds, such as SEEDS=500" >&2; exit 2;; esac
	@case "$(SEED)" in *[!0-9]*) \
	    echo "make $@: SEED=$(SEED) is not a seed, such as SEED=7" >&2; exit 2;; esac
	$(BIN)/python -m chaos sim --suite $(SUITE) \
	    $(if $(SEED),--seeds $(SEED) $(if $(filter raft scheduler,$(SUITE)),--digest),--seeds 0..$$(($(SEEDS) - 1)))

mutants: $(STAMP) ## search anew for the seed or test that finds each known bug: SUITE=scheduler
	$(BIN)/python -m chaos mutants --suite $(SUITE)

up: $(STAMP) ## run a cluster on this machine, until Ctrl-C; its data is in raftbatch-data
	@exec $(BIN)/raftbatch up

chaos-clean: $(STAMP) ## remove what a harness that was killed left on this machine (as root)
	@$(BIN)/python -m chaos clean

SENTENCES ?= 0
KEEP      ?=

demo: $(DEMO) ## real text through a cluster, of which some is killed: KEEP=1 keeps it up
	@$(BIN)/python -m demo --sentences $(SENTENCES) $(if $(KEEP),--keep)

CHAOS_TIME ?= 18

chaos: $(STAMP) ## real processes under faults, some six minutes (as root): CHAOS_TIME=18 of each run
	$(BIN)/python -m chaos selection --time $(CHAOS_TIME)

CHAOS_SEEDS ?= 1..1000

chaos-long: $(STAMP) ## a swarm of them, for hours (as root), until one finds a bug: CHAOS_SEEDS=1..1000
	$(BIN)/python -m chaos swarm --seeds $(CHAOS_SEEDS)

ROUNDS  ?= 100
SAMPLES ?= 500

chaos-disks: $(STAMP) ## disks that lose power, fail or are damaged (as root): ROUNDS=100 SAMPLES=500
	$(BIN)/python -m chaos.disk_rounds --seed 7 --rounds $(ROUNDS) --kinds power
	$(BIN)/python -m chaos.disk_rounds --seed 8 --rounds $(ROUNDS)
	$(BIN)/python -m chaos.disk_damage --seed 7 --samples $(SAMPLES)

clean: ## remove environments, caches and build output
	rm -rf .venv .venv-* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
