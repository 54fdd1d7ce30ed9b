# Each target does all the set-up it needs: Python 3.11 to 3.13, git, make and the package indexes are enough.
PYTHON := $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
NEWEST := .venv-newest/bin

.PHONY: setup demo test test-slow lint bench clean

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
	$(BIN)/uv pip install --quiet --python $(NEWEST)/python --constraint constraints-newest.txt --editable . mcp pytest hypothesis
	@touch $@

demo: setup
	$(BIN)/prime-lab-mcp demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint .venv-newest/ready
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not live"
	$(NEWEST)/python -m pytest tests/protocol

# Whole walks through other clients, older verifiers and every template: minutes more, and CI runs them too.
test-slow: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow and not live"

bench: setup
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv .venv-newest
