# Two commands do everything: make profile, make test. Both set up what they need first.

# The first of these that is a Python 3.11, 3.12 or 3.13 is taken.
PYTHON ?= python3.11 python3.12 python3.13 python3
FITS   := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
VENV   := .venv
CONSTRAINTS := constraints.txt
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: setup profile test lint docs counts clean

setup: $(READY)

# Made anew only when what is installed has changed.
$(READY): setup.cfg pyproject.toml $(CONSTRAINTS)
	@for python in $(PYTHON); do \
	  $$python -c "$(FITS)" 2>/dev/null && exec $$python install.py $(VENV) $(CONSTRAINTS); \
	done; \
	{ echo "Setting up needs Python 3.11, 3.12 or 3.13; none was found. Nothing was installed. Tried:"; \
	for python in $(PYTHON); do echo "  $$python: $$($$python --version 2>/dev/null || echo not here)"; done; \
	echo "Debian, Ubuntu: apt-get install python3.11 python3.11-venv. Fedora, RHEL: dnf install python3.11. Without"; \
	echo "root: conda create --prefix py311 python=3.11. One that is elsewhere: make setup PYTHON=/path/to/python3.11"; \
	} >&2; exit 2

profile: setup
	$(BIN)/python profile.py recipes/wav2vec2.yaml

# Tests go to as many processes as there are cores; which go together, and which begin, says tests/conftest.py.
test: setup
	$(BIN)/python -m pytest -n auto

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The pages of docs/ as a site that opens without a server: site/index.html.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "Open site/index.html in a browser."

# The parameters of the shipped models, which `ls` and `show` print without building them.
counts: setup
	$(BIN)/python recipes/count.py

clean:
	rm -rf $(VENV) build site *.egg-info .pytest_cache .mypy_cache .ruff_cache
