"""The parent's side of a worker in another environment (standalone_worker.py): how it is started, and its audio.

Such a worker has no package to read audio with. It asks for each input of a job when it needs it, and gets a file of
raw float32: what a worker of ours would have made itself, from the same seeds.
"""

from __future__ import annotations

import os
from pathlib import Path

from profiler.audio import Batch, Speech, pad
from profiler.environment import worker_environment
from profiler.errors import AudioError, ModelError
from profiler.execution.batches import read_rows
from profiler.execution.channel import AnyJob, AudioGiven, CellJob, DatasetJob
from profiler.temporary import TemporaryFolder

PROGRAM = Path(__file__).with_name("standalone_worker.py")


def environment(threads: int, waiting_sleep: bool = False) -> dict[str, str]:
    """As for every worker, without the way to this package: its files may not get in the way of others'."""
    made = worker_environment(threads, trust=True, waiting_sleep=waiting_sleep)
    given = os.environ.get("PYTHONPATH")
    made.pop("PYTHONPATH")
    return made if given is None else {**made, "PYTHONPATH": given}


class AudioFiles:
    """Makes the inputs of jobs for one worker, each in the place of the one before."""

    def __init__(self) -> None:
        self._folder = TemporaryFolder()
        self._speech: Speech | None = None

    def begin(self, audio: Path | None, rate: int) -> None:
        """Once the model is loaded, and with it the rate that it wants."""
        self._speech = Speech(audio, rate)

    def give(self, job: AnyJob, number: int) -> AudioGiven:
        """The input that the worker asks for, or why there is none."""
        try:
            return self._made(job, number)
        except (AudioError, RuntimeError, OSError, LookupError) as error:
            return AudioGiven(failed=str(error))

    def _made(self, job: AnyJob, number: int) -> AudioGiven:
        speech = self._speech
        if speech is None:
            raise ModelError("the worker asked for audio before its model was loaded")
        if isinstance(job, CellJob):
            return self._written(speech.batch(job.seconds, job.batch_size, job.seed + number, job.padding))
        assert isinstance(job, DatasetJob)
        work = next(work for work in job.batches if work.number == number)
        rows, unreadable = read_rows(work.utterances, speech, job.seed, job.skip_unreadable)
        if not rows:
            return AudioGiven(unreadable=unreadable)
        return self._written(pad(list(rows.values()), speech.rate), list(rows), unreadable)

    def _written(
        self, batch: Batch, ids: list[str] | None = None, unreadable: dict[str, str] | None = None
    ) -> AudioGiven:
        path = self._folder.path / "audio.f32"
        batch.waveforms.tofile(path)
        return AudioGiven(
            path=path,
            rate=batch.rate,
            samples=batch.waveforms.shape[1],
            lengths=batch.lengths.tolist(),
            seconds_of_audio=batch.seconds_of_audio,
            share_of_padding=batch.share_of_padding,
            ids=ids or [],
            unreadable=unreadable or {},
        )

    def remove(self) -> None:
        self._folder.remove()
