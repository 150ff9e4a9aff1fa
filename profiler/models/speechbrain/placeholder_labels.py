"""Stand-in for a trained label encoder, for classifiers built with random weights.

The names of the classes come in the same download as the weights. A classifier that is built from its architecture
alone has neither, yet its timed region ends with a name. `PlaceholderLabels` numbers the classes (`class 17`), which
can never be mistaken for a language or a speaker.
"""

from __future__ import annotations

from typing import Any


class PlaceholderLabels:
    """Numbered classes behind the one method of a label encoder that SpeechBrain's classifiers call."""

    def decode_torch(self, indices: Any) -> list[str]:
        """A name for each of a row of class numbers, which is what a classifier finds for a batch."""
        return [f"class {int(index)}" for index in indices]
