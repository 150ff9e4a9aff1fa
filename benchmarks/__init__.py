"""Claims about the profiler itself: each file is a command that prints ratios measured in one run."""
