"""Wrong input: one clear message that names the thing and what to do, at once, and nothing is run or written.

Every call is the real program without torch, with a `torch` on its path that shouts when it is imported: what is wrong
is to be found without loading anything heavy.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from profiler.results.store import ResultsFile
from tests.helpers.program import ROOT, run
from tests.helpers.tiny import SPEECH, recipe_text
from tests.unit.report.test_tables import ok, results

WAV2VEC2 = "facebook/wav2vec2-base-960h"
SHOUT = "torch was imported"
Refuse = Callable[..., str]


def text(**parts: str) -> str:
    return recipe_text(WAV2VEC2, "AutoModelForCTC", **parts)


def path_without_torch(folder: Path) -> Path:
    """A PYTHONPATH with which importing torch is an error that shows."""
    (folder / "torch.py").write_text(f"import os\nos.write(2, b'{SHOUT}')\nraise ImportError('{SHOUT}')\n")
    return folder


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return path_without_torch(tmp_path_factory.mktemp("path"))


@pytest.fixture
def refuse(tmp_path: Path, without_torch: Path) -> Refuse:
    """Runs the program on wrong input, checks what holds for all of it, and gives the message."""

    def refused(*arguments: str | Path, logdir: Path | None = tmp_path / "logs") -> str:
        options: list[str | Path] = ["--logdir", logdir] if logdir else []
        done = run(*arguments, *options, path=without_torch)
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
        assert SHOUT not in done.stderr
        assert done.stdout == ""
        assert list((tmp_path / "logs").glob("**/*")) == []
        return done.stderr

    return refused


@pytest.fixture
def refuse_recipe(tmp_path: Path, refuse: Refuse) -> Callable[[str], str]:
    """The same for the text of a recipe; the message is given without the folder."""

    def refused(content: str) -> str:
        path = tmp_path / "recipe.yaml"
        path.write_text(content)
        message = refuse(path).replace(f"{tmp_path}/", "")
        assert message.startswith("profile.py: recipe.yaml has ")
        assert "nothing was run" in message
        return message

    return refused


def only_mistake(message: str) -> str:
    assert "has a mistake" in message
    (line,) = message.strip().splitlines()[1:]
    return line.strip()


# --- what stands in a recipe ---


@pytest.mark.parametrize(
    ("content", "place", "words"),
    [
        (text(more="mesure: {warmup: 3}"), "recipe.yaml:7: mesure", "unknown key. Did you mean `measure`?"),
        (text(grid="exampel_audio: null"), "recipe.yaml:7:", "unknown key. Did you mean `example_audio`?"),
        (text(batches='["4"]'), "recipe.yaml:6: profiling_dimensions.batch_sizes[0]", "a whole number, got '4'"),
        (text(batches="4"), "recipe.yaml:6: profiling_dimensions.batch_sizes", "a list, such as [1, 4], got 4"),
        (text(seconds="long"), "recipe.yaml:5: profiling_dimensions.audio_mockup_secs", "a list, such as [1, 4]"),
        (text(grid="triangle_only: maybe"), "recipe.yaml:7:", "expected true or false, got 'maybe'"),
        (text(batches="[]"), "recipe.yaml:6: profiling_dimensions.batch_sizes", "a list with at least one value"),
        (text(seconds="[]"), "recipe.yaml:5: profiling_dimensions.audio_mockup_secs", "at least one value"),
        (text(seconds="[0]"), "recipe.yaml:5: profiling_dimensions.audio_mockup_secs[0]", "greater than 0, got 0"),
        (text(seconds="[1, -2]"), "profiling_dimensions.audio_mockup_secs[1]", "greater than 0, got -2"),
        (text(batches="[0]"), "recipe.yaml:6: profiling_dimensions.batch_sizes[0]", "greater than 0, got 0"),
        (text(batches="[-8]"), "recipe.yaml:6: profiling_dimensions.batch_sizes[0]", "greater than 0, got -8"),
        (text(grid="batch_sizes: [2]"), "recipe.yaml:7:", "stands here twice, first in line 6; keep one"),
        (text(batches="[1, 2"), "recipe.yaml:6:", "broken YAML (expected ',' or ']', but got '<stream end>')"),
        (text().replace("  batch_sizes", "\tbatch_sizes"), "recipe.yaml:6:", "`batch_sizes: [1, 2]`"),
        (text().replace("type: ", "type: kind: "), "recipe.yaml:3:", "`type: kind: AutoModelForCTC`"),
        ("", "recipe.yaml", "the file is empty"),
        ("# nothing yet\n", "recipe.yaml", "the file is empty"),
        ("wav2vec2\n", "recipe.yaml:1", "expected sections such as `pretrained_model:`"),
        (recipe_text(WAV2VEC2, "EncoderASRR"), "recipe.yaml:3: pretrained_model.type", "Did you mean `EncoderASR`?"),
        (recipe_text("./nix", "EncoderASR"), "recipe.yaml:2: pretrained_model.source", "there is no folder nix"),
        (text(batches="!ref <sizes>"), "recipe.yaml:6:", '"sizes" is not valid'),
    ],
)
def test_a_mistake_in_a_recipe(refuse_recipe: Callable[[str], str], content: str, place: str, words: str) -> None:
    line = only_mistake(refuse_recipe(content))
    assert line.startswith(place) or f" {place}" in line
    assert words in line


@pytest.mark.parametrize("kind", ["EncoderASR", "AutoModelForCTC"])
def test_a_folder_without_a_model(tmp_path: Path, refuse_recipe: Callable[[str], str], kind: str) -> None:
    (tmp_path / "nothing").mkdir()
    line = only_mistake(refuse_recipe(recipe_text("./nothing", kind)))
    assert line.startswith("recipe.yaml:2: pretrained_model.source: the folder nothing holds no model")
    assert ("hyperparams.yaml" if kind == "EncoderASR" else "config.json") in line


def test_every_mistake_is_reported_in_one_go(tmp_path: Path, refuse_recipe: Callable[[str], str]) -> None:
    made = tmp_path / "made"
    message = refuse_recipe(
        "pretrained_model:\n"
        f"  source: {WAV2VEC2}\n"
        "  type: EncoderASRR\n"
        "  wieghts: random\n"
        "profiling_dimensions:\n"
        "  audio_mockup_secs: [0, 1]\n"
        "  batch_sizes: '4'\n"
        "  example_audio: gone.wav\n"
        "  triangle_only: false\n"
        "  triangle_only: true\n"
        "measure:\n"
        f"  warmup: !apply:subprocess.check_output [[touch, {made}]]\n"
        "  wdith: 0.1\n"
        "variants: []\n"
    )
    lines = [line.strip() for line in message.splitlines()[1:] if line.strip()]
    expected = [
        ("recipe.yaml:3: pretrained_model.type", "Did you mean `EncoderASR`?"),
        ("recipe.yaml:4: pretrained_model.wieghts", "Did you mean `weights`?"),
        ("recipe.yaml:6: profiling_dimensions.audio_mockup_secs[0]", "greater than 0"),
        ("recipe.yaml:7: profiling_dimensions.batch_sizes", "expected a list"),
        ("recipe.yaml:8: profiling_dimensions.example_audio", "there is no audio file"),
        ("recipe.yaml:10: profiling_dimensions.triangle_only", "twice"),
        ("recipe.yaml:12: `!apply:subprocess.check_output`", "--trust"),
        ("recipe.yaml:13: measure.wdith", "Did you mean `width`?"),
        ("recipe.yaml:14: variants", "at least one value"),
    ]
    assert "has 9 mistakes" in message
    assert len(lines) == len(expected)
    for line, (place, words) in zip(lines, expected, strict=True):
        assert line.startswith(place)
        assert words in line
    assert not made.exists()


# --- tags that would run code ---


@pytest.mark.parametrize(
    "tag",
    [
        "!apply:subprocess.check_output [[touch, {made}]]",
        "!applyref:subprocess.check_output [[touch, {made}]]",
        "!new:subprocess.Popen [[touch, {made}]]",
        "!!python/object/apply:subprocess.check_output [[touch, {made}]]",
        "!apply:torch.nn.parallel.distributed.os.popen ['touch {made}']",
    ],
)
def test_a_tag_that_would_run_code(tmp_path: Path, refuse_recipe: Callable[[str], str], tag: str) -> None:
    made = tmp_path / "made"
    line = only_mistake(refuse_recipe(text(batches=tag.format(made=made))))
    assert line.startswith("recipe.yaml:6:")
    assert tag.split()[0] in line
    assert "would run code" in line
    assert "--trust" in line
    assert not made.exists()


def test_with_trust_the_same_tag_is_run(tmp_path: Path, without_torch: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    code = f"'open({str(tmp_path / 'made')!r}, \"w\") and [3]'".replace("'", "''")[1:-1]
    recipe.write_text(text(batches=f"!apply:builtins.eval [{code}]"))
    done = run("show", recipe, "--trust", "--logdir", tmp_path / "logs", path=without_torch)
    assert done.returncode == 0, done.stderr
    assert "profiling_dimensions.batch_sizes: [3]" in done.stdout
    assert (tmp_path / "made").exists()


# --- files that are no recipes ---


def test_a_missing_recipe(refuse: Refuse) -> None:
    message = refuse("recipes/wav2vec.yaml")
    assert message.startswith("profile.py: There is no recipe recipes/wav2vec.yaml.")
    assert "Did you mean `recipes/wav2vec2.yaml`?" in message
    assert "`python profile.py ls`" in message


def test_a_folder_as_recipe(refuse: Refuse) -> None:
    assert "profile.py: recipes is a folder; name a recipe in it" in refuse("recipes")


def test_a_binary_file_as_recipe(refuse: Refuse) -> None:
    message = refuse(SPEECH)
    assert "speech.flac is not a text file; expected YAML in UTF-8" in message


# --- audio ---


def empty(folder: Path) -> str:
    (folder / "empty.wav").touch()
    return "empty.wav"


def garbage(folder: Path) -> str:
    (folder / "garbage.wav").write_bytes(np.random.default_rng(0).bytes(5000))
    return "garbage.wav"


def truncated_wav(folder: Path) -> str:
    soundfile.write(folder / "whole.wav", np.zeros(16000, np.float32), 16000)
    whole = (folder / "whole.wav").read_bytes()
    (folder / "cut.wav").write_bytes(whole[: len(whole) // 2])
    return "cut.wav"


def truncated_flac(folder: Path) -> str:
    whole = SPEECH.read_bytes()
    (folder / "cut.flac").write_bytes(whole[: len(whole) // 2])
    return "cut.flac"


def words(folder: Path) -> str:
    (folder / "transcript.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 20)
    return "transcript.txt"


def no_samples(folder: Path) -> str:
    soundfile.write(folder / "nothing.wav", np.zeros(0, np.float32), 16000)
    return "nothing.wav"


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda folder: "gone.wav", ["there is no audio file", "gone.wav"]),
        (lambda folder: ".", ["is a folder", "name one audio file"]),
        (empty, ["empty.wav is empty", "name a file with audio in it"]),
        (no_samples, ["nothing.wav holds no samples", "name a file with audio in it"]),
        (garbage, ["garbage.wav cannot be read as audio", "convert it to WAV or FLAC"]),
        (truncated_wav, ["cut.wav is cut off", "of 16000 samples", "copy or convert it again"]),
        (truncated_flac, ["cut.flac", "convert"]),
        (words, ["transcript.txt cannot be read as audio", "convert it to WAV or FLAC"]),
    ],
)
def test_audio_that_cannot_be_used(
    tmp_path: Path, refuse_recipe: Callable[[str], str], make: Callable[[Path], str], expected: list[str]
) -> None:
    line = only_mistake(refuse_recipe(text(grid=f"example_audio: {make(tmp_path)}")))
    assert line.startswith("recipe.yaml:7: profiling_dimensions.example_audio: ")
    for part in expected:
        assert part in line


# --- what stands on the command line ---


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--device", "tpu"], ["Unknown device `tpu`", "cpu, cuda, xpu, mtia, mps"]),
        (["--device", "cuda:x"], ["Unknown device `cuda:x`", "with its number as cuda:1"]),
        (["--threads", "0"], ["--threads 0", "greater than 0"]),
        (["--threads", "-2"], ["--threads -2", "greater than 0"]),
        (["--threads", "two"], ["--threads", "'two'"]),
        (["measure.warmup"], ["`measure.warmup` is not understood", "key=value, such as measure.warmup=3"]),
        (["measuer.warmup=3"], ["measuer: unknown key. Did you mean `measure`?", "from the command line"]),
        (["measure.warmpu=3"], ["measure.warmpu: unknown key. Did you mean `warmup`?", "from the command line"]),
        (["mesure.warmup=3"], ["mesure: unknown key. Did you mean `measure`?"]),
        (["measure.warmup=three"], ["measure.warmup: expected a whole number, got 'three'", "from the command line"]),
        (["measure.warmup=[3"], ["`measure.warmup=[3` is not YAML"]),
        (["measure.warmup=3", "measure.warmup=4"], ["`measure.warmup` is set twice"]),
        (["profiling_dimensions.batch_sizes=[]"], ["at least one value", "from the command line"]),
        (["profiling_dimensions.example_audio=gone.wav"], ["there is no audio file", "from the command line"]),
        (["--resume", "20200101-000000-abcd"], ["no run of wav2vec2", "to resume"]),
        (["--resume", "latest"], ["no run of wav2vec2", "to resume"]),
        (["--frobnicate"], ["--frobnicate"]),
    ],
)
def test_a_mistake_on_the_command_line(refuse: Refuse, arguments: list[str], expected: list[str]) -> None:
    message = refuse("recipes/wav2vec2.yaml", *arguments)
    assert "profile.py: " in message
    for part in expected:
        assert part in message


@pytest.mark.parametrize("place", ["{folder}/file", "{folder}/file/logs", "/proc/no-such-folder"])
def test_a_log_folder_that_cannot_be_written(tmp_path: Path, refuse: Refuse, place: str) -> None:
    (tmp_path / "file").write_text("in the way")
    logdir = Path(place.format(folder=tmp_path))
    message = refuse("recipes/wav2vec2.yaml", logdir=logdir)
    assert f"Cannot write in the log folder {logdir}" in message
    assert "Choose another one with --logdir" in message
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_log_folder_without_permission(tmp_path: Path, refuse: Refuse) -> None:
    """The superuser may write anywhere but in places like /sys."""
    logdir = tmp_path / "closed"
    logdir.mkdir(mode=0o500)
    message = refuse("recipes/wav2vec2.yaml", logdir=logdir if os.geteuid() else Path("/sys/kernel"))
    assert "Cannot write in the log folder" in message
    assert "--logdir" in message


# --- the other commands ---


def test_copying_an_unknown_recipe(tmp_path: Path, refuse: Refuse) -> None:
    message = refuse("cp", "wav2vec", tmp_path / "mine.yaml", logdir=None)
    assert "no shipped recipe `wav2vec`. Did you mean `wav2vec2`?" in message
    assert not (tmp_path / "mine.yaml").exists()


def test_copying_onto_a_file_that_is_there(tmp_path: Path, refuse: Refuse) -> None:
    (tmp_path / "mine.yaml").write_text("my work")
    message = refuse("cp", "wav2vec2", tmp_path / "mine.yaml", logdir=None)
    assert f"{tmp_path / 'mine.yaml'} is there already" in message
    assert "--force" in message
    assert (tmp_path / "mine.yaml").read_text() == "my work"


def test_copying_to_a_place_below_a_file(tmp_path: Path, refuse: Refuse) -> None:
    (tmp_path / "file").write_text("in the way")
    assert "Cannot write" in refuse("cp", "wav2vec2", tmp_path / "file" / "mine.yaml", logdir=None)


def test_a_report_of_an_unknown_run(refuse: Refuse) -> None:
    message = refuse("report", "20200101-000000-abcd")
    assert "There is no run 20200101-000000-abcd" in message
    assert "`python profile.py RECIPE` makes one" in message


def test_a_report_of_a_folder_that_is_no_run(refuse: Refuse) -> None:
    assert "is not a run: there is no results.json in it" in refuse("report", ROOT / "recipes")


def test_a_report_of_a_damaged_run(tmp_path: Path, refuse: Refuse) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "results.json").write_text('{"schema": 1, "run"')
    message = refuse("report", tmp_path / "run")
    assert "results.json is damaged" in message


def test_a_report_of_a_run_that_was_cut_off_shows_what_is_whole(tmp_path: Path) -> None:
    ResultsFile(tmp_path, results(ok(1, 1, 0.1), ok(2, 1, 0.2))).write()
    (tmp_path / "tables.md").write_text("of the whole run")
    file = tmp_path / "results.json"
    text = file.read_text()
    file.write_text(text[: text.rindex('"rtf"')])
    done = run("report", tmp_path)
    assert done.returncode == 2
    assert "|             1 s | 0.100 |" in done.stdout
    assert "is damaged: it is not JSON" in done.stderr
    assert "1 of its cells cannot be read. What is whole of it is shown" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.json", "tables.md"]
    assert (tmp_path / "tables.md").read_text() == "of the whole run", "the last whole views are kept"


def test_a_report_that_cannot_be_written_is_printed_all_the_same(tmp_path: Path) -> None:
    ResultsFile(tmp_path, results(ok(1, 1, 0.1))).write()
    (tmp_path / "report.html").mkdir()
    done = run("report", tmp_path)
    assert done.returncode == 1
    assert "|             1 s | 0.100 |" in done.stdout
    assert f"could not be written to {tmp_path}: Is a directory. Choose another folder with --output" in done.stderr
    elsewhere = run("report", tmp_path, "--output", tmp_path / "a" / "b")
    assert elsewhere.returncode == 0
    assert (tmp_path / "a" / "b" / "report.html").is_file()


def test_a_report_of_an_empty_run_says_that_nothing_was_measured(tmp_path: Path) -> None:
    ResultsFile(tmp_path, results()).write()
    done = run("report", tmp_path)
    assert done.returncode == 0
    assert "This run has no cell with a figure" in done.stderr
    assert "no figure" in (tmp_path / "report.html").read_text()


def test_showing_a_recipe_checks_it_too(tmp_path: Path, refuse: Refuse) -> None:
    (tmp_path / "recipe.yaml").write_text(text(batches="[0]", more="mesure: {}"))
    message = refuse("show", tmp_path / "recipe.yaml")
    assert "has 2 mistakes" in message


def test_the_path_of_torch_is_really_blocked(without_torch: Path) -> None:
    """Else the tests above would prove nothing: counting parameters does need torch."""
    done = run("show", "wav2vec2", "--counts", path=without_torch)
    assert SHOUT in done.stderr
