# Every target does its own set-up: it needs python3, make and git, and the package index.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
UV := .uv/bin/uv
RUN := .venv/bin/
# The lock names the public index; a setting of the machine must not get into it.
UV_ENV := env -u UV_DEFAULT_INDEX -u UV_INDEX_URL -u UV_INDEX UV_PYTHON_DOWNLOADS=never
SYNC := $(UV_ENV) $(UV) sync --quiet --locked --all-packages --all-extras --python $(PYTHON)
# The programs that the WAMP tests talk to, each in a place of its own: what they pin does not go with our packages.
WAMP_TESTS := packages/adapter-wamp/tests
HTTP_TESTS := packages/adapter-http/tests
# What looks at the page in a browser; the browser itself is the machine's.
PAGE := packages/adapter-http/tests/page
OUTSIDE := .venv-crossbar/.ready .venv-ironflock-1.5.3/.ready .venv-ironflock-1.10.1/.ready .node/.ready .node-page/.ready \
	.venv-schemathesis/.ready
MEMBERS := $(addprefix packages/,knowledge-engine adapter-files adapter-wamp)
DOCS ?= examples/library
QUERY ?= modbus register byte order

# Through the environment, so that quotes and dollars in a question stay text.
export DEMO_DOCS := $(value DOCS)
export DEMO_QUERY := $(value QUERY)

.PHONY: demo test fuzz test-all test-all-slow check setup outside inspector lock lock-outside bench clean help

help:
	@echo 'make demo [DOCS=folder QUERY="..."]   list, get, query and verify on a folder'
	@echo 'make test                             tests, types, style and import rules'
	@echo 'make fuzz                             the tests with inputs that differ each time'
	@echo 'make test-all                         the same with the tests that take long'
	@echo 'make bench                            relevance and speed against peers, a short version of each'
	@echo 'make lock                             write uv.lock anew'
	@echo 'make lock-outside                     the same for the programs that tests talk to'

setup: .venv/.ready

.uv/.ready:
	$(PYTHON) -m venv .uv
	.uv/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.13,<0.14'
	touch $@

.venv/.ready: .uv/.ready uv.lock pyproject.toml $(wildcard packages/*/pyproject.toml)
	$(SYNC) || $(SYNC) --system-certs
	touch $@

outside: $(OUTSIDE) inspector

# The MCP Inspector. Tests that need it say so where npm is not there, and are left out.
inspector:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory .node-mcp/.ready; \
		else echo 'npm is not there: the tests with the MCP Inspector are left out'; fi

# A folder without its .ready was left half-way: each of these begins anew.
.venv-crossbar/.ready: .uv/.ready $(WAMP_TESTS)/requirements-crossbar.txt
	$(call into_venv,-r $(WAMP_TESTS)/requirements-crossbar.txt)

.venv-schemathesis/.ready: .uv/.ready $(HTTP_TESTS)/requirements-schemathesis.txt
	$(call into_venv,-r $(HTTP_TESTS)/requirements-schemathesis.txt)

.venv-ironflock-%/.ready: .uv/.ready $(WAMP_TESTS)/requirements-ironflock.txt $(addsuffix /pyproject.toml,$(MEMBERS))
	$(call into_venv,-c $(WAMP_TESTS)/requirements-ironflock.txt ironflock==$* $(addprefix -e ./,$(MEMBERS)))

define into_venv
$(UV_ENV) $(UV) venv --quiet --clear --python $(PYTHON) $(@D)
install=($(UV_ENV) $(UV) pip install --quiet --python $(@D)/bin/python $(1)); \
	"$${install[@]}" || "$${install[@]}" --system-certs
touch $@
endef

.node/.ready: $(WAMP_TESTS)/js/package.json $(WAMP_TESTS)/js/package-lock.json
	$(into_node)

.node-mcp/.ready: packages/adapter-mcp/tests/js/package.json packages/adapter-mcp/tests/js/package-lock.json
	$(into_node)

.node-page/.ready: $(PAGE)/package.json $(PAGE)/package-lock.json
	$(into_node)

define into_node
rm -rf $(@D)
mkdir $(@D)
cp $^ $(@D)/
npm ci --prefix $(@D) --ignore-scripts --omit=optional --no-audit --no-fund --silent
touch $@
endef

demo: setup
	@$(RUN)python examples/demo.py "$$DEMO_DOCS" "$$DEMO_QUERY"

check: setup
	$(RUN)ruff check .
	$(RUN)ruff format --check .
	$(RUN)mypy
	$(RUN)lint-imports --no-cache

test: check outside
	$(RUN)coverage erase
	$(RUN)coverage run -m pytest -q -n auto --dist worksteal -m "not slow"
	$(RUN)coverage combine -q
	$(RUN)coverage report --fail-under=95

fuzz: setup outside
	HYPOTHESIS_PROFILE=fuzz $(RUN)pytest -q -n auto --dist worksteal -m "not slow"

test-all: test test-all-slow

test-all-slow: setup outside
	$(RUN)pytest -q -m slow

bench: setup
	$(RUN)python benchmarks/relevance.py --quick
	$(RUN)python benchmarks/peers.py --quick
	$(RUN)python benchmarks/files.py --quick

lock: .uv/.ready
	$(UV_ENV) $(UV) lock

COMPILE = $(UV_ENV) $(UV) pip compile --quiet --upgrade --universal --python-version 3.11 --no-annotate --no-header
lock-outside: .uv/.ready
	$(COMPILE) $(WAMP_TESTS)/requirements-crossbar.in -o $(WAMP_TESTS)/requirements-crossbar.txt
	$(COMPILE) $(HTTP_TESTS)/requirements-schemathesis.in -o $(HTTP_TESTS)/requirements-schemathesis.txt
	$(COMPILE) $(WAMP_TESTS)/requirements-ironflock.in -o $(WAMP_TESTS)/requirements-ironflock.txt \
		$(addprefix --no-emit-package ,ironflock kpkit-engine kpkit-files kpkit-wamp)

clean:
	rm -rf .venv .venv-crossbar .venv-ironflock-* .node .node-* .uv .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
