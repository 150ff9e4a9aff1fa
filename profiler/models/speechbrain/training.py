"""How SpeechBrain's ASR models are trained: CTC on the encoder's scores, or cross entropy on the attention decoder,
or both where the model has a CTC head.

The parts are those of the inference interface: a searcher holds the decoder, which is called here as in training, with
the whole target at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from profiler.errors import ModelError
from profiler.models.model import Model, ModelRequest
from profiler.training import tasks

if TYPE_CHECKING:
    from profiler.recipe.schema import Training


def trained_by(model: Model, interface: Any, request: ModelRequest) -> dict[str, Callable[[Training], tasks.Task]]:
    def encode(value: tuple[Any, Any]) -> tuple[Any, Any]:
        waveforms, shares = (part.to(interface.device) for part in value)
        states = interface.mods.encoder(waveforms, shares)
        if hasattr(interface.hparams, "transformer_beam_search"):
            states = interface.mods.transformer.encode(states, shares)
        return states, tasks.frames_by_share(value[1], 1, states.shape[1])  # they are shares already

    def ctc(settings: Training) -> tasks.Task:
        width = tasks.output_width(model, lambda value: encode(value)[0])
        return tasks.ctc(encode, width, int(getattr(interface.hparams, "blank_index", 0)))

    def attention(settings: Training) -> tasks.Task:
        search = interface.mods.decoder
        decode, output = _decoder(search)

        def scores(value: tuple[Any, Any], tokens: Any) -> tuple[Any, Any]:
            states, frames = encode(value)
            return output(decode(tokens, states, value[1].to(interface.device))), frames

        vocabulary = next(output.parameters()).shape[0]
        start, end = int(search.bos_index), int(search.eos_index)
        blank = int(getattr(interface.hparams, "blank_index", 0))
        task = tasks.cross_entropy(scores, start, end, tasks.ordinary_tokens(vocabulary, start, end, blank))
        if "lm_model" in interface.mods:
            task.notes.append("The language model is no part of a training step: it is loaded, and left as it is.")
        return task

    def hybrid(settings: Training) -> tasks.Task:
        return tasks.joined(attention(settings), encode, interface.mods.ctc, int(interface.hparams.blank_index))

    def whisper(settings: Training) -> tasks.Task:
        module = interface.mods.whisper
        module.freeze = False  # the recipe asks for training, whatever the folder was saved for

        def scores(value: tuple[Any, Any], tokens: Any) -> tuple[Any, Any]:
            states, logits, _ = module(value[0].to(interface.device), tokens)
            lengths = value[1] * value[0].shape[1]
            return logits, tasks.frames_by_share(lengths, module._n_samples, states.shape[-2])

        config = module.model.config
        start, end = config.decoder_start_token_id, config.eos_token_id
        tokens = tasks.ordinary_tokens(config.vocab_size, start, end, config.pad_token_id, config.bos_token_id)
        task = tasks.cross_entropy(scores, start, end, tokens, config.max_target_positions - 1)
        seconds = f"{module._n_samples / model.rate:g} s"
        task.notes.append(
            f"The model takes {seconds} at a time: shorter audio is padded to {seconds} and costs its encoder as much."
        )
        return task

    made: dict[str, dict[str, Callable[[Training], tasks.Task]]] = {
        "EncoderASR": {"ctc": ctc},
        "EncoderDecoderASR": {"cross_entropy": attention, "hybrid": hybrid},
        "WhisperASR": {"cross_entropy": whisper},
    }
    if "ctc" not in interface.mods:
        made["EncoderDecoderASR"].pop("hybrid")
    return made.get(request.type, {})


def _decoder(search: Any) -> tuple[Callable[[Any, Any, Any], Any], Any]:
    """The decoder inside a searcher, for a whole target at once, and the layer that makes scores of what it gives."""
    if hasattr(search, "emb") and hasattr(search, "dec"):  # recurrent, with attention
        return lambda tokens, states, shares: search.dec(search.emb(tokens), states, shares)[0], search.fc
    model = getattr(search, "model", None)
    if model is not None and hasattr(model, "decode") and hasattr(search, "fc"):
        # SpeechBrain switches gradients off in `decode`, which is there for searches; what it wraps computes the same.
        decode = inspect.unwrap(type(model).decode)

        def decode_all(tokens: Any, states: Any, shares: Any) -> Any:
            return decode(model, tokens, states, (shares * states.shape[1]).round().int())[0]

        return decode_all, search.fc
    raise ModelError(
        f"The search {type(search).__name__} holds no attention decoder that is known here: such a model cannot be "
        "trained here."
    )
