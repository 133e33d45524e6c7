# make demo   set up, run the default config offline, say where the report is
# make test   set up, run the checks and the tests
# make ocr    add what the built-in model ocr-difference needs
# make slurm  add Snakemake's executor for Slurm
# make rich   add progress bars for the terminal: snakemake --logger rich
# make fuzz   set hypothesis, and atheris where it can be installed, on everything that reads what others wrote; MINUTES=1 for each target
# make audit  compare what is installed with the locks, list licences, and with ADVISORIES=FILE known vulnerabilities; no network
# make chaos  kill, fill up and damage whole runs, and compare what they end in with one that nothing disturbed
# make oracles  add other people's statistics, which more tests compare with
PYTHON ?= python3
CORES ?= $(shell nproc 2>/dev/null || echo 2)
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test ocr oracles slurm slurm-tests rich fuzz audit lint nightly lock environment benchmarks clean chaos scale

demo: $(READY)
	$(BIN)/snakemake --cores $(CORES)

test: $(READY) lint
	$(BIN)/pytest --numprocesses 2 --dist loadfile

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow/rules
	$(BIN)/snakemake --lint
	$(BIN)/evoaudit document --check

nightly: oracles slurm
	$(BIN)/pytest -m "slow or not slow"
	$(MAKE) fuzz

# The tests that start a Slurm of one node on this machine; part of nightly. docs/slurm.md names the packages they need.
slurm-tests: slurm
	$(BIN)/pytest tests/test_slurm.py -m "slow or not slow"

# Parts of it need root, for mounts, and faketime; part of nightly.
chaos: $(READY)
	$(BIN)/pytest tests/test_chaos.py -m "slow or not slow"

benchmarks: $(READY)
	$(BIN)/python benchmarks/normalise_and_mine.py
	$(BIN)/python benchmarks/mining.py
	$(BIN)/python benchmarks/reading.py
	$(BIN)/python benchmarks/preparation.py
	$(BIN)/python benchmarks/statistics_and_figures.py
	$(BIN)/python benchmarks/inference.py
	$(BIN)/python benchmarks/report.py

# A whole paper over the loopback, a tenth of it first; then what a thousand models would take. About an hour and 2 GB in .benchmark-work.
scale: $(READY)
	$(BIN)/python benchmarks/full_run.py --growth
	$(BIN)/python benchmarks/full_run.py --dag 28 280 1000
	$(BIN)/python benchmarks/copies.py .benchmark-work/28-3000-5000-158-full --items 1 10

environment: $(READY)

ocr: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r envs/ocr.lock

slurm: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r envs/slurm.lock

audit: $(READY)
	$(BIN)/python envs/audit.py $(foreach file,$(ADVISORIES),--advisories $(file))

# Atheris where there is one for this machine; otherwise hypothesis' long run of the same targets, which nightly has too.
MINUTES ?= 1
fuzz: $(READY)
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r envs/fuzz.lock
	@if $(BIN)/python -c 'import atheris' 2>/dev/null; then for target in $$($(BIN)/python tests/fuzz_coverage.py); do \
		echo "$$target"; $(BIN)/python tests/fuzz_coverage.py $$target --seconds $$((60 * $(MINUTES))) || exit 1; done; \
	else $(BIN)/pytest -m slow tests/test_fuzz_targets.py; fi

rich: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r envs/rich.lock

oracles: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r envs/oracles.lock

$(READY): envs/requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r envs/requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

# Needs uv; only when the dependencies in pyproject.toml change.
lock:
	uv pip compile pyproject.toml --extra test --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate -o envs/requirements.lock
	uv pip compile pyproject.toml --extra ocr --constraints envs/requirements.lock --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate -o envs/ocr.lock
	uv pip compile pyproject.toml --extra oracles --constraints envs/requirements.lock --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate -o envs/oracles.lock
	uv pip compile pyproject.toml --extra slurm --constraints envs/requirements.lock --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate -o envs/slurm.lock
	uv pip compile pyproject.toml --extra rich --constraints envs/requirements.lock --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate -o envs/rich.lock
	uv pip compile pyproject.toml --extra fuzz --constraints envs/requirements.lock --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate -o envs/fuzz.lock
	$(BIN)/evoaudit document
	$(BIN)/python envs/audit.py --write

clean:
	rm -rf .venv .snakemake results
