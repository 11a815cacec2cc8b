# SPDX-License-Identifier: Apache-2.0
# Everything runs from .venv. Outside of the checkout, only Debian packages are installed.

PYTHON_BIN := .venv/bin
SECONDS ?= 600
# One more than cores, since many tests wait; with two more, emulators slow each other down.
# A group is what one worker runs in one go: a file's tests of a board.
WORKERS ?= $(shell expr 1 + `nproc`)
PYTEST = $(PYTHON_BIN)/python -m pytest -q -p no:cacheprovider -n $(WORKERS) --dist loadscope \
	--no-loadscope-reorder
BENCHMARKS = collectors probes rpc rtt build hotspots report samples events large startup watch tuning fleet \
	history
BEGAN := $(shell date +%s)
WIRE_HEADER := device_runtime_c/include/boardprof/bp_wire.h
C_FILES = $(shell find device_runtime_c boards examples tests -name '*.[ch]' | sort)

# Without byte code each test, worker and command would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: bench boards-readme check clean demo docs faults fmt fuzz gen gen-check help lint lint-c lock mutants
.PHONY: nightly other-debian setup setup-check setup-demo setup-test size soak test

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: setup-test ## Install what demo and test need, and run nothing
	@echo "Ready: . $(PYTHON_BIN)/activate, then boardprof --help, or see docs/tutorial.md."

demo: setup-demo ## Profile the example workloads on this machine and print the Report
	@mkdir -p build
	@BOARDPROF_HISTORY=off $(PYTHON_BIN)/boardprof run examples/workloads:all --no-warnings \
		--json build/demo.json
	@echo "The same table again: $(PYTHON_BIN)/boardprof show build/demo.json"

check: setup-check gen-check lint ## Check what needs no emulator, in 90 seconds: the inner loop
	@$(PYTEST) -m "not slow and not nightly" tests/unit tests/protocol tests/test_layers.py tests/test_sources.py
	@BOARDPROF_HISTORY=off $(PYTHON_BIN)/boardprof run -q examples/workloads:crc32
	@sh scripts/took.sh $(BEGAN) 90

test: setup-test gen-check lint lint-c size ## Run all checks and all tests, the emulated boards included
	@echo "Running the tests ..."
	@BOARDPROF_REQUIRE_ALL=1 $(PYTEST) --durations=10
	@sh scripts/took.sh $(BEGAN) 1800

nightly: setup-test ## Run what is too long for a change: full matrices, fuzzing, soak, mutants; resumes
	@$(PYTHON_BIN)/python scripts/nightly.py

other-debian: ## Run make demo and make test on the other one of Debian 12 and 13, in a root of its own (as root)
	@sh scripts/other_debian.sh

lint: setup-check ## Check style, types and English: ruff, mypy, clang-format, scripts/english.py
	@echo "Checking style and types ..."
	@$(PYTHON_BIN)/ruff check -q .
	@$(PYTHON_BIN)/ruff format -q --check .
	@$(PYTHON_BIN)/python scripts/english.py
	@$(PYTHON_BIN)/mypy --no-error-summary
	@$(PYTHON_BIN)/clang-format --dry-run --Werror $(C_FILES)

lint-c: setup-test ## Compile all C for every board with the compilers' warnings as errors
	@echo "Checking the compilers' warnings ..."
	@$(PYTHON_BIN)/python scripts/lint_c.py

size: setup-test ## Show text, data, bss and the deepest stack of the agent; fail over budget
	@$(PYTHON_BIN)/python scripts/size.py

bench: setup-test ## Count the collectors' instructions; time calls, builds, Reports, start-up
	@failed=; for name in $(BENCHMARKS); do \
		$(PYTHON_BIN)/python benchmarks/$$name.py || failed="$$failed $$name.py"; done; \
		test -z "$$failed" || { echo "Failed, or missed a target:$$failed" >&2; exit 1; }

docs: setup-test ## Build the documentation as a site, build/site; fail on a link that leads nowhere
	@$(PYTHON_BIN)/python -m sphinx -q -E -W --keep-going -c docs/site -d build/site-cache . build/site
	@echo "Open build/site/index.html; it needs no network and no server."

faults: setup-test ## Print the fault matrix: every fault, at every position, on each board that starts here
	@$(PYTHON_BIN)/python -m tests.faults

fuzz: setup-test ## Feed both receive paths whatever comes, for SECONDS=600 in all
	@$(PYTHON_BIN)/python -m tests.fuzz.run $(SECONDS)

mutants: setup-test ## Change the code in 380 places, one at a time: which change does no test notice?
	@$(PYTHON_BIN)/python scripts/mutants.py

soak: setup-test ## Play 10,000,000 faulty schedules on all cores; goes on where it was stopped
	@$(PYTHON_BIN)/python scripts/soak.py

gen: setup-check ## Write what is generated: C headers, options for build systems
	@$(PYTHON_BIN)/python -m boardprof_protocol.c_header $(WIRE_HEADER)
	@for schema in boards/*/schema.py; do $(PYTHON_BIN)/python $$schema || exit 1; done
	@$(PYTHON_BIN)/python scripts/options.py
	@$(PYTHON_BIN)/python scripts/report_schema.py

gen-check: setup-check ## Check that what is committed is what is generated
	@echo "Checking the generated headers ..."
	@$(PYTHON_BIN)/python -m boardprof_protocol.c_header | diff -u $(WIRE_HEADER) - \
		|| { echo "$(WIRE_HEADER) is not current: run make gen." >&2; exit 1; }
	@for schema in boards/*/schema.py; do $(PYTHON_BIN)/python $$schema --check \
		|| { echo "The header beside $$schema is not current: run make gen." >&2; exit 1; }; done
	@$(PYTHON_BIN)/python scripts/boards_readme.py --check
	@$(PYTHON_BIN)/python scripts/options.py --check
	@$(PYTHON_BIN)/python scripts/report_schema.py --check

boards-readme: setup-demo ## Write the list of boards in boards/README.md from their board.toml
	@$(PYTHON_BIN)/python scripts/boards_readme.py

fmt: setup-check ## Format Python and C
	@$(PYTHON_BIN)/ruff check -q --fix-only .
	@$(PYTHON_BIN)/ruff format -q .
	@$(PYTHON_BIN)/clang-format -i $(C_FILES)

lock: setup-demo ## Resolve the lock files again, after a change of pyproject.toml (needs uv)
	@PYTHON=$(PYTHON_BIN)/python sh scripts/lock.sh

clean: ## Remove what was built, the tools' caches, and how far nightly has come; keep .venv
	@rm -rf build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -name .venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

setup-demo:
	@sh scripts/setup.sh demo

setup-check:
	@sh scripts/setup.sh check

setup-test:
	@sh scripts/setup.sh test
