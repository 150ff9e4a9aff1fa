"""Speech-model profiler: real-time factor, peak memory and traces over a grid of durations and batch sizes.

Importing this package imports nothing heavy; torch is loaded only in the worker processes that run a model.
"""

__version__ = "0.1.0"
