"""Fuzzers: seeded mutations of what users write. A short run is a test; a long one is a command."""
