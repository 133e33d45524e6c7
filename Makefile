# make demo   set up, run the default config offline, say where the report is
# make test   set up, run the checks and the tests
# make ocr    add what the built-in model ocr-difference needs
# make slurm  add Snakemake's executor for Slurm
# make oracles  add other people's statistics, which more tests compare with
PYTHON ?= python3
CORES ?= $(shell nproc 2>/dev/null || echo 2)
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test ocr oracles slurm slurm-tests lint nightly lock environment benchmarks clean

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

# The tests that start a Slurm of one node on this machine; part of nightly.
slurm-tests: slurm
	$(BIN)/pytest tests/test_slurm.py -m "slow or not slow"

benchmarks: $(READY)
	$(BIN)/python benchmarks/normalise_and_mine.py
	$(BIN)/python benchmarks/mining.py
	$(BIN)/python benchmarks/reading.py
	$(BIN)/python benchmarks/preparation.py
	$(BIN)/python benchmarks/statistics_and_figures.py
	$(BIN)/python benchmarks/inference.py

environment: $(READY)

ocr: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r envs/ocr.lock

slurm: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r envs/slurm.lock

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
	$(BIN)/evoaudit document

clean:
	rm -rf .venv .snakemake results
