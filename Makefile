# Everything that is done with this project. `make help` lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# How many tests run at once; each worker has a RabbitMQ of its own.
WORKERS ?= 2
# Further words for pytest: make test PYTEST="-k topology -x"
PYTEST ?=

# Another order of sets in every run, and the same one in all workers of a run.
PYTHONHASHSEED ?= $(shell echo $$RANDOM)
export PYTHONHASHSEED := $(PYTHONHASHSEED)

bin := .venv/bin
sources := acemq_amqp stores/acemq_stores tests $(wildcard examples benchmarks)
parallel := -n $(WORKERS) --dist worksteal
versions := 3.10 4.0 4.3

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

.PHONY: demo
demo: ## the main job and four patterns in both flavours, in memory or on AMQP_URL
	@scripts/venv .venv ''
	@$(bin)/python -m acemq_amqp demo

.PHONY: test
test: dev servers lint types imports ## lint, types, imports, and all tests but the long ones
	@$(bin)/pytest $(parallel) -m "not soak and not chaos" $(PYTEST)

.PHONY: lint
lint: dev ## style
	@$(bin)/ruff check .
	@$(bin)/ruff format --check .

.PHONY: types
types: dev ## types, strictly
	@$(bin)/mypy $(sources)

.PHONY: imports
imports: dev ## the arrows between the parts
	@$(bin)/lint-imports --no-logo

.PHONY: test-pythons
test-pythons: ## the tests that need no server, on every Python 3.11+ there is
	@scripts/python all | while read -r python; do \
	    name=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	    echo "Python $$name:"; \
	    scripts/venv .venvs/$$name test $$python; \
	    .venvs/$$name/bin/pytest $(parallel) -m "not server and not soak and not chaos" \
	        $(PYTEST) </dev/null; \
	done

.PHONY: test-matrix
test-matrix: dev ## the tests that need a server, on RabbitMQ 3.10, 4.0 and 4.3
	@for version in $(versions); do \
	    scripts/servers install $$version; \
	    echo "RabbitMQ $$version:"; \
	    ACEMQ_RABBITMQ=$$version $(bin)/pytest $(parallel) \
	        -m "server and not soak and not chaos" $(PYTEST); \
	done

.PHONY: chaos
chaos: dev servers ## the long form of the failure scenarios; prints its ledger
	@$(bin)/pytest -m chaos --timeout=1800 --capture=no $(PYTEST)

.PHONY: bench
bench: dev servers ## speeds beside raw aio-pika and raw pika, as ratios
	@$(bin)/python -m benchmarks

.PHONY: clean
clean: ## remove what the targets above have made here
	@rm -rf .venv .venvs build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis \
	    .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: dev
dev:
	@scripts/venv .venv dev

.PHONY: servers
servers:
	@scripts/servers install $${ACEMQ_RABBITMQ:-}
