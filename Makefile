# make run            a first look, half a minute on bundled data (installs into .venv first)
# make test           lint, types and tests, on all cores
# make paper          the paper's tables and figures with verdicts: results/paper (hours; set CROSSGCN_DATA)
# make bench          the benchmarks that this machine can run: results/benchmarks (an hour)
# make test-slow      tests that take minutes; some need CROSSGCN_DATA
# make coverage       branch coverage of src/; fails below 92 %
# make docs           the documentation as a site, in docs/_build/html; runs the tutorials
# make test-wheel     build wheel and sdist, check them, and run each in an empty environment
# make release-check  test-wheel, its size, and the README's snippets with the installed wheel
# make test-oldest    layer and model tests with the oldest versions that pyproject.toml allows
# make test-newest    the same with the newest versions there are; both install torch with CUDA, 3 GB
# make constraints    pin all packages, with hashes; UPGRADE=--upgrade for newer versions
# make lint           ruff and mypy
# make clean          remove what the others made

PYTHON ?= python3
BIN := .venv/bin

# One worker per core, one thread per worker. Compiled files are kept for the processes that tests
# start and for the next time, even where the environment says otherwise.
WORKERS ?= logical
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n $(WORKERS) --dist worksteal

.PHONY: run test pytest paper bench test-slow coverage docs test-wheel release-check test-oldest test-newest constraints \
	lint clean

run: .venv/installed
	@$(BIN)/python examples/first_look.py

# Together: mypy uses one core, for 80 s of CPU time without its cache and for 4 s with it.
test: .venv/installed-for-development
	$(MAKE) -j 2 lint pytest

pytest: .venv/installed-for-development
	$(PYTEST)

paper: .venv/installed-for-development
	$(BIN)/python -m paper --out results/paper

bench: .venv/installed-for-development
	$(BIN)/python -m benchmarks --out results/benchmarks

test-slow: .venv/installed-for-development
	$(BIN)/pytest -m slow -s

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
	OMP_NUM_THREADS=1 .venv-$*/bin/pytest -n $(WORKERS) -W default tests/layers tests/models

test-wheel: .venv/installed-for-development
	rm -rf dist .venv-empty
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv .venv-empty
	$(call install_torch_without_cuda,.venv-empty)
	$(call install,.venv-empty,--group install -r .venv/requirements.txt)
	.venv-empty/bin/pip install -q --no-deps dist/*.whl
	.venv-empty/bin/pip check
	$(try_installed)
	.venv-empty/bin/pip install -q --force-reinstall --no-deps --no-build-isolation dist/*.tar.gz
	$(try_installed)

release-check: test-wheel
	test $$(cat dist/*.whl | wc -c) -le 3000000
	.venv-empty/bin/pip install -q --force-reinstall --no-deps dist/*.whl
	rm -rf dist/snippets && mkdir dist/snippets
	cd dist/snippets && PYTHONPATH= ../../.venv-empty/bin/python ../../tests/helpers/readme.py

define try_installed
cd dist && PYTHONPATH= ../.venv-empty/bin/crossgcn --version
cd dist && PYTHONPATH= ../.venv-empty/bin/crossgcn train us-county --num-splits 1 --epochs 2 --out run
cd dist && PYTHONPATH= ../.venv-empty/bin/crossgcn explain run > run/terms.txt && rm -r run
endef

constraints: .venv-supply/installed
	.venv-supply/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes $(UPGRADE) \
		--only-binary :all: --no-binary pyspark --no-annotate --custom-compile-command "make constraints" \
		--all-extras --group install --group supply -o constraints.txt pyproject.toml

coverage: .venv/installed-for-development
	$(PYTEST) --cov --cov-report=term:skip-covered --cov-fail-under=92

docs: .venv/installed-for-development
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -j 2 docs docs/_build/html

lint: .venv/installed-for-development
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf .venv .venv-* dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage* docs/_build

# The sections of pyproject.toml, one requirement a line. A folder cannot have a hash, so its
# requirements are installed with hashes first and the folder itself without its requirements.
PROJECT := import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]
REQUIRED := $(PROJECT); print(*project["dependencies"], sep="\n")
# PySpark has no wheel: its slow test skips without it.
EXTRAS := $(PROJECT); extras = project["optional-dependencies"]; del extras["spark"]; \
	print(*(each for each in sum(extras.values(), []) if not each.startswith("crossgcn")), sep="\n")

# $(call install,ENVIRONMENT,WHAT): wheels only, each with a hash that constraints.txt lists.
# An older pip cannot take hashes from constraints, so the pinned one is installed first.
HASHED := -m pip install -q --require-hashes --only-binary :all:
define install
sed -n '/^pip==/,/[^\\]$$/p' constraints.txt > $(1)/pip.txt
$(1)/bin/python $(HASHED) -r $(1)/pip.txt
$(1)/bin/python $(HASHED) -c constraints.txt $(2)
endef

# pip prefers a build whose hash its index names to one in a folder, so this one is asked for first.
define install_torch_without_cuda
$(1)/bin/python $(HASHED) --no-deps -r constraints-cpu.txt 2>/dev/null || true
endef

.venv .venv-supply:
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" \
		|| { echo "crossgcn needs Python 3.11 or newer: make PYTHON=python3.11 ..."; exit 1; }
	$(PYTHON) -m venv $@

.venv/installed: pyproject.toml constraints.txt constraints-cpu.txt | .venv
	$(BIN)/python -c '$(REQUIRED)' > .venv/requirements.txt
	$(call install_torch_without_cuda,.venv)
	$(call install,.venv,--group install -r .venv/requirements.txt)
	$(BIN)/pip install -q --no-deps --no-build-isolation -e .
	@touch $@

.venv/installed-for-development: .venv/installed
	$(BIN)/python -c '$(EXTRAS)' > .venv/extras.txt
	$(call install,.venv,-r .venv/extras.txt)
	@touch $@

.venv-supply/installed: pyproject.toml constraints.txt | .venv-supply
	$(call install,.venv-supply,--group supply)
	@touch $@
