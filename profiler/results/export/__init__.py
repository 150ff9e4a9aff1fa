"""Runs that leave this machine: packed in one file without what is private, and opened again anywhere."""
