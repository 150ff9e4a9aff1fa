"""Messages between the parent and a worker: one JSON object a line, over a pair of pipes.

Plain lines survive a process that dies in the middle: the reader sees the end of the pipe, never half an object.
"""

from __future__ import annotations

import json
import os
import select
import time
from typing import Any

Message = dict[str, Any]
CHUNK = 1 << 16


class Channel:
    """Both ends look the same: a descriptor to read from, one to write to."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._buffer = b""

    def send(self, message: Message) -> None:
        data = json.dumps(message, allow_nan=False).encode() + b"\n"
        while data:
            data = data[os.write(self._write_fd, data) :]

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; None when the other side is gone. Raises TimeoutError."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self._buffer:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self._read_fd], [], [], left)
            if not ready:
                raise TimeoutError
            chunk = os.read(self._read_fd, CHUNK)
            if not chunk:
                return None
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        message: Message = json.loads(line)
        return message

    def close(self) -> None:
        os.close(self._read_fd)
        os.close(self._write_fd)
