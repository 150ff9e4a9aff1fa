"""The same recipes on more than one machine: jobs -> an engine that places them -> ordinary runs in the log folder.

    cli/fleet -> driver (jobs, retries, fleet.json) -> engine (local, Ray, SLURM) -> node (our program, on the machine)

A job is one recipe on one whole machine or device. The node starts the ordinary program as a process of its own, so
figures are taken as at the machine itself; the engine only places it, and says what became of it.
"""
