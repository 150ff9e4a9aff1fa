"""Train an ASR model for commands from nothing: synthesised speech, CTC and attention together, on a CPU.

    python recipes/models/train_commands.py lstm-commands
    python recipes/models/train_commands.py conformer-commands

The architecture is the folder's own hyperparams.yaml, which is also what loads the result. An epoch that is finished is
kept in the work folder: the same command goes on from there. Every random choice is seeded by the epoch, so a training
that was interrupted ends as one that was not.
"""

from __future__ import annotations

import argparse
import io
import math
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import commands_corpus
import numpy as np
import sentencepiece
import torch
from hyperpyyaml import load_hyperpyyaml

from profiler.models.torchaudio.on_cpu import ensure_torchaudio

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Stage:
    """A part of the training, in which the learning rate goes up and comes down again."""

    epochs: int
    batch_size: int
    peak_rate: float
    ctc_weight: float = 0.3  # of the CTC loss; the rest is the attention decoder's
    easy: bool = False  # short utterances first, in little noise
    shifted: bool = False  # each utterance is played somewhat faster or slower, higher or lower: more voices


# Recurrent layers put out nothing but CTC blanks for a long time at first; easy speech and more weight shorten that.
STAGES = {
    "lstm-commands": (
        Stage(epochs=3, batch_size=12, peak_rate=1.5e-3, ctc_weight=0.8, easy=True),
        Stage(epochs=7, batch_size=24, peak_rate=1.5e-3, shifted=True),
        Stage(epochs=8, batch_size=24, peak_rate=1.5e-3, shifted=True),
    ),
    "conformer-commands": (
        Stage(epochs=14, batch_size=24, peak_rate=1.5e-3),
        Stage(epochs=7, batch_size=24, peak_rate=1e-3, shifted=True),
        Stage(epochs=10, batch_size=24, peak_rate=1e-3, shifted=True),
    ),
}
WARM_UP_STEPS = 300
LABEL_SMOOTHING = 0.1
GRADIENT_NORM = 5.0
SEED = 8


