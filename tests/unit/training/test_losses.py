"""Transducer losses: the lattice in plain torch against brute force and against a library of its own."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch

from profiler.errors import ModelError
from profiler.training import losses
from profiler.training.tasks import Outputs, Targets, make_targets

FRAMES, TOKENS, VOCABULARY = [9, 7, 5], [4, 2, 3], 7


def case(seed: int = 0) -> tuple[torch.Tensor, Outputs, Targets]:
    """Scores of three rows that differ in frames and tokens, padded."""
    torch.manual_seed(seed)
    scores = torch.randn(3, max(FRAMES), max(TOKENS) + 1, VOCABULARY, requires_grad=True)
    targets = make_targets(TOKENS, range(1, VOCABULARY), seed, "cpu", ["a", "b", "c"])
    return scores, Outputs(scores, torch.tensor(FRAMES)), targets


def by_enumeration(scores: torch.Tensor, tokens: list[int]) -> float:
    """The probability of the tokens, summed over every way to spread them over the frames."""
    chosen = scores.log_softmax(-1)
    frames, count = len(scores), len(tokens)
    total = -math.inf
    for when in itertools.combinations_with_replacement(range(frames), count):
        log, said = 0.0, 0
        for frame in range(frames):
            while said < count and when[said] == frame:
                log += float(chosen[frame, said, tokens[said]])
                said += 1
            log += float(chosen[frame, said, 0])
        total = max(total, log) + math.log1p(math.exp(-abs(total - log))) if total > -math.inf else log
    return -total


def test_the_lattice_sums_over_every_way_to_say_the_tokens() -> None:
    scores, outputs, targets = case()
    cost = losses.Transducer(0, "torch")(outputs, targets)
    rows = [
        by_enumeration(scores[row, :frames].detach(), targets.tokens[row, :tokens].tolist())
        for row, (frames, tokens) in enumerate(zip(FRAMES, TOKENS, strict=True))
    ]
    assert float(cost) == pytest.approx(sum(rows) / 3, rel=1e-5)


def test_cost_and_gradients_are_those_of_the_library() -> None:
    found: dict[str, tuple[float, Any]] = {}
    for library in ("torch", "warprnnt_numba"):
        scores, outputs, targets = case(1)
        cost = losses.Transducer(0, library)(outputs, targets)
        cost.backward()
        found[library] = (float(cost), scores.grad)
    assert found["torch"][0] == pytest.approx(found["warprnnt_numba"][0], rel=1e-5)
    assert torch.allclose(found["torch"][1], found["warprnnt_numba"][1], atol=1e-5)
    assert "warprnnt-numba 0." in losses.library_name("warprnnt_numba")


def test_the_simple_loss_is_the_whole_lattice_of_sums_without_making_them() -> None:
    torch.manual_seed(0)
    _, outputs, targets = case()
    by_frame = torch.randn(3, max(FRAMES), VOCABULARY, requires_grad=True)
    by_place = torch.randn(3, max(TOKENS) + 1, VOCABULARY, requires_grad=True)
    simple, likely = losses.Simple()(by_frame, by_place, targets, outputs.frames, 0)
    joint = Outputs(by_frame[:, :, None] + by_place[:, None], outputs.frames)
    whole = losses.Transducer(0, "torch")(joint, targets)
    assert float(simple) == pytest.approx(float(whole), rel=1e-5)
    for one, other in zip(
        torch.autograd.grad(simple, (by_frame, by_place)), torch.autograd.grad(whole, (by_frame, by_place)), strict=True
    ):
        assert torch.allclose(one, other, atol=1e-5)
    for row, (frames, tokens) in enumerate(zip(FRAMES, TOKENS, strict=True)):
        steps = float(likely[row].sum())
        assert steps == pytest.approx(frames + tokens, rel=1e-6), "every way has a blank a frame and each token once"


@pytest.mark.parametrize("width", [2, 3, 5])
def test_the_pruned_loss_looks_at_windows_of_the_lattice(width: int) -> None:
    torch.manual_seed(0)
    _, outputs, targets = case()
    by_frame, by_place = torch.randn(3, max(FRAMES), VOCABULARY), torch.randn(3, max(TOKENS) + 1, VOCABULARY)
    simple, likely = losses.Simple()(by_frame, by_place, targets, outputs.frames, 0)
    begin = losses.windows(likely, outputs.frames, targets.lengths, width)
    for row, (frames, tokens) in enumerate(zip(FRAMES, TOKENS, strict=True)):
        starts = begin[row, :frames].tolist()
        assert starts[0] == 0
        assert starts[-1] == max(0, tokens + 1 - width), "the last token is in reach"
        assert all(0 <= after - before < width for before, after in itertools.pairwise(starts)), "windows overlap"
    at = (begin[:, :, None] + torch.arange(width)).flatten(1)
    near = by_place.gather(1, at[:, :, None].expand(-1, -1, VOCABULARY)).unflatten(1, (-1, width))
    pruned = losses.Pruned()(by_frame[:, :, None] + near, begin, targets, outputs.frames, 0)
    if width > max(TOKENS):
        assert float(pruned) == pytest.approx(float(simple), rel=1e-5), "the window is the whole lattice"
    else:
        assert float(simple) < float(pruned) < 2 * float(simple), "fewer ways, but the likely ones"


def test_both_losses_reach_all_parts_of_the_model() -> None:
    torch.manual_seed(0)
    _, outputs, targets = case()
    projections = (torch.nn.Linear(6, VOCABULARY), torch.nn.Linear(6, VOCABULARY))

    class Joiner(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.output = torch.nn.Linear(6, VOCABULARY)

        def forward(self, by_frame: torch.Tensor, by_place: torch.Tensor) -> torch.Tensor:
            joined: torch.Tensor = self.output(torch.tanh(by_frame + by_place))
            return joined

    joiner = Joiner()
    loss = losses.PrunedTransducer(projections, joiner, 0, window=3)
    values = (
        torch.randn(3, max(FRAMES), 6, requires_grad=True),
        torch.randn(3, max(TOKENS) + 1, 6, requires_grad=True),
    )
    loss(Outputs(values, outputs.frames), targets).backward()
    parts = [*values, *projections[0].parameters(), *projections[1].parameters(), *joiner.parameters()]
    assert all(
        part.grad is not None and torch.isfinite(part.grad).all() and part.grad.abs().sum() > 0 for part in parts
    )
    assert [name for name, _ in loss.named_modules() if name] == ["simple", "pruned"], (
        "parts of the model are not its own"
    )


def test_decoder_inputs_and_wanted_outputs() -> None:
    targets = Targets(torch.tensor([[5, 6, 7], [8, 0, 0]]), torch.tensor([3, 1]), ["a", "b"])
    assert losses.with_start(targets, 1).tolist() == [[1, 5, 6, 7], [1, 8, 0, 0]]
    assert losses.with_end(targets, 2).tolist() == [[5, 6, 7, 2], [8, 2, losses.IGNORED, losses.IGNORED]]


def test_targets_are_random_but_the_same_each_time_and_need_no_frame_between_them() -> None:
    one, again = (make_targets([9, 4], range(3, 6), 7, "cpu", ["a", "b"]) for _ in range(2))
    assert torch.equal(one.tokens, again.tokens)
    assert one.total == 13
    for row, length in zip(one.tokens.tolist(), [9, 4], strict=True):
        said = row[:length]
        assert set(said) <= {3, 4, 5}
        assert all(left != right for left, right in itertools.pairwise(said))


def test_a_target_that_is_too_long_is_named() -> None:
    targets = make_targets([3, 8], range(1, 5), 0, "cpu", ["good", "utt-17"])
    with pytest.raises(ModelError, match=r"the target of utt-17 is too long: 8 tokens, and there are 7 frames"):
        targets.refuse_longer(torch.tensor([9, 7]))


def test_which_library_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "has_native_torchaudio", lambda: False)
    assert losses.choose_library("auto", "cpu") == "torch", "warprnnt-numba's code for a CPU is a loop in Python"
    monkeypatch.setattr(losses, "has_warprnnt", lambda: True)
    assert losses.choose_library("auto", "cuda:0") == "warprnnt_numba"
    assert losses.choose_library("warprnnt_numba", "cpu") == "warprnnt_numba"
    with pytest.raises(ModelError, match="native library"):
        losses.choose_library("torchaudio", "cpu")
    monkeypatch.setattr(losses, "has_warprnnt", lambda: False)
    with pytest.raises(ModelError, match=r'pip install "speech-profiler\[transducer\]"'):
        losses.choose_library("warprnnt_numba", "cpu")
    monkeypatch.setattr(losses, "has_native_torchaudio", lambda: True)
    assert losses.choose_library("auto", "cpu") == "torchaudio"
