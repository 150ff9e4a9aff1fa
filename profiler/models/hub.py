"""Whether a hub model is available, decided quickly: the local cache first, then one look at the network.

Waiting for retries without a network is a bug: the look has a deadline, whatever name servers or proxies do.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

DEADLINE_SECONDS = 3.0


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


def is_reachable() -> bool:
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
