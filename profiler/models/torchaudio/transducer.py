"""torchaudio's RNN transducer (Emformer): features, encoder, and beam search to text, by the bundle's own parts.

Two ways, as its documentation has them: the whole utterance at once (type: RNNTBundle, or Bundle), and chunk by chunk
with the state carried on (type: RNNTStreaming), where each chunk is timed as well.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from profiler.errors import ModelError
from profiler.models.model import Chunks, Model, ModelRequest, refuse_unknown
from profiler.models.placeholder_tokens import PlaceholderTokens
from profiler.models.torchaudio.adapter import STREAMING, the_bundle
from profiler.training import tasks

if TYPE_CHECKING:
    from profiler.audio import Batch
    from profiler.recipe.schema import Training

BEAM_WIDTH = "beam_width"
DEFAULT_BEAM = 10  # as in torchaudio's examples
PENALTY = 1e6  # of what is not allowed; more than the scores of an hour of speech add up to

ONE_BY_ONE = "torchaudio's transducer search takes one utterance at a time: the rows of a batch follow one another."
NEUTRAL = (
    "The features' mean and spread come with the weights: without them the features are computed in the same way and "
    "left as they are; tokens are written as numbers."
)


def load(request: ModelRequest, pretrained: bool) -> Model:
    """The bundle with the recipe's overrides: keys of torchaudio's emformer_rnnt_model, and beam_width."""
    import torch

    bundle = the_bundle(request.source)
    params = _parameters(bundle)
    refuse_unknown(request.overrides, [*params, BEAM_WIDTH], request.source)
    params |= {name: value for name, value in request.overrides.items() if name != BEAM_WIDTH}
    beam = request.overrides.get(BEAM_WIDTH, DEFAULT_BEAM)
    if not isinstance(beam, int) or isinstance(beam, bool) or not 0 < beam < params["num_symbols"]:
        raise ModelError(
            f"pretrained_model.overrides: {BEAM_WIDTH} is {beam!r}; expected a whole number from 1 to the number of "
            "tokens"
        )
    bundle = _resized(bundle, params)
    notes = []
    if pretrained:
        search, text = bundle.get_decoder(), bundle.get_token_processor()
        features = _extractor(bundle, request)
    else:
        search = _pinned_search(bundle, request.tokens_per_second)
        text = _numbered(PlaceholderTokens(bundle._blank + 1))
        features = _neutral_extractor(bundle, request)
        notes += [NEUTRAL, _how_pinned(request)]
    search.to(request.device).eval()
    features.to(request.device)

    def begin(samples: int, chunks: int) -> Any:
        return None if pretrained else search.begin(samples / bundle.sample_rate, chunks)

    def prepare(batch: Batch) -> list[Any]:
        if request.type == STREAMING and len(batch.lengths) > 1:
            raise ModelError("a streaming ASR model takes one recording; set batch_sizes: [1]")
        rows = zip(batch.waveforms, batch.lengths, strict=True)
        return [torch.from_numpy(row[:length]) for row, length in rows]

    def recognise(rows: list[Any]) -> list[str]:
        found = []
        for row in rows:
            begin(len(row), 1)
            found.append(text(search(*features(row.to(request.device)), beam)[0][0]))
        return found

    step = bundle.segment_length * bundle.hop_length
    ahead = bundle.right_context_length * bundle.hop_length
    chunks = Chunks(step / bundle.sample_rate, ahead / bundle.sample_rate)

    def stream(rows: list[Any]) -> Iterator[str]:
        (row,) = rows
        due = begin(len(row), math.ceil(len(row) / step))
        state, hypotheses = None, None
        for start in range(0, len(row), step):
            if due is not None:
                search.pin = due  # of this stream, and not of one whose chunk came in between
            piece = row[start : start + step + ahead].to(request.device)
            piece = torch.nn.functional.pad(piece, (0, step + ahead - len(piece)))
            hypotheses, state = search.infer(*features(piece), beam, state=state, hypothesis=hypotheses)
            yield text(hypotheses[0][0])

    def transcribe_chunks(rows: list[Any]) -> list[str]:
        said, before = [""], time.perf_counter()
        for so_far in stream(rows):
            chunks.times.append(time.perf_counter() - before)
            said, before = [so_far], time.perf_counter()
        return said

    chunks.stream = stream

    def transducer(settings: Training) -> tasks.Task:
        def join(rows: list[Any], tokens: Any, lengths: Any) -> tuple[Any, Any]:
            found = [features(row.to(request.device)) for row in rows]
            # The extractor adds frames for the encoder to look ahead to, and counts them.
            frames = torch.stack([length.reshape(()) for _, length in found]) - bundle.right_context_length
            padded = torch.nn.utils.rnn.pad_sequence([values.flatten(0, -2) for values, _ in found], batch_first=True)
            scores, frames, _, _ = search.model(padded, frames, tokens.int(), lengths.int().to(request.device))
            return scores, frames.cpu()

        return tasks.transducer(join, bundle._blank + 1, bundle._blank, settings, request.device)

    streaming = request.type == STREAMING
    return Model(
        search,
        prepare,
        transcribe_chunks if streaming else recognise,
        "text",
        int(bundle.sample_rate),
        dict(search.model.named_children()),
        notes if streaming else [ONE_BY_ONE, *notes],
        chunks=chunks if streaming else None,
        beside={"features": features},
        trained_by={} if streaming else {"transducer": transducer},
    )


def _parameters(bundle: Any) -> dict[str, Any]:
    """The arguments with which the bundle's own factory calls torchaudio's general one."""
    from torchaudio.models import rnnt

    with mock.patch.object(rnnt, "emformer_rnnt_model", dict):
        found: dict[str, Any] = bundle._rnnt_factory_func()
    return found


def _resized(bundle: Any, params: dict[str, Any]) -> Any:
    from torchaudio.models.rnnt import emformer_rnnt_model

    return dataclasses.replace(
        bundle,
        _rnnt_factory_func=functools.partial(emformer_rnnt_model, **params),
        _n_mels=params["input_dim"],
        _blank=params["num_symbols"] - 1,  # the last, which the search relies on
        _segment_length=params["segment_length"],
        _right_context_length=params["right_context_length"],
        _right_padding=params["right_context_length"],
    )


def _extractor(bundle: Any, request: ModelRequest) -> Any:
    if request.type == STREAMING:
        return bundle.get_streaming_feature_extractor()
    return bundle.get_feature_extractor()


def _neutral_extractor(bundle: Any, request: ModelRequest) -> Any:
    """The bundle's own features, with a mean of 0 and a spread of 1 in the place of the file that it downloads."""
    import torch

    # Its filters are worked out with numbers, so they cannot be made on the meta device.
    with tempfile.TemporaryDirectory() as folder, torch.device("cpu"):
        file = Path(folder) / "statistics.json"
        file.write_text(json.dumps({"mean": [0.0] * bundle.n_mels, "invstddev": [1.0] * bundle.n_mels}))
        # A path from the root is taken as it is by torchaudio, and a file that is there is not downloaded.
        return _extractor(dataclasses.replace(bundle, _global_stats_path=str(file)), request)


