# Everything runs in this folder's own virtual environment; nothing global is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CLI_STAMP := $(VENV)/.installed-cli
# Images of Python set it to 1. Then each process of the tests would compile every module and every test again.
export PYTHONDONTWRITEBYTECODE :=

# $(call install,WHAT,PIP ARGUMENTS) prints one line: what is installed, and the time that it took.
define install
@printf 'Installing %s into $(VENV), once ... ' '$(1)'
@began=$$(date +%s) \
	&& { test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); } \
	&& $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check $(2) \
	&& echo "$$(($$(date +%s) - began)) s."
endef

.PHONY: demo demo-spark test collected check texts mypy pyright pytest coverage classes bench bench-peers bench-spark docs format clean

$(CLI_STAMP): pyproject.toml
	$(call install,mqflow with its command line,--editable '.[cli]')
	@touch $@

$(STAMP): pyproject.toml plugins/avro/pyproject.toml plugins/cloudevents/pyproject.toml plugins/copybook/pyproject.toml plugins/fastapi/pyproject.toml plugins/inbox/pyproject.toml plugins/outbox/pyproject.toml plugins/prometheus/pyproject.toml
	$(call install,mqflow with all that its tests and Spark need,--editable '.[dev]' --editable plugins/avro --editable plugins/cloudevents --editable plugins/copybook --editable plugins/fastapi --editable plugins/inbox --editable plugins/outbox --editable plugins/prometheus)
	@# pip compiles on one processor. Templates in some packages are not valid Python, so an error is none.
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	@touch $(CLI_STAMP) $@

demo: $(CLI_STAMP) ## a month of real flights through a queue, a handler and a backout queue
	@$(BIN)/python -m examples.flights.demo

# DATA=FILE for a year of them, as the shipped month has them. REAL_TIME=1 for real pauses and delays.
demo-spark: $(STAMP) ## flights with planted trouble through queues, the pipeline on Spark and a report, checked by a plain count
	@$(BIN)/python -m examples.flights_on_spark.demo $(if $(DATA),--data '$(DATA)') $(if $(REAL_TIME),--real-time)

check: texts ## the fast part: format, lint, types, floors; the two type checkers side by side
	$(MAKE) --no-print-directory --jobs 2 mypy pyright

texts: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python -m tests.plain_english

mypy: $(STAMP)
	nice $(BIN)/mypy

pyright: $(STAMP)
	nice $(BIN)/pyright

test: $(STAMP) ## everything; the type checkers and the documentation take the time in which the tests wait
	$(MAKE) --no-print-directory --jobs texts collected
	$(MAKE) --no-print-directory --jobs mypy pyright docs pytest

# pytest compiles each test file once; its processes start together, so each would compile all. The run shows what fails here.
collected: $(STAMP)
	@$(BIN)/python -m pytest -n0 --collect-only -qq >/dev/null 2>&1 || true

# With three processes on two processors, one can work while another waits for a child or for Spark.
pytest: $(STAMP)
	$(BIN)/python -m pytest -n 3 --dist loadgroup --no-loadscope-reorder --durations 40 --durations-min 4

coverage: $(STAMP) ## which branches the tests reach, an hour, into docs/coverage.md
	$(BIN)/python -m tests.coverage_page

classes: $(STAMP) ## once for a machine: from then on each JVM of the tests starts with half of the processor time
	$(BIN)/python -m tests.pipeline.jvm

bench: $(STAMP) ## the budgets, measured here, into docs/performance.md; fails if a miss is not in benchmarks/known_misses.toml
	$(BIN)/python -m benchmarks

# It needs the servers of Debian; INSTALL=1 installs those that are missing, with apt-get.
bench-peers: $(STAMP) ## mqflow beside FastStream, taskiq, dramatiq and Celery, 20 minutes, into docs/performance.md
	$(BIN)/python -m benchmarks.peers $(if $(INSTALL),--install)

bench-spark: $(STAMP) ## what the pipeline on Spark costs, a quarter of an hour, into docs/performance.md
	$(BIN)/python -m benchmarks.triage --unlike --write
	$(BIN)/python -m benchmarks.spark --write

docs: $(STAMP)
	$(BIN)/zensical build --strict

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) .bench-peers .cache .demo .demo-spark site
