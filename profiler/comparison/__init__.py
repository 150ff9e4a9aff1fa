"""Runs against each other: which cells are faster, slower, the same or unclear, and what else differs."""
