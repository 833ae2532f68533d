# Every target does its own set-up: it needs python3, make and git, and the package index.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
UV := .uv/bin/uv
RUN := .venv/bin/
# The lock names the public index; a setting of the machine must not get into it.
UV_ENV := env -u UV_DEFAULT_INDEX -u UV_INDEX_URL -u UV_INDEX UV_PYTHON_DOWNLOADS=never
SYNC := $(UV_ENV) $(UV) sync --quiet --locked --all-packages --all-extras --python $(PYTHON)
DOCS ?= examples/library
QUERY ?= modbus register byte order

# Through the environment, so that quotes and dollars in a question stay text.
export DEMO_DOCS := $(value DOCS)
export DEMO_QUERY := $(value QUERY)

.PHONY: demo test test-all test-all-slow check setup lock bench clean help

help:
	@echo 'make demo [DOCS=folder QUERY="..."]   list, get, query and verify on a folder'
	@echo 'make test                             tests, types, style and import rules'
	@echo 'make test-all                         the same with the tests that take long'
	@echo 'make bench                            relevance, on the collections that are there'
	@echo 'make lock                             write uv.lock anew'

setup: .venv/.ready

.uv/.ready:
	$(PYTHON) -m venv .uv
	.uv/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.13,<0.14'
	touch $@

.venv/.ready: .uv/.ready uv.lock pyproject.toml $(wildcard packages/*/pyproject.toml)
	$(SYNC) || $(SYNC) --system-certs
	touch $@

demo: setup
	@$(RUN)python examples/demo.py "$$DEMO_DOCS" "$$DEMO_QUERY"

check: setup
	$(RUN)ruff check .
	$(RUN)ruff format --check .
	$(RUN)mypy
	$(RUN)lint-imports --no-cache

test: check
	$(RUN)coverage erase
	$(RUN)coverage run -m pytest -q -m "not slow"
	$(RUN)coverage combine -q
	$(RUN)coverage report --fail-under=95

test-all: test test-all-slow

test-all-slow: setup
	$(RUN)pytest -q -m slow

bench: setup
	$(RUN)python benchmarks/relevance.py

lock: .uv/.ready
	$(UV_ENV) $(UV) lock

clean:
	rm -rf .venv .uv .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
