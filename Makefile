# make run            train on the bundled Citeseer (installs into .venv first)
# make test           lint, types and tests, on all cores
# make test-slow      the paper's full protocol on all graphs (set CROSSGCN_DATA)
# make test-research  tests of the benchmarks and of the pages of results
# make test-faults    kills, full disks and limits: results/faults.json
# make test-fuzz      damaged and hostile files: results/fuzz.json; both continue where they stopped
# make coverage       branch coverage of src/; fails below 92 %
# make test-oldest    layer and model tests with the oldest versions that pyproject.toml allows
# make test-newest    the same with the newest versions there are; both install torch with CUDA, 3 GB
# make test-wheel     build wheel and sdist, check them, and run each in an empty environment
# make constraints    pin what is installed in .venv now
# make lint           ruff and mypy

PYTHON ?= python3
BIN := .venv/bin

# One worker per core, one thread per worker.
WORKERS ?= logical
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal

.PHONY: run test test-slow test-research test-faults test-fuzz test-oldest test-newest test-wheel coverage constraints lint clean

run: .venv/installed
	$(BIN)/crossgcn compare citeseer --models gcn,cross-gcn-release-fix,cross-gcn --num-layers 1,2

test: lint
	$(PYTEST)

test-slow: .venv/installed-for-development
	$(BIN)/pytest -m slow -s

test-research: .venv/installed-for-development
	$(PYTEST) research/tests

test-faults test-fuzz: test-%: .venv/installed-for-development
	OMP_NUM_THREADS=1 CROSSGCN_PLAIN_KERNELS=1 PYTHONPATH=tests/helpers $(BIN)/python tests/$*/$*_runner.py

# Of the packages that crossgcn itself needs: their lower bounds.
.venv-oldest/constraints.txt: pyproject.toml
	$(PYTHON) -m venv .venv-oldest
	sed -nE '/^dependencies/,/^\]/s/^ *"([^>]+)>=([0-9.]+).*/\1==\2/p' pyproject.toml > $@

.venv-newest/constraints.txt: pyproject.toml
	$(PYTHON) -m venv .venv-newest
	@touch $@

test-oldest test-newest: test-%: .venv-%/constraints.txt
	.venv-$*/bin/pip install -q --upgrade --upgrade-strategy eager -c $< -e . \
		pytest pytest-socket pytest-xdist hypothesis
	OMP_NUM_THREADS=1 .venv-$*/bin/pytest -n $(WORKERS) -W default tests/layers tests/models \
		--ignore tests/models/test_deep_walk.py

test-wheel: .venv/installed-for-development
	rm -rf dist .venv-empty
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv .venv-empty
	.venv-empty/bin/pip install -q -c constraints.txt dist/*.whl
	$(try_installed)
	.venv-empty/bin/pip install -q --force-reinstall --no-deps dist/*.tar.gz
	$(try_installed)

define try_installed
cd dist && PYTHONPATH= ../.venv-empty/bin/crossgcn --version
cd dist && PYTHONPATH= ../.venv-empty/bin/crossgcn train us-county --num-splits 1 --epochs 2 --out run
cd dist && PYTHONPATH= ../.venv-empty/bin/crossgcn explain run > run/terms.txt && rm -r run
endef

constraints: .venv/installed-for-development
	{ head -1 constraints.txt; $(BIN)/pip freeze --exclude-editable | sed 's/+cpu$$//'; } > .venv/pins
	mv .venv/pins constraints.txt

coverage: .venv/installed-for-development
	$(PYTEST) --cov --cov-report=term:skip-covered --cov-fail-under=92

lint: .venv/installed-for-development
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf .venv .venv-* dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*

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
