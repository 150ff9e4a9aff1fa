"""Adapter for SpeechBrain: its inference interfaces, on a hub id or a folder with hyperparams.yaml.

The timed region is the interface's own batch method, from waveforms in memory to text.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.errors import ModelError
from profiler.models.model import Model, ModelRequest, refuse_longer
from profiler.models.reasons import reason
from profiler.models.torchaudio_on_cpu import ensure_torchaudio
from profiler.recipe.calls import to_yaml

if TYPE_CHECKING:
    from profiler.audio import Batch

LIBRARY = "speechbrain"
DESCRIPTION_FILE = "hyperparams.yaml"

# Interface -> its module in speechbrain.inference, the batch method that is timed, and what comes out.
INTERFACES = {
    "EncoderASR": ("ASR", "transcribe_batch", "text"),
    "EncoderDecoderASR": ("ASR", "transcribe_batch", "text"),
    "WhisperASR": ("ASR", "transcribe_batch", "text"),
}


def interfaces() -> tuple[str, ...]:
    return tuple(INTERFACES)


def has_weights(folder: Path) -> bool:
    return any(next(folder.glob(pattern), None) for pattern in ("*.ckpt", "*.pt", "*.safetensors", "*.bin"))


def load_pretrained(request: ModelRequest, source: str) -> Model:
    ensure_torchaudio()
    from speechbrain.utils.fetching import FetchConfig, LocalStrategy

    folder = request.folder
    with _backbones_without_weights():
        try:
            interface = _interface_class(request.type).from_hparams(
                source=source,
                savedir=None,
                overrides=_overrides(request, folder),
                local_strategy=LocalStrategy.NO_LINK,  # nothing is linked or copied into the user's folders
                fetch_config=FetchConfig(allow_network=folder is None),
                run_opts={"device": request.device},
                freeze_params=False,  # so that trainable parameters are counted as the model defines them
            )
        except MemoryError:
            raise
        except Exception as error:  # a description may call any library, each with errors of its own
            raise ModelError(f"SpeechBrain cannot load {source} as {request.type}: {reason(error)}") from error
    return _wrap(interface, request)


def build_random(request: ModelRequest, folder: Path | None) -> Model:
    assert folder is not None
    ensure_torchaudio()
    import torch
    from hyperpyyaml import load_hyperpyyaml

    with _backbones_without_weights(even_if_there=True), _data_on_cpu():
        try:
            with (folder / DESCRIPTION_FILE).open(encoding="utf-8") as file:
                hparams = load_hyperpyyaml(file, _overrides(request, folder))
            device = "meta" if torch.empty(0).is_meta else request.device
            interface = _interface_class(request.type)(
                modules=hparams["modules"], hparams=hparams, run_opts={"device": device}, freeze_params=False
            )
        except MemoryError:
            raise
        except Exception as error:
            raise ModelError(f"SpeechBrain cannot build {folder} as {request.type}: {reason(error)}") from error
    return _wrap(interface, request, pin_steps=True)


def _interface_class(name: str) -> Any:
    module = importlib.import_module(f"speechbrain.inference.{INTERFACES[name][0]}")
    return getattr(module, name)


def _overrides(request: ModelRequest, folder: Path | None) -> str:
    """The recipe's overrides, and the folder's own place for files that a description points to, as YAML."""
    overrides = dict(request.overrides)
    if folder is not None and "\narchitecture_folder:" in (folder / DESCRIPTION_FILE).read_text(encoding="utf-8"):
        overrides["architecture_folder"] = str(folder)
    return to_yaml(overrides) if overrides else ""


def _wrap(interface: Any, request: ModelRequest, pin_steps: bool = False) -> Model:
    import torch

    _, method, output = INTERFACES[request.type]
    for name in interface.MODULES_NEEDED:  # SpeechBrain itself notices only when the interface is called
        if name not in interface.mods:
            raise ModelError(f"{request.source} is no {request.type}: it has no module `{name}`.")
    call = getattr(interface, method)
    rate = int(getattr(interface.hparams, "sample_rate", 16000))
    notes = []
    pin = None
    if pin_steps:
        pin = _PinnedSteps(interface, request.tokens_per_second)
        if pin.searchers:
            notes.append(
                f"With random weights the decoder is made to take {request.tokens_per_second:g} steps per second of "
                "audio, as it does on speech."
            )

    longest = getattr(interface.mods["whisper"], "_n_samples", None) if "whisper" in interface.mods else None

    def prepare(batch: Batch) -> tuple[Any, Any]:
        refuse_longer(batch, longest)
        lengths = torch.from_numpy(batch.lengths / batch.waveforms.shape[1]).float()
        return torch.from_numpy(batch.waveforms), lengths

    def run(value: tuple[Any, Any]) -> Any:
        waveforms, lengths = value
        if pin is not None:
            pin.seconds = waveforms.shape[1] / rate
        return call(waveforms, lengths)[0]

    return Model(interface, prepare, run, output, rate, _components(interface), notes)


def _components(interface: Any) -> dict[str, Any]:
    """The entries of `modules`; where a single one holds all parameters, its own parts."""
    parts = {name: module for name, module in interface.mods.items() if module is not None}
    bearing = [module for module in parts.values() if next(module.parameters(), None) is not None]
    if len(bearing) == 1 and len(list(bearing[0].children())) > 1:
        return dict(bearing[0].named_children())
    return parts


class _PinnedSteps:
    """Makes attention decoders with unlearned weights take as many steps as speech of that length would need.

    Unlearned weights never end a sentence by themselves: the search would run to its cap, one step a frame, several
    times as many as on speech.
    """

    def __init__(self, interface: Any, tokens_per_second: float) -> None:
        self.tokens_per_second = tokens_per_second
        self.seconds = 0.0
        self.searchers = [
            module
            for module in interface.modules()
            if hasattr(module, "min_decode_ratio") and hasattr(module, "max_decode_ratio")
        ]
        for searcher in self.searchers:
            searcher.register_forward_pre_hook(self._pin)
            if not _is_beam_search(searcher):
                _forbid_ending(searcher)

    def _pin(self, searcher: Any, arguments: tuple[Any, ...]) -> None:
        frames = arguments[0].shape[1]
        steps = max(1, math.ceil(self.seconds * self.tokens_per_second))
        # The searcher truncates ratio x frames to whole steps: half a step more keeps rounding from losing one.
        searcher.max_decode_ratio = (steps + 0.5) / frames
        # Greedy search has no lower limit: it starts counting at this ratio.
        searcher.min_decode_ratio = searcher.max_decode_ratio if _is_beam_search(searcher) else 0.0


def _is_beam_search(searcher: Any) -> bool:
    return hasattr(searcher, "beam_size")


def _forbid_ending(searcher: Any) -> None:
    """Greedy search ends when all rows have ended, whatever its lower limit: make that token impossible."""
    original = searcher.forward_step

    def forward_step(*arguments: Any, **more: Any) -> Any:
        logits, *rest = original(*arguments, **more)
        logits[..., searcher.eos_index] = -math.inf
        return (logits, *rest)

    searcher.forward_step = forward_step


@contextmanager
def _backbones_without_weights(even_if_there: bool = False) -> Iterator[None]:
    """Let SpeechBrain's transformers backbones be built from a local folder that has a config.json but no weights.

    SpeechBrain always loads a backbone's own weights, even when the model's checkpoint replaces them right after.
    Folders that do hold weights take SpeechBrain's own path, unless random ones are wanted; so do hub ids.
    """
    try:
        from speechbrain.integrations.huggingface.huggingface import HFTransformersInterface
    except ImportError:  # transformers is not installed: no such backbone can be asked for
        yield
        return
    original = HFTransformersInterface._from_pretrained

    def from_description(
        self: Any, source: str, save_path: str, cache_dir: str, device: Any = None, **more: Any
    ) -> None:
        folder = Path(source)
        if not folder.is_dir() or (has_weights(folder) and not even_if_there):
            original(self, source, save_path, cache_dir, device=device, **more)
            return
        unknown = [name for name in more if not hasattr(self.config, name)]
        if unknown:
            raise ValueError(f"the backbone's config.json has no `{unknown[0]}`")
        self.config.update(more)
        self.model = self.auto_class.from_config(self.config)
        if device is not None:
            self.model.to(device)

    HFTransformersInterface._from_pretrained = from_description
    try:
        yield
    finally:
        HFTransformersInterface._from_pretrained = original


@contextmanager
def _data_on_cpu() -> Iterator[None]:
    """Keep `torch.tensor(values)` on the CPU while a model is built on the meta device.

    SpeechBrain's recurrent layers work out sizes with `torch.tensor(shape).item()`, which has no value on meta.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    if not torch.empty(0).is_meta:
        yield
        return

    class DataOnCpu(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if func is torch.tensor:
                kwargs.setdefault("device", "cpu")
            return func(*args, **kwargs)

    with DataOnCpu():
        yield
