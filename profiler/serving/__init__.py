"""Load: requests as they arrive, or live speakers, on one model or several, or on a server that runs already.

loadgen.py and streams.py make load, pool.py serves it (sockets.py: a server does), records.py is what is kept of a
request, figures.py turns requests into a step of the results, search.py chooses the next load.
"""
