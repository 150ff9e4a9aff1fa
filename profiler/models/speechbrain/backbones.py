"""Lets SpeechBrain's parts be built where it does not expect it: without weights, without network, without memory."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WEIGHTS = ("*.ckpt", "*.pt", "*.safetensors", "*.bin")  # what holds weights in a folder that SpeechBrain loads from


@contextmanager
def backbones_without_weights(even_if_there: bool = False) -> Iterator[None]:
    """Let SpeechBrain's transformers backbones be built from a local folder that has a config.json but no weights.

    SpeechBrain always loads a backbone's own weights, even when the model's checkpoint replaces them right after.
    Folders that do hold weights take SpeechBrain's own path, unless random ones are wanted; so do hub ids.
    """
    try:
        if importlib.util.find_spec("speechbrain.integrations"):
            from speechbrain.integrations.huggingface.huggingface import HFTransformersInterface
        else:  # SpeechBrain 1.0
            from speechbrain.lobes.models.huggingface_transformers.huggingface import HFTransformersInterface
    except ImportError:  # transformers is not installed: no such backbone can be asked for
        yield
        return
    from transformers import dynamic_module_utils

    dynamic_module_utils.TIME_OUT_REMOTE_CODE = 0  # a model's own code is refused, and nobody is asked about it
    original = HFTransformersInterface._from_pretrained

    def from_description(
        self: Any, source: str, save_path: str, cache_dir: str, device: Any = None, **more: Any
    ) -> None:
        folder = Path(source)
        has_weights = any(next(folder.glob(pattern), None) for pattern in WEIGHTS)
        if not folder.is_dir() or (has_weights and not even_if_there):
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
def network_for_files(allowed: bool) -> Iterator[dict[str, Any]]:
    """What `from_hparams` is given so that SpeechBrain fetches no file of a model from elsewhere, unless it may.

    SpeechBrain 1.0 cannot be told: meanwhile the default of its function that fetches is another one.
    """
    from speechbrain.utils import fetching

    if hasattr(fetching, "FetchConfig"):
        yield {"fetch_config": fetching.FetchConfig(allow_network=allowed)}
        return
    original = fetching.fetch.__defaults__
    names = list(inspect.signature(fetching.fetch).parameters)[-len(original) :]
    defaults = zip(names, original, strict=True)
    fetching.fetch.__defaults__ = tuple(allowed if name == "allow_network" else value for name, value in defaults)
    try:
        yield {}
    finally:
        fetching.fetch.__defaults__ = original


@contextmanager
def data_on_cpu() -> Iterator[None]:
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
