# Everything a contributor types. `make help` lists it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/runtime
READY := $(VENV)/ready
# Modules are compiled when they are imported: most of what is installed never is.
PIP := $(BIN)/python -m pip install --disable-pip-version-check --no-compile
NODE_BIN := tests/clients/node_modules/.bin
NODE_READY := tests/clients/node_modules/.package-lock.json
API_TYPES := tests/web/types/api.d.ts
WEB_FILES := "app/web/**/*.{js,css,d.ts}" "tests/web/**/*.ts" "tests/clients/*.mjs" tsconfig.json \
	"tests/frontends/*.mjs" "tests/frontends/pages/*.jsx" \
	"clients/typescript/**/*.{ts,json}"
ARGS ?=
# In the order of the directories: the long files come first, and all processes end together. Four, because
# many tests wait, and each spends 8 s of CPU before its first test. The report has the durations that tests/flaky reads.
PYTEST_ARGS ?= -n 4 --dist loadfile --no-loadscope-reorder --junitxml=.pytest_cache/$@.xml

# Where it is set, each process of the tests compiles all packages anew: 3 s for one that runs tests.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help package pictures demo test-fast test test-long rehearse check format format-check lint types imports web web-check web-format client-types serve migration benchmark lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(RUNTIME) ## what Runtally does, with a scripted model (ARGS=--once exits after it)
	@$(BIN)/runtally demo $(ARGS)

test-fast: $(READY) ## the tests without a database and without the CLI, for the inner loop
	$(BIN)/pytest tests/unit -m "not long" $(PYTEST_ARGS)

test: check ## everything `check` does, then all tests that a change can break
	$(BIN)/pytest -m "not long" $(PYTEST_ARGS)

test-long: $(READY) ## chaos, soaks, empty environments, other people's frontends and old releases
	$(BIN)/pytest -m long $(PYTEST_ARGS)

# Two at a time, the longest first. READY comes before, because the web target runs make again.
check: $(READY) ## format, lint, types and import contracts
	@$(MAKE) --no-print-directory -j 2 types web format-check lint imports

# A variable for each package that can be rehearsed.
CANDIDATES = $(SDK:%=claude-agent-sdk==%) $(ANTHROPIC:%=anthropic==%) $(MCP:%=mcp==%) \
	$(AG_UI:%=ag-ui-protocol==%) $(GENAI_PRICES:%=genai-prices==%)

pictures: $(READY) ## draw the pictures of the documents anew, from the demo
	$(BIN)/python -m app demo --once --svg docs/demo.svg
	$(BIN)/python -m tests.browser.pictures

rehearse: $(READY) ## what a new release changes: make rehearse SDK=0.2.190 (ANTHROPIC, MCP, AG_UI, GENAI_PRICES)
	@test -n "$(strip $(CANDIDATES))" || { echo "say what to rehearse: make rehearse SDK=0.2.190"; exit 2; }
	@$(BIN)/python -m tests.rehearsal $(CANDIDATES)

format: $(READY) ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory web-format; fi

format-check: $(READY)
	$(BIN)/ruff format --check .

lint: $(READY) ## ruff
	$(BIN)/ruff check .

types: $(READY) ## mypy --strict
	$(BIN)/mypy

imports: $(READY) ## import contracts
	@$(BIN)/lint-imports --no-logo

web: ## format, lint and types of the pages in app/web; needs Node with npm
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory web-check; \
	elif [ -n "$$RUNTALLY_TESTS_REQUIRE_PROGRAMS" ]; then echo "make web: npm is missing" >&2; exit 1; \
	else echo "make web: skipped, because npm is missing"; fi

