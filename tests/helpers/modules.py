"""Modules of known behaviour, for recipes with `type: Module`: tests copy this file beside the recipe."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import torch


class Nothing(torch.nn.Module):
    """Does nothing."""

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        return waveforms


class Sleeper(torch.nn.Module):
    """Takes a time that is known: so long for each second of audio in the batch."""

    def __init__(self, per_second: float = 0.01, fixed: float = 0.0) -> None:
        super().__init__()
        self.per_second = per_second
        self.fixed = fixed

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        time.sleep(self.fixed + self.per_second * waveforms.numel() / 16000)
        return waveforms


class Held(torch.nn.Module):
    """Stands still once all its processes together have made so many calls as a file says, until that says more."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = Path(folder)

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        with (self.folder / "calls").open("ab") as file:
            file.write(b".")
            calls = file.tell()
        while calls > int((self.folder / "most").read_text()):
            time.sleep(0.02)
        return waveforms


class Slow(Sleeper):
    """Holds so many megabytes while it sleeps."""

    def __init__(self, per_second: float = 0.01, megabytes: int = 1) -> None:
        super().__init__(per_second)
        self.megabytes = megabytes

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        held = torch.ones(self.megabytes << 18)
        super().forward(waveforms)
        return waveforms * held[0]


class Sharing(Sleeper):
    """Writes to a file, once per process, how many bytes of its 32 MB of weights that shares with its parent."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self.file = file
        self.weight = torch.nn.Parameter(torch.ones(8 << 20))
        self.process = 0

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        if self.process != os.getpid():
            self.process = os.getpid()
            with Path(self.file).open("a") as file:
                file.write(f"{shared_with_parent(self.weight.data_ptr())}\n")
        return super().forward(waveforms)


def shared_with_parent(address: int) -> int:
    """Bytes of the mapping that holds this address."""
    there = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if mapping := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            there = int(mapping[1], 16) <= address < int(mapping[2], 16)
        elif there and line.startswith("Shared_Dirty:"):
            return int(line.split()[1]) << 10
    raise LookupError(hex(address))


class Trouble(Sleeper):
    """Works, except for audio of `at` seconds: then it does `what`."""

    def __init__(self, what: str, at: float, per_second: float = 0.01) -> None:
        super().__init__(per_second)
        self.what = what
        self.samples = round(at * 16000)

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        if waveforms.shape[1] == self.samples:
            if self.what == "raise":
                raise RuntimeError("the model does not like this length")
            if self.what == "stop":
                self.stop_once()
                return super().forward(waveforms)
            if self.what == "hang":
                time.sleep(3600)
            if self.what == "memory":
                self.hoard = [torch.empty(1 << 24) for _ in range(4096)]  # a limit counts what is asked for
            os.kill(os.getpid(), getattr(signal, self.what))
        return super().forward(waveforms)

    def stop_once(self) -> None:
        """Be stopped for a second in the fourth call of a process, as by a debugger or `kill -STOP`."""
        self.calls = getattr(self, "calls", 0) + 1
        if self.calls == 4:
            subprocess.Popen(["sh", "-c", f"sleep 1; kill -CONT {os.getpid()}"])
            os.kill(os.getpid(), signal.SIGSTOP)


class Hungry(torch.nn.Module):
    """Holds a known number of megabytes of tensors for each second of audio in the batch, then frees them."""

    def __init__(self, megabytes_per_second: float = 100.0) -> None:
        super().__init__()
        self.megabytes_per_second = megabytes_per_second

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        size = int(self.megabytes_per_second * 1e6 * waveforms.numel() / 16000 / 4)
        torch.ones(size)
        return waveforms


class Caching(torch.nn.Module):
    """Answers an input it has just seen from memory."""

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        if getattr(self, "seen", None) is not waveforms:
            time.sleep(0.02)
        else:
            time.sleep(0.002)
        self.seen = waveforms
        return waveforms


class Threaded(torch.nn.Module):
    """Computes in a thread of its own."""

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        kept: list[torch.Tensor] = []
        thread = threading.Thread(target=lambda: kept.append(waveforms * 2))
        thread.start()
        thread.join()
        return kept[0]


class Part(torch.nn.Module):
    """Takes a known time, and notes in a file, with its process, whether anyone watches the calls of modules."""

    def __init__(self, seconds: float, notes: str | None = None) -> None:
        super().__init__()
        self.seconds = seconds
        self.notes = notes

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        if self.notes is not None:
            watched = torch.nn.modules.module._global_forward_hooks
            with Path(self.notes).open("a") as file:
                file.write(f"{os.getpid()} {'watched' if watched else 'bare'}\n")
        time.sleep(self.seconds)
        return waveforms


class Parts(torch.nn.Module):
    """An encoder of two layers and a head: three parts, of which a layer takes three times as long as the head."""

    def __init__(self, seconds: float = 0.004, notes: str | None = None) -> None:
        super().__init__()
        self.encoder = torch.nn.Sequential(Part(3 * seconds), Part(3 * seconds))
        self.head = Part(seconds, notes)

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.head(self.encoder(waveforms))
        return output


class Talker(torch.nn.Module):
    """Writes a word for each fifth of a second of a row; ends the process on a row of `deadly` seconds or more."""

    WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

    def __init__(self, deadly: float = 1e9, loud: bool = False, pause: float = 0.0) -> None:
        super().__init__()
        self.learned = torch.nn.Parameter(torch.zeros(1))
        self.deadly = deadly
        self.loud = loud
        self.pause = pause

    def forward(self, waveforms: torch.Tensor, lengths: torch.Tensor) -> list[str]:
        time.sleep(self.pause)
        if waveforms.shape[1] >= self.deadly * 16000:
            os.kill(os.getpid(), signal.SIGKILL)
        texts = [" ".join(self.WORDS[: round(length / 3200)]) for length in lengths.tolist()]
        return [text.upper() + "!" for text in texts] if self.loud else texts


class Chancy(torch.nn.Module):
    """Takes anything from one to nine milliseconds, by chance."""

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        time.sleep(random.uniform(0.001, 0.009))
        return waveforms


class Tagger(torch.nn.Module):
    """Frames of 20 ms through a linear layer, an activation and a head; beside them, what no engine is given."""

    def __init__(self) -> None:
        super().__init__()
        self.tagger = torch.nn.Sequential(torch.nn.Linear(320, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        loudness = torch.stft(waveforms, 64, window=torch.ones(64), return_complex=True).abs().mean()
        return self.tagger(waveforms.unflatten(1, (-1, 320)).contiguous()) * loudness
