"""Families of speech models on every engine, tiny: what the engine takes, that it gives what torch gives; the table of
docs/engines.md.

    python -m tests.helpers.engine_families                             tries all and writes the table anew
    python -m tests.helpers.engine_families '[["ecapa", "openvino"]]'   prints a line of JSON for each

ONNX Runtime and OpenVINO are asked for another length and batch than any that they were exported with; ExecuTorch and
AOTInductor, whose files are for one shape, for that one.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from profiler.audio import Speech
from profiler.errors import NotSupported
from profiler.models import registry
from profiler.models.load import load_model
from profiler.models.model import Model, ModelRequest, model_request
from profiler.processes import TrialFailed, in_fork, trial
from profiler.recipe.load import load_recipe
from profiler.recipe.schema import Variant
from profiler.runtimes import ENGINES, engine
from profiler.runtimes.part import EngineRequest
from profiler.variants.difference import difference, load_outputs, save_outputs
from profiler.variants.exported import put_in_place
from profiler.variants.parts import find_parts
from tests.helpers import shipped, tiny, zoo

CELL = (1.0, 1)
OTHER = (0.9, 3)  # seconds and rows that no export was made with
# What exporters import, once for all models.
IMPORTS = {
    "onnxruntime": ("torch.onnx._internal.exporter._core", "onnxscript.optimizer", "onnxruntime"),
    "openvino": ("openvino", "openvino.frontend.pytorch.fx_decoder"),
    "executorch": ("executorch.exir", "executorch.backends.xnnpack.partition.xnnpack_partitioner"),
    "aot_inductor": ("torch._inductor.compile_fx",),
}


@dataclass(frozen=True)
class Family:
    """A kind of model: a shipped recipe with the overrides that make it tiny, or a kind of transformers, or a class."""

    title: str
    recipe: str = ""
    kind: zoo.Kind | None = None
    module: dict[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return f"`recipes/{self.recipe}.yaml`" if self.recipe else f"`{self.kind.model if self.kind else self._class}`"

    @property
    def _class(self) -> str:
        return str(self.module["source"])

    def request(self, folder: Path) -> ModelRequest:
        if self.kind is not None:
            self.kind.save(folder)
            return ModelRequest(source=str(folder), type=self.kind.type, folder=folder, **self.kind.recipe)
        if self.module:
            return ModelRequest(type="Module", weights="random", trust=True, **self.module)
        path, row = tiny.RECIPES / f"{self.recipe}.yaml", shipped.ROWS[self.recipe]
        own = load_recipe(path, read_audio=False).recipe.pretrained_model.overrides
        changes = {"pretrained_model.overrides": {**own, **row.overrides}, "pretrained_model.weights": row.weights}
        return model_request(load_recipe(path, changes, read_audio=False).recipe, path.parent)


# What the tests try each time: plain models, one whose parts are taken one by one, TorchScript, a package's own file.
# All others were tried when the table was written.
AGAIN = (
    ("wav2vec2", "executorch"),
    ("hubert", "onnxruntime"),
    ("wavlm", "openvino"),
    ("conformer-torchaudio", "onnxruntime"),
    ("conformer-torchaudio", "executorch"),
    ("ecapa", "openvino"),
    ("crdnn", "onnxruntime"),
    ("silero-vad", "onnxruntime"),
    ("silero-vad", "openvino"),
)
CONFORMER = {"input_dim": 8, "num_heads": 2, "ffn_dim": 16, "num_layers": 1, "depthwise_conv_kernel_size": 3}
FAMILIES = {
    "wav2vec2": Family("wav2vec 2.0 (transformers)", "wav2vec2"),
    "hubert": Family("HuBERT (transformers)", "hubert"),
    "wavlm": Family("WavLM (transformers)", "wavlm"),
    "wav2vec2-conformer": Family(
        "conformer (transformers)",
        kind=next(kind for kind in zoo.KINDS if kind.name == "wav2vec2-conformer" and kind.type == zoo.CTC),
    ),
    "wav2vec2-torchaudio": Family("wav2vec 2.0 (torchaudio)", "wav2vec2-torchaudio"),
    "conformer-torchaudio": Family(
        "conformer (torchaudio)",
        module={
            "source": "torchaudio.models.Conformer",
            "overrides": CONFORMER,
            "input": "features_and_lengths",
            "lengths": "counts",
            "mels": 8,
        },
    ),
    "wav2vec2-commonvoice-fr": Family("wav2vec 2.0 (SpeechBrain)", "wav2vec2-commonvoice-fr"),
    "conformer-transformerlm": Family("conformer (SpeechBrain)", "conformer-transformerlm"),
    "conformer": Family("conformer (ESPnet)", "conformer"),
    "crdnn": Family("CRDNN (SpeechBrain)", "crdnn"),
    "lstm": Family("LSTM (ESPnet)", "lstm"),
    "ecapa": Family("ECAPA (SpeechBrain)", "ecapa"),
    "silero-vad": Family("Silero VAD", "silero-vad"),
}


def tried(model: Model, request: ModelRequest, name: str, folder: Path) -> dict[str, Any]:
    """A family on an engine: {parts, difference, ...} or {reason}. For a process of its own: the model is changed."""
    batches = registry.takes_batches(request.type)
    wanted = EngineRequest(
        threads=1, cells=[CELL], padding=0.0, batches=batches, padded=batches, cache=folder / "engines"
    )
    speech = Speech(tiny.SPEECH, model.rate)
    try:
        found = find_parts(model, Variant(name=name, runtime=name), speech, wanted)  # type: ignore[arg-type]
        seconds, rows = OTHER if engine(name).DYNAMIC else CELL
        batch = speech.batch(seconds, rows if batches else 1, seed=5)
        value = model.prepare(batch)
        before, after = folder / "before.pt", folder / "after.pt"
        trial(model, lambda: save_outputs(model, value, before, found.modules), None)
        conversion = put_in_place(model, found)
        trial(model, lambda: save_outputs(model, value, after, found.modules), None)
    except NotSupported as error:
        return {"reason": str(error)}
    apart = difference(load_outputs(before), load_outputs(after), found.modules)
    use = conversion.runtime
    assert use is not None
    return {"parts": use.parts, "difference": apart.max, "compared": apart.compared, "refused": use.refused}


def main(pairs: Sequence[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """Families and engines. Each model is loaded in a process of its own, and each engine tried in a fork of it."""
    import torch

    torch.set_num_threads(1)
    for name in dict.fromkeys(name for _, name in pairs):
        for module in IMPORTS[name]:
            importlib.import_module(module)

    def of_family(family: str) -> list[dict[str, Any]]:
        with tempfile.TemporaryDirectory() as folder:
            request = FAMILIES[family].request(Path(folder) / "model")
            model = load_model(request)
            found = []
            for name in [engine for each, engine in pairs if each == family]:
                start, place = sum(os.times()[2:4]), Path(folder) / name
                place.mkdir()
                try:
                    answer = in_fork(partial(tried, model, request, name, place), dict[str, Any])
                except TrialFailed as error:  # no engine and no exporter may end so
                    answer = {"failed": str(error)}
                found.append({"family": family, "engine": name, "cpu_s": sum(os.times()[2:4]) - start, **answer})
            return found

    for family in dict.fromkeys(family for family, _ in pairs):
        yield from in_fork(partial(of_family, family), list[dict[str, Any]])


# -- the table in the docs

DOCS = Path(__file__).resolve().parents[2] / "docs" / "engines.md"
BEGIN, END = "<!-- made by tests/helpers/engine_families.py -->\n", "<!-- end -->\n"
MOST_PARTS = 6  # that are named
NOT, NOT_TRIED = "not supported", "not tried"
Answers = dict[tuple[str, str], dict[str, Any]]


def outcome(answer: dict[str, Any]) -> str:
    """What the engine runs, or why it cannot."""
    if "parts" in answer:
        parts: list[str] = answer["parts"]
        if len(parts) > MOST_PARTS:
            return f"{len(parts)} modules, from `{parts[0]}` to `{parts[-1]}`"
        return ", ".join(f"`{part}`" for part in parts)
    return str(answer.get("reason") or f"FAILED: {answer['failed']}")


def table(answers: Answers) -> str:
    """A row for each family; what is not supported has a number, and its reason below."""
    engines = list(IMPORTS)
    reasons = list(dict.fromkeys(outcome(each) for each in answers.values() if "parts" not in each))
    lines = [
        f"| family | tried with | {' | '.join(ENGINES[each].title for each in engines)} |",
        "|---" * (2 + len(engines)) + "|",
    ]
    for name, family in FAMILIES.items():
        told = [outcome(answers[name, each]) if (name, each) in answers else NOT_TRIED for each in engines]
        cells = [f"{NOT} ({reasons.index(each) + 1})" if each in reasons else each for each in told]
        lines.append(f"| {family.title} | {family.source} | {' | '.join(cells)} |")
    listed = [f"{number}. {reason}" for number, reason in enumerate(reasons, 1)]
    return "\n".join([*lines, "", *listed]) + "\n"


def read(text: str) -> dict[tuple[str, str], str]:
    """The outcomes that a table tells."""
    reasons = dict(re.findall(r"(?m)^(\d+)\. (.*)$", text))
    rows = [[cell.strip() for cell in line.strip("|").split("|")][2:] for line in text.splitlines() if line[:1] == "|"][
        2:
    ]
    found = {}
    for name, cells in zip(FAMILIES, rows, strict=True):
        for each, cell in zip(IMPORTS, cells, strict=True):
            number = re.fullmatch(rf"{NOT} \((\d+)\)", cell)
            found[name, each] = reasons[number[1]] if number else cell
    return found


def documented() -> str:
    return DOCS.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


def write(answers: Answers) -> None:
    before, _, rest = DOCS.read_text(encoding="utf-8").partition(BEGIN)
    DOCS.write_text(f"{before}{BEGIN}{table(answers)}{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    asked = [tuple(pair) for pair in json.loads(sys.argv[1])] if len(sys.argv) > 1 else None
    answers = {}
    for answer in main(asked or [(family, name) for family in FAMILIES for name in IMPORTS]):
        print(json.dumps(answer), flush=True)
        answers[answer["family"], answer["engine"]] = answer
    if asked is None:
        write(answers)
