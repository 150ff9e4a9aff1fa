"""Adapter for Silero VAD: the pretrained model that the package silero-vad brings along, no download.

    pretrained_model: {source: silero_vad, type: SileroVAD}

The timed region is the package's own loop over windows of 32 ms, from waveforms to a probability of speech for each
window; the state goes from window to window, and each window is timed as a chunk. For ONNX Runtime the package brings a
file of its own, which takes the place of the network. (OpenVINO does not read that file, and the one that the package
has for it is for one recording at a time.)
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.errors import ModelError
from profiler.models.formats import Format, Found
from profiler.models.model import Chunks, Model, ModelRequest, OwnExport
from profiler.models.registry import Needs

if TYPE_CHECKING:
    from collections.abc import Callable

    from profiler.audio import Batch

LIBRARY = "silero-vad"
NEEDS = Needs(("silero_vad",), 'pip install "speech-profiler[silero]"')
SOURCE = "silero_vad"
RATE = 16000
WINDOW = 512  # samples; the model takes no other length at this rate
CONTEXT, STATE = 64, 128  # samples before a window that the network sees again; numbers of its state
ONNX = "silero_vad_16k_op15.onnx"  # of any batch size


class Package(Format):
    """Weights that lie in an installed package."""

    weights_only = True

    def check(self, source: str, kind: str, base: Path) -> None:
        if source != SOURCE:
            raise ModelError(f"'{source}': the interface {kind} has one model; set source: {SOURCE}")

    def find(self, request: ModelRequest) -> Found:
        spec = importlib.util.find_spec(SOURCE)
        folder = Path(spec.origin).parent if spec is not None and spec.origin else None
        if folder is None:
            raise ModelError(f"The weights are part of {LIBRARY}, which is not installed. Install it: {NEEDS.install}")
        return Found(str(folder / "data" / "silero_vad.jit"))

    def description(self, request: ModelRequest, reason: str) -> Path | None:
        raise ModelError(f"The weights of {SOURCE} come with its package, and it is only as such; set weights: auto.")


INTERFACES = ("SileroVAD",)
FORMAT = Package()


def load_pretrained(request: ModelRequest, source: str) -> Model:
    import torch

    if request.overrides:
        raise ModelError(f"pretrained_model.overrides: {SOURCE} has no configuration to override.")
    model = _load(source, request.device)

    def prepare(batch: Batch) -> Any:
        missing = -batch.waveforms.shape[1] % WINDOW
        return torch.nn.functional.pad(torch.from_numpy(batch.waveforms), (0, missing))

    chunks = Chunks(WINDOW / RATE, 0.0)

    def over_windows(step: Callable[[Any], Any], waveforms: Any) -> Any:
        found = []
        for window in waveforms.split(WINDOW, dim=1):
            before = time.perf_counter()
            found.append(step(window.to(request.device)).cpu())
            chunks.times.append(time.perf_counter() - before)
        return torch.cat(found, dim=1)

    def run(waveforms: Any) -> Any:
        model.reset_states()
        return over_windows(lambda window: model(window, RATE), waveforms)

    class Network(torch.nn.Module):  # type: ignore[misc]
        """What the package's script calls for a window: with samples, state and rate, as its ONNX file takes them."""

        def __init__(self) -> None:
            super().__init__()
            self.network = used

        def forward(self, samples: Any, state: Any, rate: Any) -> Any:
            return self.network(samples, state)

    def run_network(waveforms: Any) -> Any:
        """The same as `run`, with what the script does around its network done here."""
        rows, rate = waveforms.shape[0], torch.tensor(RATE)
        state, context = torch.zeros(2, rows, STATE), torch.zeros(rows, CONTEXT)

        def step(window: Any) -> Any:
            nonlocal state, context
            samples = torch.cat([context, window], dim=1)
            context = samples[:, -CONTEXT:]
            chance, state = network(samples, state, rate)
            return chance

        return over_windows(step, waveforms)

    used, unused = model._model, model._model_8k
    network = Network()
    own = OwnExport(network, run_network, {"onnxruntime": Path(source).with_name(ONNX)})
    count = sum(parameter.numel() for parameter in unused.parameters())
    notes = [f"The package also loads a network for 8 kHz, of {count:,} parameters, which is not run and not counted."]
    parts = dict(used.named_children())
    beside = {"script": model}
    return Model(
        used, prepare, run, "speech probabilities", RATE, parts, notes, chunks=chunks, beside=beside, own_export=own
    )


def _load(file: str, device: str) -> Any:
    """The package's own loading. Importing it sets torch to one thread, which is not its to decide here."""
    import torch

    threads = torch.get_num_threads()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (DeprecationWarning, FutureWarning))
        from silero_vad.utils_vad import init_jit_model

        model = init_jit_model(file, torch.device(device))
    torch.set_num_threads(threads)
    return model
