"""Runs a plan: worker processes that hold the model, and the parent that schedules, survives and writes."""
