# What can be made here: `make help` lists it. Everything installs what it needs into `.venv`, once.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
# What `make run` serves, and where.
ENV ?= echo_env
GRPC_PORT ?= 50051
HTTP_PORT ?= 8000
# Handed to pytest by `make test`.
TESTS ?=

VENV := .venv
BIN := $(VENV)/bin
REFERENCE := .venv-reference
STAMPS := .stamps
PROTOS := proto/generate.py $(wildcard proto/openenv_grpc/v1/*.proto)
GENERATED := src/openenv_grpc/v1/proto.binpb
PROTO_BASELINE := proto/image.binpb
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: help
help: ## list what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

.PHONY: run
run: $(STAMPS)/run ## serve echo_env (ENV=, GRPC_PORT=, HTTP_PORT=)
	@exec $(BIN)/openenv-grpc serve $(ENV) --grpc-port $(GRPC_PORT) --http-port $(HTTP_PORT)

.PHONY: install
install: $(STAMPS)/dev $(GENERATED) ## set up .venv with the tools of development

.PHONY: gen
gen: $(STAMPS)/dev ## generate src/openenv_grpc/v1 from the protos
	$(BIN)/python proto/generate.py

.PHONY: format
format: install ## rewrite Python and protos in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/buf format --write

.PHONY: lint
lint: install ## check Python, import contracts and protos
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/buf lint
	$(BIN)/buf format --diff --exit-code

.PHONY: types
types: install ## check types
	$(BIN)/mypy

.PHONY: breaking
breaking: install ## check that the protos still speak to the clients of the last release
	$(BIN)/buf breaking --against $(PROTO_BASELINE)

.PHONY: baseline
baseline: install ## take the protos as they are for what `breaking` compares with
	$(BIN)/buf build --exclude-source-info --output $(PROTO_BASELINE)

.PHONY: check
check: lint types breaking ## all checks that only read

.PHONY: test
test: install $(STAMPS)/reference ## run the tests (TESTS='-k name')
	$(BIN)/pytest $(TESTS)

.PHONY: bench
bench: install $(STAMPS)/reference ## measure against the reference, side by side
	$(BIN)/python bench/run.py

.PHONY: docs
docs: $(STAMPS)/docs ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.PHONY: package
package: install ## build wheel and sdist into dist/
	$(BIN)/python -m build --no-isolation

.PHONY: clean
clean: ## remove all that was made here
	rm -rf $(VENV) $(REFERENCE) $(STAMPS) dist build site gen src/openenv_grpc/v1

# Set-up. A stamp stands for an environment that is complete; what it was made from makes it anew.

$(BIN)/python:
	@.ci/python-with-venv $(PYTHON)
	$(PYTHON) -m venv $(VENV)

$(STAMPS)/run: pyproject.toml constraints.txt $(PROTOS) | $(BIN)/python
	$(PIP) install --constraint constraints.txt --editable .
	@mkdir -p $(STAMPS) && touch $@

# Dependency groups need a newer pip than Python brings.
$(STAMPS)/dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install 'pip>=25.1'
	$(PIP) install --constraint constraints.txt --group dev --editable .
	@mkdir -p $(STAMPS) && touch $@ $(STAMPS)/run

$(STAMPS)/docs: pyproject.toml | $(STAMPS)/dev
	$(PIP) install --group docs
	@mkdir -p $(STAMPS) && touch $@

$(GENERATED): $(PROTOS) | $(STAMPS)/dev
	$(BIN)/python proto/generate.py

# The reference has an environment of its own, with our dependencies beside it: it needs another
# fastmcp than we test with, and its environments are served by us as they are.
$(STAMPS)/reference: pyproject.toml tests/reference-constraints.txt
	@.ci/python-with-venv $(PYTHON)
	test -x $(REFERENCE)/bin/python || $(PYTHON) -m venv $(REFERENCE)
	$(REFERENCE)/bin/python -m pip --disable-pip-version-check --quiet install \
	  --constraint tests/reference-constraints.txt 'openenv==0.10.0' \
	  pytest pytest-asyncio pytest-timeout --editable .
	@mkdir -p $(STAMPS) && touch $@
