# Each target does all the set-up it needs: Python 3.11 to 3.13, git, make and the package indexes are enough.
PYTHON := $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
NEWEST := .venv-newest/bin

# Where the caller's environment forbids it, each of the programs that tests start would compile all its imports again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo walked-demo lint style types test fast newest test-slow test-all ci fast-and-slow browser audit bench bench-full coverage endurance mutation codes release clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is needed" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep '^uv==' constraints.txt)"
	$(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable '.[lab,dev]'
	@touch $@

# The newest mcp beside the one verifiers pins: the protocol tests run on both.
.venv-newest/ready: .venv/ready constraints-newest.txt
	$(PYTHON) -m venv .venv-newest
	$(BIN)/uv pip install --quiet --python $(NEWEST)/python --constraint constraints-newest.txt --editable '.[pictures]' mcp pytest hypothesis
	@touch $@

# One process writes the bytecode that the four of a test run would write at the same time.
.venv/compiled: .venv/ready
	$(BIN)/python -m pytest --collect-only --quiet -p no:cacheprovider > /dev/null
	@touch $@

demo: setup
	$(BIN)/prime-lab-mcp demo

lint: style types

style: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

# Four processes on two cores: many tests wait for the programs that they start.
PYTEST := $(BIN)/python -m pytest -n 4 --dist worksteal

# Of cases marked `rotate` or `slow` a run takes a share, chosen by the day of the commit, and none marked `stress`; test-all
# runs every case. Of the dear tests (tests/support/dear.txt) `make test` runs one in fourteen, CI one in seven. Beside the tests, which wait now
# and then and whose last few leave a core free, run the types, and then the newest mcp.
test: style .venv/compiled
	@$(MAKE) --no-print-directory --jobs=2 fast types newest

fast: .venv/compiled
	$(PYTEST) --rotate --dear-share=14 -m "not slow and not live"

newest: .venv-newest/ready
	@$(call AT_ONCE,$(NEWEST)/python -m pytest --rotate -m "not slow and not live" tests/protocol)

# What a command says is printed once it has ended, so that the lines of two programs do not mix.
AT_ONCE = said=$$($(1) 2>&1); code=$$?; echo "$$said"; exit $$code

# Whole walks through other clients, older verifiers and every template: minutes more.
test-slow: setup
	$(PYTEST) --rotate -m "slow and not live"

# Fast and slow tests in one run, and beside them what needs one process.
ci: style
	@$(MAKE) --no-print-directory --jobs=2 .venv/compiled .venv-newest/ready
	@$(MAKE) --no-print-directory --jobs=2 fast-and-slow types newest walked-demo

walked-demo: setup
	@$(call AT_ONCE,$(BIN)/prime-lab-mcp demo)

# What each test took stands in .venv/costs.jsonl afterwards, for tests/support/dear.
fast-and-slow: .venv/compiled
	$(PYTEST) --rotate --dear-share=7 -m "not live" --costs=.venv/costs.jsonl

# Every case, and every program started anew (tests/support/warm).
test-all: lint .venv-newest/ready
	$(PYTEST) --cold -m "not live"
	$(NEWEST)/python -m pytest tests/protocol

# Chromium of Debian's packages, for the tests of the page; without any Chromium they are skipped.
browser:
	@command -v chromium > /dev/null || command -v google-chrome > /dev/null || { \
		timeout 300 apt-get update -qq && DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install -y -qq --no-install-recommends chromium > /dev/null; }

# Known faults of the locked dependencies. Fails if there is one, and if the database of advisories could not be asked, unless
# AUDIT=--unasked-passes.
audit: setup
	$(BIN)/python -m release.audit $(AUDIT)

# The type of finding codes, written again from the finding pages.
codes: setup
	$(BIN)/python -m tests.resources.write_codes

# Wheel, source distribution and MCPB bundle of one version in dist/; with NAMESPACE=io.github.NAME also server.json. The links
# of the package lead to that name's repository on GitHub, or to REPOSITORY=https://...
release: setup
	$(BIN)/python -m release $(if $(NAMESPACE),--namespace $(NAMESPACE)) $(if $(REPOSITORY),--repository $(REPOSITORY))

bench: setup
	$(BIN)/python -m benchmarks

# Also how cost grows with 1, 10 and 100 times the work: many minutes.
bench-full: setup
	$(BIN)/python -m benchmarks --full

COVERED := tests/server tests/protocol tests/property tests/attacks tests/cli tests/lab/base tests/lab/state tests/lab/prime \
	tests/lab/relay tests/lab/sandbox tests/lab/worker tests/lab/test_interpreter.py tests/lab/test_lab.py \
	tests/lab/test_distributions.py tests/lab/test_loading.py tests/tools/test_chosen_tasks.py tests/tools/test_plan_once.py
# Branch coverage of the server and of the lower three floors of lab by the tests that hold them, as a table, and then each
# place that is neither covered nor named with a reason in tests/uncovered/named.py. Tests that measure time may fail, because
# every line is traced. What runs with another Python (workers, prime) is not counted.
coverage: setup
	rm -f .coverage .coverage.*
	-$(BIN)/python -m coverage run -m pytest -q -p no:cacheprovider $(COVERED) -m "not slow and not live and not stress"
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report
	$(BIN)/python -m tests.uncovered

# A thousand kills, ten thousand messages and an hour of steady load, with a printed summary: about two hours on two quiet
# cores.
endurance: setup
	$(BIN)/python -m tests.endurance --kills 1000 --messages 10000 --load 60

# The mutants of gates, ledger, fingerprint, once and approval that no unit test notices; MODULES=gates tries only some.
mutation: setup
	$(BIN)/python -m tests.mutation --jobs 2 $(MODULES)

clean:
	rm -rf .venv .venv-newest
