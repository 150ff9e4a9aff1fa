"""In what form a library's models come: a folder or hub id, a file, or a name.

An adapter says its format; from that follow the check of `source` before anything heavy starts, where the weights are,
and what describes the model when there are none. No model library is imported here.

Whether a hub model is available is decided quickly: the local cache first, then one look at the network. Waiting for
retries without a network is a bug: the look has a deadline, whatever name servers or proxies do.
"""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.errors import ModelError
from profiler.shipped import shipped_architecture
from profiler.user_path import user_path

if TYPE_CHECKING:
    from profiler.models.model import ModelRequest

HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*(/[\w.-]+)?$")
DEADLINE_SECONDS = 3.0
HOW_TO_GET = (
    "On a machine with network, load it once with its library (it stays in the cache, see HF_HOME), or copy its "
    "folder here and set pretrained_model.source to that folder"
)


@dataclass(frozen=True)
class Found:
    """Where the weights of a model are, as the library's loading code takes it; or None, and why."""

    where: str | None
    reason: str = ""


class Format:
    """What every format answers. As it is here: a name alone, and weights where the recipe names a checkpoint."""

    weights_only = False  # there is no description apart from the weights

    def check(self, source: str, kind: str, base: Path) -> None:
        """Raise ModelError unless `source` can be a model of this format. Looks at files only."""

    def find(self, request: ModelRequest) -> Found:
        """Where the weights are. Called in a worker, unless the recipe asks for random ones."""
        return Found(str(request.checkpoint) if request.checkpoint else None)

    def description(self, request: ModelRequest, reason: str) -> Path | None:
        """The folder that describes the model, for building it without weights; None where none is needed."""
        return None


@dataclass(frozen=True)
class Folder(Format):
    """A folder with a description file and weights beside it, on this machine or on the hub."""

    library: str
    file: str  # the description, such as config.json
    weights: tuple[str, ...]  # patterns of files that hold weights

    def check(self, source: str, kind: str, base: Path) -> None:
        folder = local_folder(source, base)
        if folder is not None:
            if not (folder / self.file).is_file():
                raise ModelError(
                    f"the folder {folder} holds no model: expected {self.file} in it for the interface {kind}"
                )
        elif looks_like_a_path(source):
            raise ModelError(f"there is no folder {user_path(source, base)}")
        elif not HUB_ID.match(source):
            raise ModelError(f"'{source}' is neither a folder nor a hub id such as facebook/wav2vec2-base-960h")

    def has_weights(self, folder: Path) -> bool:
        return any(next(folder.glob(pattern), None) for pattern in self.weights)

    def find(self, request: ModelRequest) -> Found:
        if request.folder is not None:
            if self.has_weights(request.folder):
                return Found(str(request.folder))
            return Found(None, f"the folder {request.folder} holds no weights")
        cached = cached_folder(request.source, self.file)
        if cached is not None and self.has_weights(cached):
            stay_offline()
            return Found(request.source)
        if hub_is_reachable():
            return Found(request.source)
        return Found(None, "the weights are not in the local cache and the hub cannot be reached")

    def description(self, request: ModelRequest, reason: str) -> Path | None:
        folder = request.architecture or request.folder
        if folder is None:
            raise ModelError(
                f"No weights of {request.source} ({reason}) and no architecture to build with random ones. "
                f"{HOW_TO_GET}, or set pretrained_model.architecture to a folder that describes it "
                f"({self.file} of {self.library})."
            )
        stay_offline()
        return folder


@dataclass(frozen=True)
class File(Format):
    """One file that holds description and weights."""

    suffixes: tuple[str, ...]
    what: str  # for messages: "a TorchScript file"
    weights_only = True

    def check(self, source: str, kind: str, base: Path) -> None:
        path = user_path(source, base)
        if path.is_dir():
            raise ModelError(f"{path} is a folder; name {self.what} ({', '.join(self.suffixes)})")
        if not path.is_file():
            raise ModelError(f"there is no file {path}; the interface {kind} takes {self.what}")

    def find(self, request: ModelRequest) -> Found:
        return Found(str(request.file))

    def description(self, request: ModelRequest, reason: str) -> Path | None:
        raise ModelError(f"{request.source} is {self.what} and cannot be built without its weights ({reason})")


def looks_like_a_path(source: str) -> bool:
    return source.startswith((".", "/", "~")) or source.endswith("/") or source.count("/") > 1


def local_folder(source: str, base: Path) -> Path | None:
    """The folder that `source` names, relative to the recipe, if there is one."""
    folder = user_path(source, base).resolve()
    return folder if folder.is_dir() else None


def local_file(source: str, base: Path) -> Path | None:
    """The file that `source` names, relative to the recipe, if there is one."""
    file = user_path(source, base).resolve()
    return file if file.is_file() else None


def architecture_folder(architecture: str | None, source: str, base: Path) -> Path | None:
    """Where the model is described: the folder the recipe names, else the shipped one named like the source."""
    if architecture is not None:
        return local_folder(architecture, base)
    return shipped_architecture(source.rstrip("/").rsplit("/", 1)[-1])


def cached_folder(source: str, filename: str) -> Path | None:
    """The folder in the local cache that holds the description file of a hub model."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(source, filename)
    except HFValidationError:
        return None
    return Path(found).parent if isinstance(found, str) else None


def fetch(source: str, filename: str) -> Path | None:
    """One file of a hub model, downloaded; None where there is none."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return Path(hf_hub_download(source, filename))
    except (HfHubHTTPError, HFValidationError, OSError):
        return None


def stay_offline() -> None:
    """From here on no library looks at the network in this process, not even for one file of many."""
    from huggingface_hub import constants

    os.environ["HF_HUB_OFFLINE"] = "1"
    constants.HF_HUB_OFFLINE = True


def hub_is_reachable() -> bool:
    """True when the hub answers within the deadline. Honours HF_HUB_OFFLINE, HF_ENDPOINT and proxy settings."""
    from huggingface_hub import constants

    return not constants.HF_HUB_OFFLINE and answers(constants.ENDPOINT)


def answers(url: str) -> bool:
    """True when a host answers within the deadline, whatever it says."""
    import requests

    heard: list[bool] = []

    def ask() -> None:
        try:
            requests.head(url, timeout=DEADLINE_SECONDS)
            heard.append(True)
        except requests.RequestException:
            heard.append(False)

    # A thread, because looking up a name can hang past any timeout given to the request.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(DEADLINE_SECONDS)
    return bool(heard and heard[0])
