"""'Did you mean ...?' for names that are close to a known one."""

from __future__ import annotations

import difflib

LIST_AT_MOST = 12  # longer lists of what is known help nobody


def nearest(word: str, known: list[str]) -> str:
    """' Did you mean `x`?' where something known is close, else the list of what is known."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if not close:
        by_lower = {name.lower(): name for name in known}
        close = [by_lower[name] for name in difflib.get_close_matches(word.lower(), list(by_lower), n=1)]
    if close:
        return f" Did you mean `{close[0]}`?"
    return f" Known here: {', '.join(known[:LIST_AT_MOST])}." if known else ""
