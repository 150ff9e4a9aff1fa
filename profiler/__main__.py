"""`python -m profiler` is the same program as `python profile.py`."""

import sys

from profiler.cli import main

sys.exit(main())
