# Two commands do everything: make profile, make test. Both set up what they need first.

PYTHON ?= python3.11
VENV   := .venv
CONSTRAINTS := constraints.txt
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: setup profile test lint counts clean

setup: $(READY)

# Made anew only when what is installed has changed.
$(READY): setup.cfg pyproject.toml $(CONSTRAINTS)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || python3 -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable ".[dev,datasets,energy,espnet,pandas,quantize,silero,speech-models,transducer]"
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --no-deps espnet zeus
	@touch $(READY)

profile: setup
	$(BIN)/python profile.py recipes/wav2vec2.yaml

# Tests go to as many processes as there are cores; which go together, and which begin, says tests/conftest.py.
test: setup
	$(BIN)/python -m pytest -n auto

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The parameters of the shipped models, which `ls` and `show` print without building them.
counts: setup
	$(BIN)/python recipes/count.py

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache
