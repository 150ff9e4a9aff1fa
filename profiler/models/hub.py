"""Whether a hub model can be had, decided quickly: the local cache first, then one look at the network.

Waiting for retries without a network is a bug: the look has a deadline, whatever name servers or proxies do.
"""

from __future__ import annotations

import threading

DEADLINE_SECONDS = 3.0


def is_cached(source: str, filename: str) -> bool:
    """True when the description file of a hub model is in the local cache."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        return isinstance(try_to_load_from_cache(source, filename), str)
    except HFValidationError:
        return False


def is_reachable() -> bool:
    """True when the hub answers within the deadline. Honours HF_HUB_OFFLINE, HF_ENDPOINT and proxy settings."""
    import requests
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    answers: list[bool] = []

    def ask() -> None:
        try:
            requests.head(constants.ENDPOINT, timeout=DEADLINE_SECONDS)
            answers.append(True)
        except requests.RequestException:
            answers.append(False)

    # A thread, because looking up a name can hang past any timeout given to the request.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(DEADLINE_SECONDS)
    return bool(answers and answers[0])
