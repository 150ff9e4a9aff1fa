"""Live speakers: each sends its audio at the speed of speech, and a result is due when a chunk has been spoken.

    speaker 1   |--chunk--|--chunk--|--chunk--|...      each sent when its last sound was spoken
    speaker 2        |--chunk--|--chunk--|...           (and what the model looks ahead); they begin apart

LoadGen knows no such load, so the clock is ours, and how late it was is kept as well.
"""

from __future__ import annotations

import heapq
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from profiler.serving.records import Load, Request, StepEnd, clock

LISTEN_SECONDS = 0.1
BEGIN_SECONDS = 0.2  # until the first speaker begins


@dataclass(frozen=True)
class Piece:
    """What a speaker sends at once."""

    item: int
    seconds: float  # of audio
    after: float  # seconds from the start of a turn until it is due
    counts: bool = True  # whether a result of its own is waited for


@dataclass(frozen=True)
class Turn:
    """What a speaker says, over and over, from another piece on than the others."""

    pieces: Sequence[Piece]
    seconds: float
    starts: Sequence[int] = (0,)  # pieces with which a speaker may begin


class Speakers:
    """So many speakers for so many seconds, or results."""

    def __init__(self, load: Load, turn: Turn, submit: Callable[..., None], kept: bool) -> None:
        self.load, self.turn, self.submit = load, turn, submit
        self.kept = kept  # whether a worker keeps the state of a speaker
        self.issued = self.results = self.late = 0
        self._open: dict[int, float] = {}  # number -> since when a result is due

    def finished(self, request: Request) -> None:
        self._open.pop(request.number, None)
        self.results += 1
        self.late += request.status != "ok" or request.done - request.due > self.load.limit

    def run(self, listen: Callable[[], None]) -> StepEnd:
        start, last = clock() + BEGIN_SECONDS, 0.0
        chance = random.Random(self.load.seed)
        gap = max(piece.seconds for piece in self.turn.pieces if piece.counts)
        ways = [self._pieces(start + chance.random() * gap, chance) for _ in range(int(self.load.load))]
        coming = [(*next(way), number) for number, way in enumerate(ways)]
        heapq.heapify(coming)
        end = start + self.load.seconds
        while coming[0][0] < end and self.issued < self.load.requests:
            due, piece, number = coming[0]
            heapq.heapreplace(coming, (*next(ways[number]), number))
            while (left := due - clock()) > 0:
                if clock() - last > LISTEN_SECONDS and left > LISTEN_SECONDS / 10:
                    listen()
                    last = clock()
                time.sleep(max(0.0, min(due - clock(), LISTEN_SECONDS)))
            if clock() - last > LISTEN_SECONDS:  # also where pieces come close together
                listen()
                last = clock()
            if self._hopeless():
                return StepEnd(stopped="more results were late than the limit allows")
            found = self.turn.pieces[piece]
            stream = number if self.kept else -1
            if found.counts:
                self._open[self.issued] = due
            self.submit(Request(self.issued if found.counts else -1, found.item, found.seconds, due, clock(), stream))
            self.issued += found.counts
        given_up = clock() + self.load.timeout + 2 * LISTEN_SECONDS
        while self.results < self.issued and clock() < given_up:
            time.sleep(LISTEN_SECONDS / 2)
            listen()
        return StepEnd()

    def _hopeless(self) -> bool:
        if self.load.allowed is None:
            return False
        latest = clock() - self.load.limit
        return self.late + sum(due < latest for due in list(self._open.values())) > self.load.allowed

    def _pieces(self, begin: float, chance: random.Random) -> Iterator[tuple[float, int]]:
        """(when, which piece) of one speaker, without end."""
        first = chance.choice(self.turn.starts)
        before = self.turn.pieces[first - 1].after if first else 0.0
        turn = begin - before
        while True:
            for number in range(first, len(self.turn.pieces)):
                yield turn + self.turn.pieces[number].after, number
            turn += self.turn.seconds
            first = 0
