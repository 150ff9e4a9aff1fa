"""The guides in docs/ are followed to the letter: their files are written, their commands typed.

But for sizes: cells are measured for a fifth of a second, and large models and data sets are made small.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from ruamel.yaml import YAML

from profiler.environment import allowed_cpus
from tests.conftest import TinyModel
from tests.helpers import program, warm
from tests.helpers.program import ROOT
from tests.helpers.shipped import EMFORMER, ESPNET_LSTM

BLOCK = re.compile(r'^```(\w+)(?: title="([^"\n]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
BUDGET = re.compile(r"(\bbudget[=:] ?)(?:0\.5|1)\b(?!\.)")


class Block(NamedTuple):
    """A piece of code in a guide; `title` is the file that it is, or `FILE: SECTION` that it replaces."""

    language: str
    title: str
    text: str


def blocks(guide: str, smaller: Mapping[str, str] | None = None) -> list[Block]:
    """Those of a guide. `smaller`: what stands there, and what is taken in its place."""
    text = BUDGET.sub(r"\g<1>0.2", (ROOT / "docs" / guide).read_text())
    for size, small in (smaller or {}).items():
        assert size in text, f"{guide} does not have {size} any more"
        text = text.replace(size, small)
    return [Block(*(part or "" for part in match)) for match in BLOCK.findall(text)]


GUIDES = sorted(path.name for path in (ROOT / "docs").glob("*.md") if "\n```sh\n" in path.read_text())
# A run that takes seconds, for guides that look at one or resume it: with the budget that `blocks` gives theirs.
SMALL_RUN = (
    "recipes/log-mel.yaml measure.rounds=1 measure.budget=0.2 profiling_dimensions.audio_mockup_secs=[1,5] "
    "profiling_dimensions.batch_sizes=[1,4] --quiet"
)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log folder with one small run, made once."""
    folder = tmp_path_factory.mktemp("logs") / "logs"
    done = program.run(*SMALL_RUN.split(), "--logdir", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The project as a user has it, in a folder where files may be written; its code is that of this checkout."""
    for name in ("recipes", "samples"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


@pytest.fixture
def own_code(checkout: Path) -> Path:
    """With a copy of the code, which may be changed."""
    shutil.copytree(ROOT / "profiler", checkout / "profiler", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "profile.py", checkout)
    return checkout


def follow(guide: list[Block], folder: Path) -> list[str]:
    """Do what the blocks say, one after another; the output of each command."""
    printed = []
    for block in guide:
        if block.language == "sh":
            for line in block.text.splitlines():
                words = shlex.split(line)
                assert words[0] == "python", line
                done = _type(words[1:], folder)
                assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
                printed.append(done.stdout)
        elif block.language == "diff":
            _patch(folder / block.title, block.text)
        elif ": " in block.title:
            file, section = block.title.split(": ")
            text = (folder / file).read_text()
            changed = re.sub(rf"(?ms)^{section}:\n.*?(?=^\S|\Z)", block.text + "\n", text)
            assert changed != text
            (folder / file).write_text(changed)
        elif block.title:
            (folder / block.title).parent.mkdir(exist_ok=True)
            (folder / block.title).write_text(block.text)
    return printed


def _type(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """`python` with these words; a script that is not the launcher may import anything."""
    if words[0] == "-m":
        path = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, *words]
        return subprocess.run(command, cwd=folder, env=path, capture_output=True, text=True, timeout=300)
    if words[0] != "profile.py":
        return warm.run([str(folder / words[0]), *words[1:]], folder, 300, "models")
    place = folder if (folder / words[0]).exists() else ROOT
    return warm.run([str(place / words[0]), *words[1:]], folder, 300, program.libraries_of(*words[1:], folder=folder))


def _patch(file: Path, diff: str) -> None:
    """The one line of the guide that is shown as a difference."""
    old = "\n".join(line[1:] for line in diff.splitlines() if line.startswith("-"))
    new = "\n".join(line[1:] for line in diff.splitlines() if line.startswith("+"))
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


@pytest.mark.slow
def test_benchmark_your_own_model(checkout: Path) -> None:
    guide = blocks("your-own-model.md", {"hidden_size=64": "hidden_size=64, conv_dim=[32] * 7"})
    copied, shown, random, trained, script, folder, _, report = (text for text in follow(guide, checkout) if text)
    assert "Copied wav2vec2 to my-model.yaml" in copied
    front_end, layers = 80 * 128 + 128, 2 * 4 * (128 * 128 + 128 * 128 + 2 * 128)
    assert f" {front_end:,} |" in shown
    assert f" {front_end + layers:,} |" in shown
    assert "my_models.Encoder, float32, as constructed weights" in random
    assert "my_models.Encoder, float32, pretrained weights" in trained
    assert "80 log-mel features" in trained
    assert "./encoder.ts, float32, pretrained weights" in script
    assert "./my-hubert, float32, pretrained weights" in folder
    assert "Real-time factor" in report


@pytest.mark.slow
def test_reading_traces(checkout: Path) -> None:
    _, operators, convolutions = follow(blocks("reading-traces.md"), checkout)
    assert "By operator - float32, 5 s x 1" in operators
    assert "aten::conv1d" in operators
    assert "By operator - float32, 1 s x 4" in convolutions
    assert "aten::lstm_cell" in operators
    assert "aten::lstm_cell" not in convolutions
    assert list(checkout.glob("logs/silero-vad/*/float32/1s_x4/*.pt.trace.json.gz"))


@pytest.mark.slow
def test_add_a_model_library(own_code: Path) -> None:
    shown, ran = follow(blocks("add-a-library.md"), own_code)
    assert f"{32 * 400 + 32:,}" in shown
    assert "./example-model, float32, random weights" in ran
    assert "waveforms in memory to frames" in ran


@pytest.mark.slow
def test_add_a_pass(own_code: Path) -> None:
    ran, followed = follow(blocks("add-a-pass.md"), own_code)
    assert "**Page faults - " in ran
    assert "page faults per call" in ran
    assert "Of one call, after the calls that were timed." in ran
    (folder,) = (own_code / "logs" / "log-mel").iterdir()
    every = json.loads((folder / "results.json").read_text())["cells"]
    cells = [cell for cell in every if cell["status"] == "ok"]
    assert all(cell["figures"]["faults"].keys() == {"all", "disk"} for cell in cells)
    assert all(cell["work_s"]["faults"] > 0 for cell in cells)
    (header, *rows) = (line.split(",") for line in (folder / "results.csv").read_text().splitlines())
    assert len(rows) == len(every)
    assert "page_faults_from_disk" in header
    assert "Page faults per call" in followed


@pytest.mark.slow
def test_where_the_time_goes(checkout: Path) -> None:
    small, attention, modules, layer, operators, training, variants, shapes, show, *rest = follow(
        blocks("where-the-time-goes.md"), checkout
    )
    in_order, by_length, over = rest
    assert "**Where the time goes - icefall/conformer-transducer" in small
    assert "self_attn" in attention
    assert "encoder_embed" not in attention
    assert "encoder.layers.*.self_attn" in modules
    assert "encoder.layers.3.self_attn" in layer
    assert "**By operator" in operators
    assert "**Training step by phase" in training
    assert "simple + pruned transducer" in training
    assert "SGD" in variants
    assert "1 utterances" in shapes
    assert "1 batches of 1" in show
    assert "34 batches of 30 in corpus order; 28.1% padding expected" in in_order
    assert "34 batches of 30, sorted by length; 0.0% padding expected" in by_length
    assert "batches of 8, sorted by length" in over
    assert "**Training over the data set" in over


@pytest.mark.slow
def test_in_your_own_code(checkout: Path) -> None:
    _, loop, _, brain = follow(blocks("in-your-own-code.md"), checkout)
    assert "Training step by phase - train-loop" in loop
    assert "| data |" in re.sub(" +", " ", loop)
    assert all(f" {label} |" in loop for label in ("front", "output", "backward", "optimizer", "data loader"))
    assert "Training step by phase - " in brain
    assert all(f" {label} |" in brain for label in ("encoder", "decoder", "backward", "optimizer", "data loader"))


@pytest.mark.slow
def test_profiling_as_part_of_testing(checkout: Path) -> None:
    first, again = follow(blocks("profiling-in-tests.md"), checkout)
    assert "2 passed" in first
    assert "test_speed.py::test_encoding_keeps_up_with_speech encode: 1 s x 1 RTF" in first
    assert "faster than 0.500: yes" in first
    assert "kept as baseline" in first
    assert "kept as baseline" in again
    assert len(list(checkout.glob("pages/*/*/report.html"))) == 2


@pytest.mark.slow
def test_accuracy_beside_speed(checkout: Path) -> None:
    guide = blocks("accuracy.md", {"limit: 24 ": "limit: 6 ", "rounds: 2 ": "rounds: 1 "})
    shown, heard, again, english, tradeoff, of_characters, as_folder, skipped = follow(guide, checkout)
    assert "Error rates are measured, texts normalised: basic." in shown
    assert "Accuracy beside speed" in heard
    assert "Texts normalised: basic" in again
    assert "Texts normalised: english" in english
    assert "on the front with" in tradeoff
    assert "CER, %" in of_characters
    assert [path.name for path in sorted((checkout / "plots").iterdir())] == [
        "tradeoff-size.pdf",
        "tradeoff-size.png",
        "tradeoff-size.svg",
    ]
    assert "Data set commands: 144 utterances" in as_folder
    assert "1 utterances" in skipped
    assert "Skipped 2 of 3 entries" in skipped


@pytest.mark.slow
def test_comparing_runs(checkout: Path) -> None:
    sides, _, _, two_runs, within, *_, example = follow(blocks("comparing.md"), checkout)
    assert "B: my-model.yaml with pretrained_model.overrides.layers=1" in sides
    assert "Of 2 cells: 2 faster." in sides
    assert ("- threads, small: " in two_runs) == (len(allowed_cpus()) > 1)
    assert "Within this run: small is the baseline, large against it" in within
    assert "**Speed - small to large**" in within
    assert "4 s x 1 large" in example
    for file in ("comparison.md", "comparison.html", "comparison.json", "hardware.md"):
        assert (checkout / file).stat().st_size > 500
    assert (checkout / "after" / "history-my-model-latency.png").is_file()
    hardware = (checkout / "hardware.md").read_text()
    assert ", 1 thread " in hardware


@pytest.mark.slow
def test_is_my_machine_fit(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a state folder of its own: the floor of a machine that is busy with tests is not worth keeping."""
    monkeypatch.setenv("SPEECH_PROFILER_STATE", str(checkout / "state"))
    (answer,) = follow(blocks("is-my-machine-fit.md"), checkout)
    assert answer.split(":")[0] in ("Fit for measuring", "Usable with care", "Not fit for measuring")
    shown = (ROOT / "docs/doctor-checks.md").read_text()
    names = re.findall(r"(?m)^(?:ok|warn|bad|unknown) +([\w -]+?)  ", answer)
    assert len(names) > 15
    assert all(f"| {name} |" in shown for name in names if not name.startswith("GPU")), names
    assert (checkout / "state").is_dir()


def small(guide: str, model: Path) -> list[Block]:
    """The blocks of a guide with a tiny model in the place of one of the hub."""
    found = blocks(guide)
    changed = [block._replace(text=block.text.replace("facebook/wav2vec2-base-960h", str(model))) for block in found]
    assert changed != found
    return changed


@pytest.mark.slow
def test_a_hugging_face_model_in_three_lines(checkout: Path, tiny_model: Callable[[str], TinyModel]) -> None:
    model = tiny_model("ctc").folder
    recipe, *_ = guide = small("hugging-face.md", model)
    assert len(recipe.text.splitlines()) == 3
    shown, ran = follow(guide, checkout)
    assert "**Plan - 4 cells to measure**" in shown
    assert f"**Real-time factor (below 1 is faster than real time) - {model}, float32, pretrained weights**" in ran


@pytest.mark.slow
def test_on_a_gpu(checkout: Path, tiny_model: Callable[[str], TinyModel]) -> None:
    """As far as a machine without one allows: there the commands for a GPU end at once and say why."""
    guide = small("on-a-gpu.md", tiny_model("ctc").folder)
    *_, machines = follow(guide, checkout)
    assert "**Machines**" in machines
    lines = [shlex.split(line) for block in guide if block.language == "bash" for line in block.text.splitlines()]
    (on_gpu,) = [words[1:] for words in lines if "--device" in words]
    done = _type(on_gpu, checkout)
    if done.returncode:
        assert done.returncode == 2
        assert "torch sees no accelerator here" in done.stderr


@pytest.mark.slow
def test_streaming_latency(checkout: Path) -> None:
    sizes = ", ".join(f"{name}: {size}" for name, size in EMFORMER.items() if name != "beam_width")
    off = "profiling_dimensions.export_logs=False"
    smaller = {f"{off}\n": f'{off} "pretrained_model.overrides={{{sizes}}}"\n', "={beam_": f"={{{sizes}, beam_"}
    guide = blocks("streaming.md", smaller)
    shown, chunks, longer = follow(guide, checkout)
    assert "no mistakes" in shown
    for table, row in ((chunks, r"2 s x 1 \| +160 \| +40\.0 \|"), (longer, r"2 s x 1 \| +320 \| +80\.0 \|")):
        assert "**Latency of each chunk, in ms" in table
        assert re.search(row, table)


@pytest.mark.slow
def test_compare_two_models(checkout: Path) -> None:
    ran, compared, sides = follow(blocks("compare-two-models.md", {"limit: 12": "limit: 4"}), checkout)
    assert "**Accuracy beside speed - 2 models, 2 variants, pretrained weights**" in ran
    assert "**Speed - lstm to conformer**" in compared
    assert "These are different models: ./recipes/models/lstm-commands, then" in compared
    assert "These are different models: ./recipes/models/conformer-commands, then" in sides


def guides() -> list[str]:
    """The pages that the site lists as guides, and those that begin in the same way."""
    navigation = YAML(typ="safe", pure=True).load((ROOT / "mkdocs.yml").read_text())["nav"]
    (listed,) = (group["Guides"] for group in navigation if "Guides" in group)
    return ["getting-started.md", "hugging-face.md", *listed]


@pytest.mark.parametrize("guide", guides())
def test_a_guide_begins_with_a_question_and_ends_with_a_figure(guide: str) -> None:
    text = (ROOT / "docs" / guide).read_text()
    first = text.split("\n\n")[1]
    assert "?" in first, first
    last = text.rpartition("\n## ")[2]
    assert re.search(r"(?m)^\|.*\d.*\|$|^!\[", last), last


def test_the_workflow_of_the_guide_is_one_that_our_action_takes() -> None:
    """Valid YAML of the expected shape, and what it gives our action are inputs that this has."""
    (text,) = [block.text for block in blocks("comparing.md") if "pull_request" in block.text]
    workflow = YAML(typ="safe", pure=True).load(text)
    assert workflow["on"] == "pull_request"
    steps = workflow["jobs"]["ab"]["steps"]
    assert all("uses" in step or "run" in step for step in steps)
    (ours,) = [step for step in steps if "actions/ab" in step.get("uses", "")]
    action = YAML(typ="safe", pure=True).load((ROOT / ".github" / "actions" / "ab" / "action.yml").read_text())
    required = {name for name, about in action["inputs"].items() if about.get("required")}
    assert required <= set(ours["with"]) <= set(action["inputs"])


def followed_above() -> set[str]:
    """Guides that a test of their own follows."""
    return set(re.findall(r'(?:blocks|small)\("([\w-]+\.md)"', Path(__file__).read_text()))


SMALLER = {"which-precision.md": {"overrides: {beam_size: 2}": f"overrides: {json.dumps(ESPNET_LSTM)}"}}


@pytest.mark.slow
@pytest.mark.parametrize("guide", [name for name in GUIDES if name not in followed_above()])
def test_every_command_of_every_other_guide_works(guide: str, checkout: Path, logs: Path) -> None:
    """As it stands, in the order of the page, where a small run was made before."""
    shutil.copytree(logs, checkout / "logs")
    printed = follow(blocks(guide, SMALLER.get(guide)), checkout)
    assert any(printed)
    assert not any("Traceback" in text for text in printed)


def test_every_page_is_named_in_the_contents() -> None:
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    contents = set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs" / "index.md").read_text()))
    assert contents == pages - {"index.md"}


@pytest.mark.slow
def test_tune(checkout: Path) -> None:
    (done,) = follow(blocks("tune.md"), checkout)
    assert "Pick: " in done
    assert (checkout / "log-mel-tuned.yaml").is_file()