web-check: $(NODE_READY) $(API_TYPES)
	@$(NODE_BIN)/prettier --check --log-level warn $(WEB_FILES)
	@$(NODE_BIN)/eslint --config tests/clients/eslint.config.mjs app/web tests/clients/*.mjs tests/frontends/*.mjs
	@$(NODE_BIN)/tsc --project .
	@$(NODE_BIN)/tsc --project clients/typescript --noEmit

web-format: $(NODE_READY)
	@$(NODE_BIN)/prettier --write --log-level warn $(WEB_FILES)
	@$(NODE_BIN)/eslint --config tests/clients/eslint.config.mjs --fix app/web tests/clients/*.mjs tests/frontends/*.mjs

client-types: $(READY) $(NODE_READY) ## the types of clients/typescript, from the OpenAPI document
	@$(BIN)/python -m tests.web.write_types clients/typescript/src/api.ts --client

serve: $(RUNTIME) ## serve with the settings of .env
	@$(BIN)/runtally serve $(ARGS)

migration: $(READY) ## a new migration file: make migration NAME=create_things
	@test -n "$(NAME)" || { echo "say what it does: make migration NAME=create_things"; exit 2; }
	$(BIN)/alembic revision -m "$(NAME)"
	@$(BIN)/ruff format --quiet migrations/versions

benchmark: $(READY) ## one table: Runtally, the SDK and other servers on the same work
	$(BIN)/python -m benchmarks.goals $(ARGS)

package: $(RUNTIME) ## build the wheel and the source distribution into dist/
	@$(BIN)/python -m hatchling build

lock: $(READY) ## resolve the dependencies anew; needs uv and npm
	uv pip compile pyproject.toml --extra server --group dev -o requirements.lock $(LOCK_ARGS)
	uv pip compile pyproject.toml --extra telemetry -o requirements-runtime.lock $(LOCK_ARGS)
	uv pip compile --group pyproject.toml:build -o requirements-build.lock $(LOCK_ARGS)
	@# npm notes where to pay for a package; a lock holds no address.
	@for packages in clients conformance frontends; do \
		(cd tests/$$packages && npm install --package-lock-only) && $(BIN)/python -c 'import json, pathlib; \
			lock = pathlib.Path("tests/'$$packages'/package-lock.json"); held = json.loads(lock.read_text()); \
			[entry.pop("funding", None) for entry in held["packages"].values()]; \
			lock.write_text(json.dumps(held, indent=2, ensure_ascii=False) + "\n")' || exit 1; \
	done

LOCK_ARGS := --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links \
	--no-header --no-annotate --python-version 3.11

$(NODE_READY): tests/clients/package-lock.json
	@echo "installing the locked npm packages into tests/clients"
	@cd tests/clients && npm ci --loglevel=error
	@touch $@

$(API_TYPES): app/web/languages/en.ftl $(shell find app/http app/events.py app/requests app/usage -name '*.py' -o -name '*.yaml') | $(READY) $(NODE_READY)
	@$(BIN)/python -m tests.web.write_types $@

clean: ## remove what was made here, the demo's data too
	rm -rf $(VENV) .rehearsal $(API_TYPES) .runtally .mypy_cache .pytest_cache .ruff_cache .import_linter_cache dist

# uv where there is one, because it is faster; pip where there is none or uv cannot.
#   $(call install,WHAT,LOCKS)
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "Runtally needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Use: make PYTHON=python3.13 ..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "$(PYTHON) has no venv module; on Debian: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@echo "installing $(1) into $(VENV)"
	@if ! command -v uv >/dev/null 2>&1 || \
		! VIRTUAL_ENV=$(VENV) uv pip install --quiet --require-hashes $(addprefix --requirement ,$(2)); then \
		{ $(PIP) --require-hashes $(addprefix --requirement ,$(2)) 2>&1; echo "exit $$?"; } | \
			awk -v total="$$(cat $(2) | grep -c ==)" "$$PIP_PROGRESS"; \
	fi
	@$(PIP) --quiet --no-deps --no-build-isolation --editable .
endef

# pip prints a line for each step; this shows how far it is, and everything else if it fails.
define PIP_PROGRESS
/^exit /       { status = $$2; next }
/^Collecting / { if (++count % 10 == 0) print "  " count " of " total " packages"; fflush() }
/^Installing / { print "  unpacking " count " packages"; fflush() }
               { text = text $$0 "\n" }
END            { if (status) printf "%s", text; exit status }
endef
export PIP_PROGRESS

# What a server needs. Installed packages that the tests need stay.
$(RUNTIME): requirements-runtime.lock requirements-build.lock pyproject.toml
	$(call install,what a server needs,requirements-runtime.lock requirements-build.lock)
	@touch $@

# All that and what the tests need.
$(READY): requirements.lock pyproject.toml
	$(call install,everything for the tests,requirements.lock)
	@touch $(RUNTIME) $@
