"""The results of a run: their types, how they are stored, which runs there are, and one file to give away."""

from pathlib import Path

LOGDIR = Path("logs")  # where runs go
