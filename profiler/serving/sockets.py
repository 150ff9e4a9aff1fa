"""Live speakers at a server: each sends its audio over a websocket and reads what comes back.

    submit -> the speaker's connection -> start, audio, audio, ..., end -> answers -> done(request)

A connection carries one utterance. The next one is opened when the last audio of the one before has been sent: then
the speaker begins to say the next utterance, whose first audio is due a message later. All connections live in one
event loop, in a thread of its own; it takes the place of a pool of workers.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from profiler.audio import Samples
from profiler.processes import explain
from profiler.serving.records import Request, clock
from profiler.serving.streams import Piece, Turn

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

    from profiler.models.websocket import Conversation

LONGEST_ANSWER = 1 << 20  # bytes
CLOSE_SECONDS = 1.0


@dataclass(frozen=True)
class Part:
    """Of an utterance: what is sent at once."""

    audio: bytes | str
    begins: bool  # the utterance
    ends: bool


def parts_of(talk: Conversation, utterances: Sequence[Samples]) -> tuple[Turn, list[Part]]:
    """Utterances one after another, in messages of a chunk each; `item` counts them."""
    samples = max(1, round(talk.chunk * talk.rate))
    pieces: list[Piece] = []
    parts: list[Part] = []
    starts, before = [], 0.0
    for row in utterances:
        starts.append(len(pieces))
        for start in range(0, len(row), samples):
            chunk, stop = row[start : start + samples], min(len(row), start + samples)
            audio = _encoded(chunk, talk.encoding)
            ends = stop == len(row)
            counts = ends or talk.answers == "each"
            seconds = len(row) if talk.answers == "last" else len(chunk)
            message = audio if talk.audio is None else talk.write(talk.audio, base64.b64encode(audio).decode())
            pieces.append(Piece(len(pieces), seconds / talk.rate, before + stop / talk.rate, counts))
            parts.append(Part(message, start == 0, ends))
        before += len(row) / talk.rate
    return Turn(pieces, before, starts), parts


def _encoded(row: Samples, encoding: str) -> bytes:
    if encoding == "float32":
        return row.astype("<f4").tobytes()
    return (np.clip(row, -1.0, 1.0) * 32767.0).astype("<i2").tobytes()


class Sockets:
    """The connections of all speakers."""

    def __init__(
        self, talk: Conversation, parts: Sequence[Part], speakers: int, done: Callable[[Request], None], timeout: float
    ) -> None:
        self.talk, self.parts, self.speakers, self.done, self.timeout = talk, parts, speakers, done, timeout
        self.pids: list[int] = []  # no process of ours serves
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._open: dict[int, Line] = {}  # of each request without a result, by its number
        self._next: dict[int, Line] = {}  # of each speaker, waiting for its next utterance
        self._now: dict[int, Line] = {}
        self._lines: set[asyncio.Task[None]] = set()

    def start(self, seconds: float) -> bool:
        """Open a connection for each speaker; those that fail cost their first utterance."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._connect_all(), self._loop).result(seconds)
        return True

    def submit(self, *requests: Request) -> None:
        self._loop.call_soon_threadsafe(self._take, requests)

    def close(self) -> None:
        """Requests without a result stay without one."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # -- in the loop

    async def _connect_all(self) -> None:
        for speaker in range(self.speakers):
            self._next[speaker] = self._line()
        await asyncio.gather(*(line.opened.wait() for line in self._next.values()))

    async def _close(self) -> None:
        self._open.clear()
        for task in self._lines:
            task.cancel()
        await asyncio.gather(*self._lines, return_exceptions=True)

    def _line(self) -> Line:
        line = Line(self)
        task = self._loop.create_task(line.run())
        self._lines.add(task)
        task.add_done_callback(self._lines.discard)
        return line

    def _take(self, requests: Sequence[Request]) -> None:
        for request in requests:
            part, speaker = self.parts[request.item], request.stream
            request.issued = clock()  # until here it was on its way within the load generator
            if part.begins:
                self._now[speaker] = self._next.pop(speaker) if speaker in self._next else self._line()
            line = self._now[speaker]
            if request.number >= 0:
                self._open[request.number] = line
                self._loop.call_later(self.timeout - (clock() - request.due), self._give_up, request)
            line.say(request, part)
            if part.ends:
                self._next[speaker] = self._line()

    def _give_up(self, request: Request) -> None:
        if request.number in self._open:
            self._open[request.number].hang_up("timeout", f"no result within {self.timeout:g} s")

    def finish(self, request: Request, status: str, reason: str = "", now: float | None = None) -> None:
        """Each once, whatever comes after."""
        if self._open.pop(request.number, None) is None:
            return
        request.done, request.reason = now or clock(), reason
        request.status = status  # type: ignore[assignment]
        self.done(request)


class Line:
    """One connection, for one utterance."""

    def __init__(self, sockets: Sockets) -> None:
        self.sockets, self.talk = sockets, sockets.talk
        self.opened = asyncio.Event()  # or failed to
        self._to_say: asyncio.Queue[tuple[Request, Part]] = asyncio.Queue()
        self._awaited: deque[Request | None] = deque()  # None: an answer that nothing is made of
        self._spoken_from: float | None = None
        self._first_text = self._answered = 0.0
        self._ended = False  # the end of the utterance has been sent
        self._over = ("", "")  # why nothing can come any more: status, reason
        self._task: asyncio.Task[None] | None = None

    def say(self, request: Request, part: Part) -> None:
        """Send a part of the utterance; at once an error where the connection is gone."""
        if self._spoken_from is None:
            self._spoken_from = request.due - self.talk.chunk
        if self._over[0]:
            self.sockets.finish(request, *self._over)
            return
        if request.number >= 0:
            if self.talk.answers == "each" and part.ends and self.talk.end is not None:
                self._awaited.append(None)  # the answer to its audio; its result is the answer to the end
            self._awaited.append(request)
        self._to_say.put_nowait((request, part))

    def hang_up(self, status: str, reason: str) -> None:
        """What is awaited will not come."""
        if self._over[0]:
            return
        self._over = status, reason
        for request in self._awaited:
            if request is not None:
                self.sockets.finish(request, status, reason)
        self._awaited.clear()
        if self._task is not None:
            self._task.cancel()

    async def run(self) -> None:
        """From the connection to its end, whoever ends it."""
        from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

        self._task = asyncio.current_task()
        try:
            async with _connect(self.talk.url, self.sockets.timeout) as server:
                for message in self.talk.opening:
                    await server.send(self.talk.write(message))
                self.opened.set()
                await self._talk(server)
        except asyncio.CancelledError:
            pass
        except InvalidStatus as error:
            self._end(f"the server answered {error.response.status_code}")
        except InvalidHandshake:
            self._end("the server closed the connection before it was open, or speaks no websocket")
        except ConnectionClosed as error:
            code = f" ({error.rcvd.code} {error.rcvd.reason}".rstrip() + ")" if error.rcvd else ""
            self._end(f"the server closed the connection{code}")
        except TimeoutError:
            self._end(f"no connection within {self.sockets.timeout:g} s", "timeout")
        except OSError as error:
            self._end(f"{type(error).__name__}: {error.strerror or error}")
        except Exception as error:
            self._end(explain(error))
        else:
            self._end("the server closed the connection")
        finally:
            self.opened.set()

    def _end(self, reason: str, status: str = "error") -> None:
        self._task = None
        self.hang_up(status, reason)

    async def _talk(self, server: ClientConnection) -> None:
        saying = asyncio.create_task(self._say_all(server))
        try:
            async for message in server:
                if self._hear(message, clock()):
                    return
            if self._ended and self._answered and self._awaited and self.talk.answers == "last":
                self._result(self._awaited.popleft(), self._answered)  # said, and then hung up
        finally:
            saying.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await saying

    async def _say_all(self, server: ClientConnection) -> None:
        while True:
            request, part = await self._to_say.get()
            request.sent = clock()
            self._ended = part.ends and self.talk.end is None
            await server.send(part.audio)
            if part.ends and self.talk.end is not None:
                self._ended = True
                await server.send(self.talk.write(self.talk.end))

    def _hear(self, message: str | bytes, now: float) -> bool:
        """Whether the utterance is over."""
        from profiler.models.websocket import holds

        answer, text = self.talk.read(message)
        if holds(answer, self.talk.error):
            self.hang_up("error", f"the server answered {str(text or answer)[:200]}")
            return True
        if text and not self._first_text:
            self._first_text = now
        if self.talk.answers == "each":
            if text is None or not self._awaited:
                return False
            self._result(self._awaited.popleft(), now)
            return self._ended and not self._awaited
        if not self._ended:
            return False
        self._answered = now if text is not None else self._answered
        if holds(answer, self.talk.last) and self._awaited:
            self._result(self._awaited.popleft(), now)
            return True
        return False

    def _result(self, request: Request | None, now: float) -> None:
        if request is not None:
            if self.sockets.parts[request.item].ends and self._spoken_from is not None:
                request.first_text, request.spoken_from = self._first_text, self._spoken_from
            self.sockets.finish(request, "ok", now=now)


def _connect(url: str, seconds: float) -> Any:
    """No proxy, no redirect: load goes to the address that was given, and nowhere else."""
    from websockets.asyncio.client import connect

    class Connect(connect):
        def process_redirect(self, exc: Exception) -> Exception | str:
            return exc

    return Connect(
        url,
        proxy=None,
        compression=None,
        open_timeout=seconds,
        close_timeout=CLOSE_SECONDS,
        ping_interval=None,
        max_size=LONGEST_ANSWER,
    )
