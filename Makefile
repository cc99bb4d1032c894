# make run            train on the bundled Citeseer (installs into .venv first)
# make test           lint, types and tests, on all cores
# make test-slow      the paper's full protocol on all graphs (set CROSSGCN_DATA)
# make test-research  tests of the benchmarks and of the pages of results
# make coverage       branch coverage of src/; fails below 92 %
# make lint           ruff and mypy

PYTHON ?= python3
BIN := .venv/bin

# One worker per core, one thread per worker.
WORKERS ?= logical
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal

.PHONY: run test test-slow test-research coverage lint clean

run: .venv/installed
	$(BIN)/crossgcn compare citeseer --models gcn,cross-gcn-release-fix,cross-gcn --num-layers 1,2

test: lint
	$(PYTEST)

test-slow: .venv/installed-for-development
	$(BIN)/pytest -m slow -s

test-research: .venv/installed-for-development
	$(PYTEST) research/tests

coverage: .venv/installed-for-development
	$(PYTEST) --cov --cov-report=term:skip-covered --cov-fail-under=92

lint: .venv/installed-for-development
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*

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
