# make run        train on the bundled Citeseer, after installing into .venv
# make test       lint, types and tests
# make test-slow  the paper's full protocol on all graphs (CROSSGCN_DATA must be set)

PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test test-slow lint clean

run: .venv/installed
	$(BIN)/crossgcn compare citeseer --models gcn,cross-gcn-release-fix,cross-gcn --num-layers 1,2

test: lint
	$(BIN)/pytest

test-slow: .venv/installed-for-development
	$(BIN)/pytest -m slow -s

lint: .venv/installed-for-development
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv:
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" \
		|| { echo "crossgcn needs Python 3.11 or newer: make PYTHON=python3.11 ..."; exit 1; }
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml constraints.txt | .venv
	$(BIN)/pip install -q -c constraints.txt -e .
	@touch $@

.venv/installed-for-development: pyproject.toml constraints.txt | .venv
	$(BIN)/pip install -q -c constraints.txt -e ".[dev,all]"
	@touch $@ .venv/installed
