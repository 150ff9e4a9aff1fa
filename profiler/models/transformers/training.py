"""How models of transformers are trained: CTC on scores, or on hidden states with an output layer; cross entropy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from profiler.errors import ModelError
from profiler.models.model import ModelRequest

if TYPE_CHECKING:
    from profiler.models.transformers.whisper import Whisper
    from profiler.recipe.schema import Training
    from profiler.training.tasks import Task

Rows = Callable[[list[Any]], Any]


def trained_by(
    module: Any, request: ModelRequest, features: Rows, rate: int, whisper: Whisper | None
) -> dict[str, Callable[[Training], Task]]:
    config = module.config

    def frames(rows: list[Any], count: int, samples: int | None = None) -> Any:
        """By the library's own rule where it has one, else by each row's share of the longest."""
        import torch

        from profiler.training.tasks import frames_by_share

        lengths = torch.tensor([len(row) for row in rows])
        rule = getattr(module, "_get_feat_extract_output_lengths", None)
        if rule is not None and samples is None:
            try:
                return rule(lengths).long().clamp(min=1, max=count)
            except (AttributeError, TypeError):  # some classes inherit the rule and lack what it asks for
                pass
        return frames_by_share(lengths, samples or int(lengths.max()), count)

    def scores(rows: list[Any]) -> tuple[Any, Any]:
        logits = module(**features(rows)).logits
        return logits, frames(rows, logits.shape[1])

    def states(rows: list[Any]) -> tuple[Any, Any]:
        if whisper is not None:
            hidden = whisper.hidden_states(rows)
            windows = -(-max(len(row) for row in rows) // whisper.window)
            return hidden, frames(rows, hidden.shape[1], windows * whisper.window)
        encoder = module.get_encoder() if config.is_encoder_decoder else module
        hidden = encoder(**features(rows)).last_hidden_state
        return hidden, frames(rows, hidden.shape[1])

    def decode(rows: list[Any], tokens: Any) -> tuple[Any, Any]:
        window = whisper.window if whisper is not None else None
        if window is not None and max(len(row) for row in rows) > window:
            raise ModelError(f"the model takes {window / rate:g} s at a time, and is trained on no more")
        found = module(**features(rows), decoder_input_ids=tokens, use_cache=False)
        return found.logits, frames(rows, found.encoder_last_hidden_state.shape[1], window)

    def ctc(settings: Training) -> Task:
        from profiler.training import tasks

        return tasks.ctc(scores, config.vocab_size, config.pad_token_id or 0)

    def ctc_with_head(settings: Training) -> Task:
        from profiler.training import tasks

        return tasks.ctc_with_head(states, config.hidden_size, settings, request.device)

    def cross_entropy(settings: Training) -> Task:
        from profiler.training import tasks

        start, end = config.decoder_start_token_id, config.eos_token_id
        tokens = tasks.ordinary_tokens(config.vocab_size, start, end, config.pad_token_id, config.bos_token_id)
        most = getattr(config, "max_target_positions", None)
        return tasks.cross_entropy(decode, start, end, tokens, most - 1 if most else None)

    def said(make: Callable[[Training], Task]) -> Callable[[Training], Task]:
        def maker(settings: Training) -> Task:
            task = make(settings)
            task.notes += _notes(config, whisper.window / rate if whisper is not None else None)
            return task

        return maker

    made = {
        "AutoModel": {"ctc": said(ctc_with_head)},
        "AutoModelForCTC": {"ctc": said(ctc)},
        "AutoModelForSpeechSeq2Seq": {"cross_entropy": said(cross_entropy)},
    }
    return dict(made.get(request.type, {}))


def _notes(config: Any, window: float | None) -> list[str]:
    """What makes steps dearer, or different from one another, than their audio says."""
    notes = []
    if window is not None:
        length = f"{window:g} s"
        notes.append(
            f"The model takes {length} at a time: shorter audio is padded to {length} and costs its encoder as much."
        )
    skipped = max((getattr(config, name, 0.0) or 0.0) for name in ("layerdrop", "encoder_layerdrop"))
    if skipped:
        notes.append(
            f"Steps differ: in training the library skips each layer with a chance of {skipped:g} (layerdrop)."
        )
    return notes
