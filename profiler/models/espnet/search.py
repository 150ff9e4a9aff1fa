"""ESPnet's beam search over the weighted scores of decoder and CTC."""

from __future__ import annotations

import math
from typing import Any

from profiler.errors import ModelError
from profiler.models.espnet.config import FILE, SEARCH, Description


def make_search(model: Any, description: Description, forbid_end: bool) -> Any:
    """ESPnet's beam search, with scorers and weights as its Speech2Text sets them."""
    from espnet.nets.batch_beam_search import BatchBeamSearch
    from espnet.nets.beam_search import BeamSearch
    from espnet.nets.scorer_interface import BatchScorerInterface
    from espnet.nets.scorers.ctc import CTCPrefixScorer
    from espnet.nets.scorers.length_bonus import LengthBonus

    weight = _ctc_weight(model, description)
    vocabulary = len(description.tokens)
    scorers = {
        "decoder": model.decoder,
        "ctc": CTCPrefixScorer(model.ctc, model.eos),
        "length_bonus": LengthBonus(vocabulary),
    }
    weights = {"decoder": 1.0 - weight, "ctc": weight, "length_bonus": description.search["penalty"]}
    if forbid_end:
        scorers["no_end"] = _no_end_scorer(vocabulary, model.eos)
        weights["no_end"] = 1.0
    batched = all(isinstance(scorer, BatchScorerInterface) for name, scorer in scorers.items() if weights[name])
    return (BatchBeamSearch if batched else BeamSearch)(
        scorers=scorers,
        weights=weights,
        beam_size=int(description.search["beam_size"]),
        vocab_size=vocabulary,
        sos=model.sos,
        eos=model.eos,
        token_list=description.tokens,
        pre_beam_score_key=None if weight == 1 else "full",
    )


def _ctc_weight(model: Any, description: Description) -> float:
    """The wanted one. ESPnet leaves out the part that training gave no weight, and then there is no choice."""
    only = 0.0 if model.ctc is None else 1.0 if model.decoder is None else None
    wanted = description.search.get("ctc_weight")
    if only is None:
        return SEARCH["ctc_weight"] if wanted is None else wanted
    if wanted not in (None, only):
        raise ModelError(
            f"{description.folder / FILE} describes a model without {'CTC' if only == 0 else 'a decoder'} "
            f"(model_conf.ctc_weight: {only:g}): it can be searched with ctc_weight {only:g} only, not {wanted:g}"
        )
    return only


def _no_end_scorer(vocabulary: int, end: int) -> Any:
    """A scorer that leaves all tokens as they are but the end, which becomes impossible.

    Untrained weights end a hypothesis by chance, at any step: the beam would shrink, or the search stop, by luck.
    """
    from espnet.nets.scorer_interface import BatchScorerInterface

    class NoEnd(BatchScorerInterface):
        def score(self, y: Any, state: Any, x: Any) -> tuple[Any, Any]:
            scores = x.new_zeros(vocabulary)
            scores[end] = -math.inf
            return scores, None

        def batch_score(self, ys: Any, states: Any, xs: Any) -> tuple[Any, Any]:
            return self.score(ys, None, xs)[0].expand(len(ys), vocabulary), None

    return NoEnd()
