"""Servers in processes of their own, for tests of the load on them."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.helpers import program


@contextlib.contextmanager
def running(module: str, folder: Path, *arguments: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Its port, which it chose itself and writes into a file."""
    port = folder / "port"
    with (folder / "server.log").open("w") as log:
        command = [sys.executable, "-m", module, str(port), *arguments]
        process = subprocess.Popen(command, cwd=program.ROOT, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 120
            while not (port.exists() and port.read_text()):
                assert process.poll() is None, (folder / "server.log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield int(port.read_text()), process
        finally:
            process.kill()
            process.wait()