def train_tokenizer() -> bytes:
    """A SentencePiece model in which each word of the vocabulary is one token."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(commands_corpus.VOCABULARY),
        model_writer=model,
        model_type="word",
        vocab_size=len(commands_corpus.VOCABULARY) + 4,
        pad_id=0,  # also the CTC blank
        bos_id=1,
        eos_id=2,
        unk_id=3,
        normalization_rule_name="identity",
        minloglevel=2,
    )
    return model.getvalue()


class Training:
    """An ASR model as its folder describes it, with what training needs beside it."""

    def __init__(self, folder: Path, tokenizer: bytes) -> None:
        from speechbrain.augment.freq_domain import SpectrogramDrop

        torch.manual_seed(SEED)
        with (folder / "hyperparams.yaml").open(encoding="utf-8") as file:
            self.parts: dict[str, Any] = load_hyperpyyaml(file)
        self.model: torch.nn.Module = self.parts["recogniser"]
        self.tokenizer = sentencepiece.SentencePieceProcessor(model_proto=tokenizer)
        for name, bias in self.model.named_parameters():
            if "rnn" in name and "bias_ih" in name:  # a recurrent cell that keeps what it has at first, learns sooner
                torch.nn.init.ones_(bias.data[bias.numel() // 4 : bias.numel() // 2])
        self.masks = [
            SpectrogramDrop(drop_length_low=low, drop_length_high=high, drop_count_low=0, drop_count_high=3, dim=dim)
            for low, high, dim in ((2, 12, 1), (2, 7, 2))  # frames, then mel bands
        ]

    def encode(self, waves: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """What leaves the convolutions, which both models share; features are masked here and there in training."""
        with torch.no_grad():
            features = self.parts["normalizer"](self.parts["compute_features"](waves), lengths)
            if self.model.training:
                for mask in self.masks:
                    features = mask(features)
        return self.parts["cnn"](features)  # type: ignore[no-any-return]

    def forward(
        self, waves: torch.Tensor, lengths: torch.Tensor, words: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log probabilities of the CTC head for each frame, and of the decoder for each word after those before it."""
        parts, states = self.parts, self.encode(waves, lengths)
        if "transformer" in parts:
            encoded, decoded = parts["transformer"](states, words, lengths, pad_idx=parts["blank_index"])
        else:
            encoded, _ = parts["rnn"](parts["bridge"](states), lengths=lengths)
            encoded = parts["dense"](encoded)
            decoded, _ = parts["attentional_decoder"](parts["embedding"](words), encoded, lengths)
        return parts["ctc_output"](encoded).log_softmax(-1), parts["decoder_output"](decoded).log_softmax(-1)

    def loss(self, waves: torch.Tensor, lengths: torch.Tensor, texts: list[str], ctc_weight: float) -> torch.Tensor:
        from speechbrain.nnet.losses import ctc_loss, nll_loss

        ids = [self.tokenizer.encode_as_ids(text) for text in texts]
        begun, _ = self._pad([[self.parts["bos_index"], *one] for one in ids])
        ended, ended_lengths = self._pad([[*one, self.parts["eos_index"]] for one in ids])
        plain, plain_lengths = self._pad(ids)
        by_frame, by_word = self.forward(waves, lengths, begun)
        ctc = ctc_loss(by_frame, plain, lengths, plain_lengths, self.parts["blank_index"])
        attention = nll_loss(by_word, ended, length=ended_lengths, label_smoothing=LABEL_SMOOTHING)
        return ctc_weight * ctc + (1 - ctc_weight) * attention  # type: ignore[no-any-return]

    def greedy(self, waves: torch.Tensor, lengths: torch.Tensor) -> list[str]:
        """The CTC head's likeliest words: a quick look at how far training is."""
        from speechbrain.decoders import ctc_greedy_decode

        begun = torch.full((len(waves), 1), self.parts["bos_index"])
        by_frame, _ = self.forward(waves, lengths, begun)
        return [
            self.tokenizer.decode_ids(ids)
            for ids in ctc_greedy_decode(by_frame, lengths, blank_id=self.parts["blank_index"])
        ]

    @staticmethod
    def _pad(rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        longest = max(map(len, rows))
        padded = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
        return padded, torch.tensor([len(row) / longest for row in rows])


def learning_rate(step: int, steps: int) -> float:
    """Up in a line, then down in half a cosine; a factor of the peak."""
    if step < WARM_UP_STEPS:
        return (step + 1) / WARM_UP_STEPS
    return 0.5 * (1 + math.cos(math.pi * (step - WARM_UP_STEPS) / max(1, steps - WARM_UP_STEPS)))


def word_errors(training: Training, corpus: commands_corpus.Corpus) -> float:
    import jiwer

    training.model.eval()
    references, guesses = [], []
    with torch.no_grad():
        for waves, lengths, texts in commands_corpus.batches(corpus, 24, np.random.default_rng(SEED)):
            references += texts
            guesses += training.greedy(torch.from_numpy(waves), torch.from_numpy(lengths))
    training.model.train()
    return float(jiwer.wer(references, guesses))


def train(name: str, work: Path) -> None:
    folder = HERE / name
    corpus = commands_corpus.load_corpus(work / "speech.npz")
    tokenizer = train_tokenizer()
    training = Training(folder, tokenizer)
    state_file = work / f"{name}.pt"
    state: dict[str, Any] = torch.load(state_file, weights_only=True) if state_file.is_file() else {"epoch": -1}
    if state["epoch"] >= 0:
        training.model.load_state_dict(state["model"])

    done, last = 0, sum(stage.epochs for stage in STAGES[name])
    if state["epoch"] + 1 == last:
        print(f"{name} is trained already: delete {state_file} to start again from nothing.")
    for stage in STAGES[name]:
        steps = stage.epochs * math.ceil(len(corpus.training().texts) / stage.batch_size)
        optimizer = torch.optim.AdamW(training.model.parameters(), lr=stage.peak_rate, weight_decay=1e-2)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, partial(learning_rate, steps=steps))
        for epoch in range(done, done + stage.epochs):
            if epoch <= state["epoch"]:
                if epoch == state["epoch"]:
                    optimizer.load_state_dict(state["optimizer"])
                    schedule.load_state_dict(state["schedule"])
                continue
            started = time.monotonic()
            loss = train_epoch(training, corpus.training(), stage, epoch, optimizer, schedule)
            kept = {"model": training.model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**kept, "schedule": schedule.state_dict(), "epoch": epoch}, state_file)
            torch.save(training.model.state_dict(), folder / "asr.ckpt")
            (folder / "tokenizer.ckpt").write_bytes(tokenizer)
            error = word_errors(training, corpus.development())
            print(
                f"{name} epoch {epoch + 1}/{last}: loss {loss:.3f}, word errors of the CTC head on sentences held back "
                f"{100 * error:.1f} %, {time.monotonic() - started:.0f} s",
                flush=True,
            )
        done += stage.epochs


def train_epoch(
    training: Training, corpus: commands_corpus.Corpus, stage: Stage, epoch: int, optimizer: Any, schedule: Any
) -> float:
    """One pass over the speech; the mean loss."""
    torch.manual_seed(SEED + epoch)
    rng, losses = np.random.default_rng([SEED, epoch]), []
    for waves, lengths, texts in commands_corpus.batches(corpus, stage.batch_size, rng, stage.easy, stage.shifted):
        loss = training.loss(torch.from_numpy(waves), torch.from_numpy(lengths), texts, stage.ctc_weight)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(training.model.parameters(), GRADIENT_NORM)
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
    return sum(losses) / len(losses)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train an ASR model for commands on synthesised speech.")
    parser.add_argument("model", choices=list(STAGES))
    parser.add_argument(
        "--work",
        type=Path,
        default=Path(tempfile.gettempdir()) / "commands-training",
        help="folder for the training speech and unfinished training (default: %(default)s)",
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of torch (default: %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    train(arguments.model, arguments.work)


if __name__ == "__main__":
    ensure_torchaudio()
    main()
