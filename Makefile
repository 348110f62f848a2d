# All targets need only Python ≥ 3.11, git, and make.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PROTOS := $(wildcard protos/codelode/v1/*.proto)

.PHONY: demo test test-unit check fix generate lock services services-down bench bench-quality up vscode clean help

demo: $(READY)  ## index this repository (or REPO=url-or-path) and search it
	@$(BIN)/codelode demo $(REPO)

# Tests spend much of their time waiting for servers and timeouts, so run more processes than cores.
# `tests/grouping.py` orders the groups of tests, quick ones last.
PROCESSES ?= 4
# Each process takes 8 s of a core to collect all tests. On two cores, five of them take 117 s, three
# 144 s, and seven 138 s.
UNIT_PROCESSES ?= $(shell $(BIN)/python -c 'import os; print(max(5, os.cpu_count() or 1))')
# Let glibc keep freed memory: each of many small indexes would map the same megabytes again.
KEEP_MEMORY := MALLOC_TRIM_THRESHOLD_=1000000000 MALLOC_MMAP_THRESHOLD_=1000000000
# A crash of a test process ends the run, because xdist 3.8 can wait forever when it replaces one.
DISTRIBUTION := --dist loadscope --no-loadscope-reorder --max-worker-restart=0

# The checks take a minute of one core, so they run beside the tests.
test: $(READY)  ## every check and every test, with real servers
	@$(MAKE) --no-print-directory check & checks=$$!; \
	$(BIN)/pytest --numprocesses $(PROCESSES) $(DISTRIBUTION); tests=$$?; \
	wait $$checks || { echo "make check failed, see above" >&2; exit 1; }; exit $$tests

test-unit: $(READY)  ## the quick tests, which need no server
	@$(KEEP_MEMORY) SHORT_TESTS=1 $(BIN)/pytest -m "not server and not slow" --numprocesses $(UNIT_PROCESSES) $(DISTRIBUTION)

check: $(READY)  ## style, types, import rules; changes nothing
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-cache > .venv/imports.log || { cat .venv/imports.log; exit 1; }

fix: $(READY)  ## apply ruff's automatic fixes
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

generate: $(READY)  ## generate code from the protos
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -Iprotos \
		--python_out=. --grpc_python_out=. --mypy_out=quiet:. --mypy_grpc_out=quiet:. $(PROTOS)

lock:  ## update the pinned dependencies (needs uv)
	@uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-annotate --no-header --extra dev pyproject.toml -o requirements.lock

services: $(READY)  ## start real Weaviate and Ollama servers for tests and development
	@deploy/services.sh up
	@. .services/env && $(BIN)/python deploy/test_models.py "$$CODELODE_OLLAMA_URL"

services-down:  ## stop them and remove their data
	@deploy/services.sh down

bench: $(READY)  ## measure speed and memory of the embedded cluster
	@$(BIN)/python tests/bench/load.py

bench-quality: $(READY)  ## measure ranking quality: EVAL=dev.json CORPORA=folder
	@test -e "$(EVAL)" || { echo "there is no file EVAL='$(EVAL)'; set EVAL to a file with judged queries" >&2; exit 2; }
	@test -d "$(CORPORA)" || { echo "there is no folder CORPORA='$(CORPORA)'; set CORPORA to the folder of the repositories" >&2; exit 2; }
	@$(BIN)/python tests/bench/quality.py --eval $(EVAL) --corpora $(CORPORA)

up: $(READY)  ## run the embedded cluster in the foreground
	@$(BIN)/codelode up

vscode: $(READY)  ## build the VS Code extension
	@$(BIN)/python editors/vscode/build.py

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*  ## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

clean:  ## remove the virtual environment and caches
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "codelode needs Python 3.11 or newer; name one: make PYTHON=python3.12 …" >&2; exit 2; }
	@echo "Installing the pinned dependencies into .venv (about a minute) …" >&2
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