def _numbered(pieces: PlaceholderTokens) -> Callable[[list[int]], str]:
    return lambda tokens: pieces.decode_ids(tokens[1:])  # the first is the blank that a hypothesis starts from


def _how_pinned(request: ModelRequest) -> str:
    return (
        f"With random weights the transducer is made to emit {request.tokens_per_second:g} tokens per second of audio, "
        "spread evenly: blank is ruled out where one is due, everything else where none is. A trained model's search "
        "may follow more hypotheses, and then takes longer."
    )


@dataclasses.dataclass
class Pin:
    """How many tokens an utterance has at its end, and how many are due by now."""

    tokens: int
    chunks: int
    frame: int = 0
    due: int = 0


def _pinned_search(bundle: Any, tokens_per_second: float) -> Any:
    import torch
    from torchaudio.models import RNNTBeamSearch

    class PinnedSearch(RNNTBeamSearch):
        """torchaudio's search on untrained weights, which would emit a token at every frame.

        Each hypothesis is due to have so many tokens at the end of a frame; one that has fewer may not take the blank,
        one that has them may take nothing else. The search itself, its sizes and its order are torchaudio's.
        """

        def begin(self, seconds: float, chunks: int) -> Pin:
            """A new utterance, which comes in so many pieces."""
            self.pin = Pin(max(1, math.ceil(seconds * tokens_per_second)), chunks)
            return self.pin

        def _search(self, enc_out: Any, hypo: Any, beam_width: int) -> Any:
            # The library's search goes over frames and carries hypotheses on; one frame at a time is the same.
            frames, pin = enc_out.shape[1] * self.pin.chunks, self.pin
            for frame in range(enc_out.shape[1]):
                pin.frame += 1
                pin.due = math.ceil(pin.tokens * pin.frame / frames)
                hypo = super()._search(enc_out[:, frame : frame + 1], hypo, beam_width)
            return hypo

        def _gen_next_token_probs(self, enc_out: Any, hypos: Any, device: Any) -> Any:
            scores = super()._gen_next_token_probs(enc_out, hypos, device)
            behind = torch.tensor([[len(hypothesis[0]) - 1 < self.pin.due] for hypothesis in hypos], device=device)
            scores[:, -1:] -= PENALTY * behind
            scores[:, :-1] -= PENALTY * ~behind
            return scores

    return PinnedSearch(bundle._rnnt_factory_func(), bundle._blank)
