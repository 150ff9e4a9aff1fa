"""Request -> loaded model: decides between pretrained and random weights, and says what was decided.

Runs in a worker process. The order: a local folder, the local cache, the hub where it can be reached, random weights of
the described architecture.
"""

from __future__ import annotations

from profiler.errors import ModelError
from profiler.models import hub
from profiler.models.model import Model, ModelRequest
from profiler.models.registry import Adapter, adapter_for

HOW_TO_GET = (
    "On a machine with network, load it once with its library (it stays in the cache, see HF_HOME), or copy its "
    "folder here and set pretrained_model.source to that folder"
)


def load_model(request: ModelRequest) -> Model:
    """The model that a recipe asks for, in evaluation mode on its device."""
    adapter = adapter_for(request.type)
    where, reason = _find_weights(adapter, request)
    if where is None and request.weights == "pretrained":
        raise ModelError(f"No pretrained weights of {request.source}: {reason}. {HOW_TO_GET}.")
    if where is not None:
        model = adapter.load_pretrained(request, where)
        model.weights = "pretrained"
    else:
        model = _build_random(adapter, request, reason)
        if request.weights == "auto" and adapter.DESCRIPTION_FILE is not None:
            model.notes.insert(0, f"{request.source}: {reason}; using random weights of the same architecture.")
    model.module.eval()
    return model


def build_for_counting(request: ModelRequest) -> Model:
    """The described architecture on the meta device: exact counts, no memory, no time."""
    import torch

    adapter = adapter_for(request.type)
    with torch.device("meta"):
        return _build_random(adapter, request, "only counted")


def _find_weights(adapter: Adapter, request: ModelRequest) -> tuple[str | None, str]:
    """Where the weights are, or None with the reason."""
    if request.weights == "random":
        return None, "the recipe asks for random weights"
    if adapter.DESCRIPTION_FILE is None:
        return None, "a class comes without weights"
    if request.folder is not None:
        if adapter.has_weights(request.folder):
            return str(request.folder), ""
        return None, f"the folder {request.folder} holds no weights"
    cached = hub.cached_folder(request.source, adapter.DESCRIPTION_FILE)
    if cached is not None and adapter.has_weights(cached):
        hub.stay_offline()
        return request.source, ""
    if hub.is_reachable():
        return request.source, ""
    return None, "the weights are not in the local cache and the hub cannot be reached"


def _build_random(adapter: Adapter, request: ModelRequest, reason: str) -> Model:
    import torch

    folder = request.architecture or request.folder
    if folder is None and adapter.DESCRIPTION_FILE is not None:
        raise ModelError(
            f"No weights of {request.source} ({reason}) and no architecture to build with random ones. {HOW_TO_GET}, "
            "or set pretrained_model.architecture to a folder that describes it "
            f"({adapter.DESCRIPTION_FILE} of {adapter.LIBRARY})."
        )
    if adapter.DESCRIPTION_FILE is not None:  # a user's own class may fetch what it likes
        hub.stay_offline()
    torch.manual_seed(request.seed)
    model = adapter.build_random(request, folder)
    model.weights = "random"
    return model
