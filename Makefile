# What can be made here: `make help` lists it. Everything installs what it needs into `.venv`, once.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
# What `make run` serves, and where.
ENV ?= echo_env
GRPC_PORT ?= 50051
HTTP_PORT ?= 8000
# Handed to pytest by `make test`, and to the benchmark by `make bench`.
TESTS ?=
BENCH ?=
# The revisions that `make bench-compare` compares: the second is the working tree if none is named.
BASE ?=
HEAD ?=

VENV := .venv
BIN := $(VENV)/bin
REFERENCE := .venv-reference
RIVALS := .venv-rivals
STAMPS := .stamps
PROTOS := proto/generate.py $(wildcard proto/openenv_grpc/v1/*.proto)
GENERATED := src/openenv_grpc/v1/proto.binpb
PROTO_BASELINE := proto/image.binpb
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Says what set-up is about to do, which may take a while. Not on standard output, where `make run`
# has the server's READY.
say = @echo "make: $(1)" >&2

.PHONY: help
help: ## list what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

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
test: install languages packets $(STAMPS)/reference $(STAMPS)/rivals ## run the tests (TESTS='-k name')
	$(BIN)/pytest $(TESTS)

.PHONY: soak
soak: install ## run the tests that take minutes (SOAK_MINUTES=10)
	$(BIN)/pytest -m soak $(TESTS)

.PHONY: conformance
conformance: install ## check MCP by its own conformance tool and by clients from npm
	$(BIN)/pytest tests/conformance $(TESTS)

.PHONY: bench
bench: install $(STAMPS)/reference $(STAMPS)/rivals ## measure against others, side by side (BENCH=--quick)
	$(BIN)/python -m bench $(BENCH)

.PHONY: bench-compare
bench-compare: install ## measure two revisions of ours (BASE=main, HEAD=, BENCH='--only shared')
	@test -n "$(BASE)" || { echo "say what to compare with: make bench-compare BASE=main" >&2; exit 2; }
	$(BIN)/python -m bench.compare $(BASE) $(if $(HEAD),--head $(HEAD)) $(BENCH)

.PHONY: docs
docs: $(STAMPS)/docs ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.PHONY: package
package: install ## build wheel and sdist into dist/
	$(BIN)/python -m build --no-isolation

.PHONY: clean
clean: ## remove all that was made here
	rm -rf $(VENV) $(REFERENCE) $(RIVALS) $(BETTERPROTO) $(STAMPS) .tools dist build site gen src/openenv_grpc/v1

# Set-up. A stamp stands for an environment that is complete; what it was made from makes it anew.

$(BIN)/python:
	$(call say,making a virtual environment in $(VENV))
	@.ci/python-with-venv $(PYTHON)
	$(PYTHON) -m venv $(VENV)

$(STAMPS)/run: pyproject.toml constraints.txt $(PROTOS) | $(BIN)/python
	$(call say,installing openenv-grpc and what it needs into $(VENV))
	$(PIP) install --constraint constraints.txt --editable .
	@mkdir -p $(STAMPS) && touch $@

# Dependency groups need a newer pip than Python brings.
$(STAMPS)/dev: pyproject.toml constraints.txt | $(BIN)/python
	$(call say,installing openenv-grpc and the tools of development into $(VENV))
	$(PIP) install 'pip>=25.1'
	$(PIP) install --constraint constraints.txt --group dev --editable .
	@mkdir -p $(STAMPS) && touch $@ $(STAMPS)/run

$(STAMPS)/docs: pyproject.toml | $(STAMPS)/dev
	$(call say,installing what builds the documentation into $(VENV))
	$(PIP) install --constraint constraints.txt --group docs
	@mkdir -p $(STAMPS) && touch $@

$(GENERATED): $(PROTOS) | $(STAMPS)/dev
	$(call say,generating src/openenv_grpc/v1 from the protos)
	$(BIN)/python proto/generate.py

# The reference has an environment of its own, with our dependencies beside it: it needs another
# fastmcp than we test with, and its environments are served by us as they are.
$(STAMPS)/reference: pyproject.toml tests/reference-constraints.txt
	$(call say,installing OpenEnv 0.10.0 into $(REFERENCE) for the tests against it)
	@.ci/python-with-venv $(PYTHON)
	test -x $(REFERENCE)/bin/python || $(PYTHON) -m venv $(REFERENCE)
	$(REFERENCE)/bin/python -m pip --disable-pip-version-check --quiet install \
	  --constraint tests/reference-constraints.txt 'openenv==0.10.0' \
	  pytest pytest-asyncio pytest-timeout --editable .
	@mkdir -p $(STAMPS) && touch $@

# What the benchmark measures beside us and the reference.
$(STAMPS)/rivals: bench/rivals-constraints.txt | $(BIN)/python
	$(call say,installing dm_env_rpc into $(RIVALS) for the benchmark)
	test -x $(RIVALS)/bin/python || $(PYTHON) -m venv $(RIVALS)
	$(RIVALS)/bin/python -m pip --disable-pip-version-check --quiet install \
	  --constraint bench/rivals-constraints.txt dm-env-rpc uvloop
	@mkdir -p $(STAMPS) && touch $@

# Other languages: what `make stubs` and the tests of `examples/` need, pinned here or in the
# example's own files. A language whose own tools (Go, Node, Maven, Rust) are missing is left out.

ALL_LANGUAGES := go typescript java cpp rust python_betterproto2
BETTERPROTO := .venv-betterproto
# The last release whose plugin Maven Central carries, and the protoc for its protobuf-java.
GRPC_JAVA := 1.83.1
PROTOC_JAVA := 3.25.9
JAVA_PLATFORM = $(subst Darwin-arm64,osx-aarch_64,$(subst Linux-aarch64,linux-aarch_64,$(subst Linux-x86_64,linux-x86_64,$(shell uname -s -m | tr ' ' -))))
MAVEN_COPY = mvn --quiet --batch-mode org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy

.PHONY: stubs
stubs: install ## generate stubs for other languages into gen/ (LANGUAGES='go rust')
	-@$(MAKE) --no-print-directory --keep-going $(addprefix $(STAMPS)/language-,$(or $(LANGUAGES),$(ALL_LANGUAGES)))
	$(BIN)/python scripts/languages/stubs.py $(LANGUAGES)

# For `make test`, which skips, or in CI fails, what could not be set up.
.PHONY: languages
languages: install
	-@$(MAKE) --no-print-directory --keep-going \
	  $(addprefix $(STAMPS)/language-,$(ALL_LANGUAGES) python_betterproto)

# What drops packets in a network namespace, for a test that is left out without it.
.PHONY: packets
packets:
	-@if ! { command -v ip && command -v iptables; } >/dev/null; then \
	  if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	    echo "Dropping packets needs root, ip and iptables (Debian: apt-get install iproute2 iptables)" >&2; exit 1; \
	  fi; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq iproute2 iptables >/dev/null; \
	fi

$(STAMPS)/language-go: examples/go/go.mod examples/go/go.sum
	@command -v go >/dev/null || { echo "Stubs for Go need Go 1.26: go.dev/dl" >&2; exit 1; }
	$(call say,building what the stubs for Go need)
	go -C examples/go build google.golang.org/grpc
	go -C examples/go tool protoc-gen-go --version
	go -C examples/go tool protoc-gen-go-grpc --version
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/language-typescript: examples/typescript/package-lock.json
	@command -v npm >/dev/null || { echo "Stubs for TypeScript need Node.js 20 and npm" >&2; exit 1; }
	$(call say,installing what the stubs for TypeScript need)
	npm ci --silent --ignore-scripts --prefix examples/typescript
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/language-java: Makefile
	@command -v mvn >/dev/null || { echo "Stubs for Java need Java and Maven" >&2; exit 1; }
	$(call say,fetching what the stubs for Java need into .tools)
	@mkdir -p .tools/java
	$(MAVEN_COPY) -DoutputDirectory=$(CURDIR)/.tools/java -Dmdep.stripVersion=true \
	  -Dartifact=com.google.protobuf:protoc:$(PROTOC_JAVA):exe:$(JAVA_PLATFORM)
	$(MAVEN_COPY) -DoutputDirectory=$(CURDIR)/.tools/java -Dmdep.stripVersion=true \
	  -Dartifact=io.grpc:protoc-gen-grpc-java:$(GRPC_JAVA):exe:$(JAVA_PLATFORM)
	install -m 755 .tools/java/protoc-$(JAVA_PLATFORM).exe .tools/java/protoc
	install -m 755 .tools/java/protoc-gen-grpc-java-$(JAVA_PLATFORM).exe .tools/java/protoc-gen-grpc-java
	rm .tools/java/*.exe
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/language-cpp:
	$(call say,seeing to the protoc and plugin that the stubs for C++ need)
	@if ! { command -v protoc && command -v grpc_cpp_plugin; } >/dev/null; then \
	  if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	    echo "Stubs for C++ need protoc and grpc_cpp_plugin (Debian: apt-get install protobuf-compiler-grpc)" >&2; exit 1; \
	  fi; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq protobuf-compiler protobuf-compiler-grpc >/dev/null; \
	fi
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/language-rust: Makefile
	@command -v cargo >/dev/null || { echo "Stubs for Rust need cargo: rustup.rs" >&2; exit 1; }
	$(call say,building what the stubs for Rust need into .tools)
	cargo install --quiet --locked --root .tools protoc-gen-prost@0.5.0 protoc-gen-tonic@0.5.0
	@mkdir -p $(STAMPS) && touch $@

# Comes with the tools of development.
$(STAMPS)/language-python_betterproto2: $(STAMPS)/dev
	@touch $@

# In an environment of its own: it and `.venv` need different releases of python-dateutil.
$(STAMPS)/language-python_betterproto: Makefile | $(BIN)/python
	$(call say,installing betterproto into $(BETTERPROTO))
	test -x $(BETTERPROTO)/bin/python || $(PYTHON) -m venv $(BETTERPROTO)
	$(BETTERPROTO)/bin/python -m pip --disable-pip-version-check --quiet install 'betterproto[compiler]==2.0.0b7'
	@mkdir -p $(STAMPS) && touch $@
