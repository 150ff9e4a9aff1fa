"""Is this machine fit for measuring? Checks of its settings, and an A/A trial of its noise -> one answer.

The checks read /proc and /sys; the trial measures the same small model in several equal runs, through the machinery of
a real run. What happens on the machine meanwhile (steal, throttling, other processes) is read over the trial.
"""
