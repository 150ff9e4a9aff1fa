"""A data set beside the grid: real lengths in real batches, through the real program."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.helpers import program
from tests.helpers.tiny import SPEECH
from tests.unit.dataset import recordings

SHIPPED = program.ROOT / "samples" / "librispeech-train-clean-100.shapes.tsv"

HEARD = '''
import json, pathlib, torch

class Heard(torch.nn.Module):
    """Writes down what it is given."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self.file = pathlib.Path(file)

    def forward(self, waveforms: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        sums = [row.abs().sum().item() for row in waveforms]
        with self.file.open("a") as file:
            file.write(json.dumps({"shape": list(waveforms.shape), "lengths": lengths.tolist(), "sums": sums}) + "\\n")
        return waveforms

class Slow(torch.nn.Module):
    """Takes a tenth of a second for what lasts 0.3 s, and says so."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self.file = pathlib.Path(file)

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        if waveforms.shape[1] == 4800:
            import time

            time.sleep(0.1)
            with self.file.open("a") as file:
                file.write("x")
        return waveforms
'''


def shapes_file(folder: Path, lengths: list[float]) -> Path:
    file = folder / "set.shapes.tsv"
    rows = [f"u{number}\t{seconds}" for number, seconds in enumerate(lengths)]
    file.write_text("\n".join(["id\tseconds", *rows]) + "\n")
    return file


def dataset_recipe(
    folder: Path, dataset: str, name: str = "Sleeper", arguments: str = "{}", more: str = program.QUICK
) -> Path:
    return program.module_recipe(
        folder, name, arguments, seconds="[0.1]", batches="[1]", more=f"{more}dataset: {dataset}\n"
    )


def only(results: dict[str, Any]) -> dict[str, Any]:
    (found,) = results["datasets"]
    return dict(found)


@pytest.mark.slow
def test_the_time_over_a_set_is_per_second_of_real_speech(tmp_path: Path) -> None:
    lengths = [0.1, 0.4, 0.2, 0.3, 0.2, 0.2, 0.4, 0.1]
    shapes_file(tmp_path, lengths)
    more = program.QUICK + "variants: [{name: one}, {name: two, threads: 1}]\n"
    recipe = dataset_recipe(
        tmp_path, "{source: set.shapes.tsv, batch_size: 2, rounds: 2}", arguments="{per_second: 0.05}", more=more
    )
    done = program.run(recipe, "--trust", "--logdir", tmp_path / "logs")
    assert done.returncode == 0, done.stdout + done.stderr
    results = program.results_in(tmp_path / "logs")
    assert [found["variant"] for found in results["datasets"]] == ["one", "two"]
    for found in results["datasets"]:
        assert found["utterances"] == 8
        assert found["batches"] == 4
        assert found["seconds_of_audio"] == pytest.approx(sum(lengths))
        padded = 2 * (0.4 + 0.3 + 0.2 + 0.4)
        assert found["share_of_padding"] == pytest.approx(1 - sum(lengths) / padded)
        assert found["share_of_padding"] == pytest.approx(found["expected_share_of_padding"])
        assert found["rtf"] * sum(lengths) == pytest.approx(found["rtf_padded"] * padded), "the same time"
        # The sleeper takes 50 ms for each second that it is given, padding included.
        assert found["rtf_padded"] >= 0.05
        assert len(found["rounds"]) == 2
        assert [len(sample["latency_s"]) for sample in found["samples"]] == [2] * 4
        assert [sample["ids"] for sample in found["samples"]] == [
            ["u0", "u1"],
            ["u2", "u3"],
            ["u4", "u5"],
            ["u6", "u7"],
        ]
        assert found["by_length"][0]["batches_of"] == "shortest quarter"
        assert found["by_length"][0]["seconds"] == [0.2, 0.2]
    assert "Data set set.shapes.tsv, batches of 2 in corpus order" in done.stdout
    assert "lengths alone" in done.stdout, "it says that the audio is not that of the set"


@pytest.mark.slow
def test_the_model_hears_the_audio_of_the_set(tmp_path: Path) -> None:
    stereo = recordings.write(tmp_path / "audio" / "stereo.wav", 0.5, channels=2)
    recordings.write(tmp_path / "audio" / "low.wav", 0.3, rate=8000)
    speech, rate = soundfile.read(SPEECH, dtype="float32")
    lines = [
        {"id": "stereo", "audio": "audio/stereo.wav"},
        {"id": "low", "audio": "audio/low.wav"},
        {"id": "piece", "audio": str(SPEECH), "offset": 1.5, "duration": 0.7, "text": "a piece"},
    ]
    (tmp_path / "set.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "heard.py").write_text(HEARD)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "pretrained_model:\n  source: heard.Heard\n  type: Module\n  input: waveform_and_lengths\n"
        f"  lengths: counts\n  overrides: {{file: {tmp_path / 'heard.jsonl'}}}\n"
        "profiling_dimensions:\n  audio_mockup_secs: [0.1]\n  batch_sizes: [1]\n"
        "measure: {warmup: 1, min_calls: 5, budget: 0.1, rounds: 1}\n"
        "dataset: {source: set.jsonl, batch_seconds: 2.1, order: sorted, transcripts: ignore, rounds: 1}\n"
    )
    done = program.run(recipe, "--trust", "--logdir", tmp_path / "logs")
    assert done.returncode == 0, done.stdout + done.stderr
    heard = [json.loads(line) for line in (tmp_path / "heard.jsonl").read_text().splitlines()]
    (batch,) = {json.dumps(call) for call in heard if call["shape"][0] == 3}
    call = json.loads(batch)
    assert call["shape"] == [3, 11200]
    assert call["lengths"] == [4800, 8000, 11200], "sorted, resampled, cut, padded"
    piece = speech[round(1.5 * rate) : round(2.2 * rate)]
    assert call["sums"][2] == pytest.approx(float(np.abs(piece).sum()), rel=1e-4)
    both = soundfile.read(stereo, dtype="float32")[0].mean(axis=1)
    assert call["sums"][1] == pytest.approx(float(np.abs(both).sum()), rel=1e-4)
    assert only(program.results_in(tmp_path / "logs"))["audio"] == "its own"


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "rounds"), [("", 3), (", rounds: 1", 1), (", rounds: 4", 4)])
def test_the_set_has_rounds_of_its_own(tmp_path: Path, asked: str, rounds: int) -> None:
    """The grid makes two: what it has no round for comes at the end."""
    shapes_file(tmp_path, [0.1, 0.2])
    recipe = dataset_recipe(tmp_path, f"{{source: set.shapes.tsv{asked}}}", "Nothing")
    done = program.run(recipe, "--trust", "--logdir", tmp_path / "logs")
    assert done.returncode == 0, done.stdout + done.stderr
    results = program.results_in(tmp_path / "logs")
    assert [len(sample["latency_s"]) for sample in only(results)["samples"]] == [rounds, rounds]
    assert len(only(results)["rounds"]) == rounds
    assert [len(cell["latency_s"]["rounds"]) for cell in results["cells"]] == [2]


WAYS = {
    "raise": "the model does not like this length",
    "SIGKILL": "killed by SIGKILL",
    "hang": "no result within 3 s (measure.limit)",
}


@pytest.mark.slow
def test_a_batch_that_dies_fails_alone_and_is_named(tmp_path: Path) -> None:
    """In whatever way: each variant has its own."""
    shapes_file(tmp_path, [0.3, 0.1, 0.2, 0.1, 0.4, 0.1])
    variants = [f"- {{name: {what}, set: {{pretrained_model.overrides.what: {what}}}}}\n" for what in WAYS]
    recipe = dataset_recipe(
        tmp_path,
        "{source: set.shapes.tsv, batch_size: 2, rounds: 2}",
        "Trouble",
        "{at: 0.2}",
        "measure: {warmup: 1, min_calls: 5, budget: 0.1, limit: 3, rounds: 2}\nvariants:\n" + "".join(variants),
    )
    done = program.run(recipe, "--trust", "--logdir", tmp_path / "logs")
    datasets = program.results_in(tmp_path / "logs")["datasets"]
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert [found["variant"] for found in datasets] == list(WAYS)
    for found in datasets:
        (failed,) = found["failed"]
        assert (failed["batch"], failed["longest"]) == (2, "u2")
        assert WAYS[found["variant"]] in failed["reason"]
        assert found["batches"] == 2
        assert found["seconds_of_audio"] == pytest.approx(0.9), "of the batches that were measured"
        assert [len(sample["latency_s"]) for sample in found["samples"]] == [2, 0, 2]
    assert done.stdout.count("the longest u2 of 0.200 s): failed") == len(WAYS)


@pytest.mark.slow
def test_batches_that_cannot_fit_in_memory_are_skipped_with_the_figure(tmp_path: Path) -> None:
    shapes_file(tmp_path, [0.005, 100, 0.01])
    recipe = program.module_recipe(
        tmp_path,
        "Hungry",
        "{megabytes_per_second: 20000}",
        seconds="[0.005, 0.01]",
        batches="[1]",
        more=program.QUICK + "dataset: {source: set.shapes.tsv}\n",
    )
    done = program.run(recipe, "--trust", "--logdir", tmp_path / "logs")
    found = only(program.results_in(tmp_path / "logs"))
    assert done.returncode == 0, "skipped on purpose is no failure"
    (skipped,) = found["skipped"]
    assert skipped["longest"] == "u1"
    assert "GB is available" in skipped["reason"]
    assert found["batches"] == 2


def bad_manifest(folder: Path) -> None:
    for name, seconds in {"a": 0.2, "b": 0.3, "c": 0.1}.items():
        recordings.write(folder / f"{name}.flac", seconds)
    rows = ["a.flac,", "nowhere.flac,", "b.flac,-2", "b.flac,", "c.flac,"]
    (folder / "set.csv").write_text("\n".join(["path,duration", *rows]) + "\n")


def test_bad_entries_stop_a_run_before_it_starts(tmp_path: Path) -> None:
    bad_manifest(tmp_path)
    recipe = dataset_recipe(tmp_path, "{source: set.csv}")
    for command in ([], ["show"]):
        done = program.run(*command, recipe, "--trust", "--logdir", tmp_path / "logs")
        assert done.returncode == 2
        assert "has 2 entries that cannot be used; nothing was run" in done.stderr
        assert "line 3: there is no audio file" in done.stderr
        assert "line 4: lasts -2 s, which is impossible" in done.stderr
        assert "on_error: skip" in done.stderr
    assert not list((tmp_path / "logs").glob("*/*"))


def test_the_list_of_bad_entries_has_an_end(tmp_path: Path) -> None:
    (tmp_path / "set.csv").write_text("path\n" + "nowhere.wav\n" * 50)
    done = program.run("show", dataset_recipe(tmp_path, "{source: set.csv}"), "--trust")
    assert done.returncode == 2
    assert done.stderr.count("there is no audio file") == 20
    assert "and 30 more" in done.stderr


@pytest.mark.slow
def test_bad_entries_can_be_skipped_and_are_counted_and_named(tmp_path: Path) -> None:
    bad_manifest(tmp_path)
    whole = (tmp_path / "c.flac").read_bytes()
    (tmp_path / "c.flac").write_bytes(whole[: len(whole) // 2])  # its header is whole
    recipe = dataset_recipe(tmp_path, "{source: set.csv, on_error: skip, batch_size: 2}")
    done = program.run(recipe, "--trust", "--logdir", tmp_path / "logs")
    assert done.returncode == 0, done.stdout + done.stderr
    found = only(program.results_in(tmp_path / "logs"))
    assert "Skipped 2 of 5 entries: line 3: there is no audio file" in done.stdout
    assert "line 4: lasts -2 s" in done.stdout
    assert (found["utterances"], found["failed"], list(found["unreadable"])) == (2, [], ["c"])
    assert found["skipped"][0]["reason"] == "none of its utterances can be read"
    assert "Skipped 1 utterances that could not be read: c (" in done.stdout


@pytest.mark.slow
def test_a_file_that_breaks_in_the_middle_fails_its_batch(tmp_path: Path) -> None:
    for name in ("a", "b"):
        recordings.write(tmp_path / "audio" / f"{name}.flac", 0.3)
    broken = tmp_path / "audio" / "b.flac"
    broken.write_bytes(broken.read_bytes()[: broken.stat().st_size // 2])
    done = program.run(dataset_recipe(tmp_path, "{source: audio}"), "--trust", "--logdir", tmp_path / "logs")
    (failed,) = only(program.results_in(tmp_path / "logs"))["failed"]
    assert done.returncode == 1
    assert failed["longest"] == "b"
    assert "b cannot be read" in failed["reason"]


@pytest.mark.slow
def test_an_interrupted_pass_is_kept_and_taken_up(tmp_path: Path) -> None:
    (tmp_path / "heard.py").write_text(HEARD)
    shapes_file(tmp_path, [0.3] * 60)
    calls = tmp_path / "calls"
    calls.touch()
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"pretrained_model:\n  source: heard.Slow\n  type: Module\n  overrides: {{file: {calls}}}\n"
        "profiling_dimensions:\n  audio_mockup_secs: [0.1]\n  batch_sizes: [1]\n"
        "measure: {warmup: 1, min_calls: 5, budget: 0.1, rounds: 1}\n"
        "dataset: {source: set.shapes.tsv, rounds: 1}\n"
    )
    process = program.start(recipe, "--trust", "--logdir", tmp_path / "logs", "--quiet")
    deadline = time.monotonic() + 120
    while calls.stat().st_size < 10 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    before = only(program.results_in(tmp_path / "logs"))
    assert 5 <= before["batches"] < 60
    first = [sample["latency_s"] for sample in before["samples"]]
    made = calls.stat().st_size
    folder = program.run_folder(tmp_path / "logs")

    done = program.run(recipe, "--trust", "--logdir", tmp_path / "logs", "--resume", folder.name)
    assert done.returncode == 0, done.stdout + done.stderr
    after = only(program.results_in(tmp_path / "logs"))
    assert after["batches"] == 60
    for earlier, sample in zip(first, after["samples"], strict=True):
        assert sample["latency_s"][: len(earlier)] == earlier
    again = calls.stat().st_size - made
    assert again == 60 - before["batches"] + 1, "only what was missing, and the warm-up"

    program.run(recipe, "--trust", "--logdir", tmp_path / "logs", "--resume", folder.name)
    assert calls.stat().st_size == made + again, "nothing is left to do"

    shapes_file(tmp_path, [0.3] * 60 + [0.2])
    refused = program.run(recipe, "--trust", "--logdir", tmp_path / "logs", "--resume", folder.name)
    assert refused.returncode == 2
    assert "the data set set.shapes.tsv has changed" in refused.stderr


def test_show_tells_what_would_be_measured(tmp_path: Path) -> None:
    recipe = dataset_recipe(
        tmp_path, f"{{source: {os.path.relpath(SHIPPED, tmp_path)}, batch_size: 30, order: sorted, limit: 300}}"
    )
    shown = program.run("show", recipe, "--trust", "--no-counts")
    assert "991 utterances, 3.5 h of audio; 34 batches of 30, sorted by length" in shown.stdout
    assert "10 of them drawn over all lengths (300 utterances)" in shown.stdout
    assert "not from the corpus itself" in shown.stdout
    whole = program.run(
        "show", recipe, "dataset.order=corpus", "dataset.limit=null", "--trust", "--no-counts", "--json"
    )
    (data,) = json.loads(whole.stdout)["datasets"]
    assert data["drawn"] == {"utterances": 991, "of_utterances": 991, "batches": 34, "of_batches": 34}
    assert data["expected_share_of_padding"] == pytest.approx(0.281, abs=0.001)
    assert data["targets"]["mean"] == pytest.approx(67.85, abs=0.001)


@pytest.mark.slow
def test_a_sorted_sample_does_not_measure_the_longest_alone(tmp_path: Path) -> None:
    shapes_file(tmp_path, [0.01 * number for number in range(1, 101)])
    recipe = dataset_recipe(tmp_path, "{source: set.shapes.tsv, batch_size: 4, order: sorted, limit: 20}", "Nothing")
    done = program.run(recipe, "--trust", "--logdir", tmp_path / "logs")
    found = only(program.results_in(tmp_path / "logs"))
    longest = [sample["longest_s"] for sample in found["samples"]]
    assert longest == sorted(longest)
    assert len(longest) == 5
    assert sum(longest) / 5 == pytest.approx(0.52), "the mean over all 25 batches"
    assert "Drawn: 5 of 25 batches (20 of 100 utterances)" in done.stdout


@pytest.mark.parametrize(
    ("dataset", "sentence"),
    [
        ("{source: nowhere.csv}", "dataset.source: there is no file or folder"),
        ("{source: recipe.yaml, batch_sice: 3}", "Did you mean `batch_size`?"),
        ("{source: recipe.yaml, batch_size: 3, batch_frames: 10}", "contradict each other"),
        ("{source: recipe.yaml}", "is none of what a data set can be"),
        ("5", "a section with keys: source, format, order"),
    ],
)
def test_a_wrong_section_is_explained(tmp_path: Path, dataset: str, sentence: str) -> None:
    done = program.run(dataset_recipe(tmp_path, dataset), "--trust", "--logdir", tmp_path / "logs")
    assert done.returncode == 2
    assert sentence in done.stderr


def test_a_model_that_hears_one_at_a_time_gets_no_batches(tmp_path: Path) -> None:
    shapes_file(tmp_path, [0.1, 0.2])
    recipe = tmp_path / "recipe.yaml"
    text = (program.ROOT / "recipes" / "streaming.yaml").read_text().replace("../samples", str(SPEECH.parent))
    recipe.write_text(text + "\ndataset: {source: set.shapes.tsv, batch_seconds: 3}\n")
    done = program.run("show", recipe, "--no-counts")
    assert done.returncode == 2
    assert "takes one recording at a time; set batch_size: 1" in done.stderr


# -- the command `shapes`


def test_shapes_of_a_folder_can_be_profiled(tmp_path: Path) -> None:
    folder = tmp_path / "19" / "198"
    for number, seconds in enumerate([0.5, 1.5, 1.0]):
        recordings.write(folder / f"19-198-{number:04d}.flac", seconds)
    (folder / "19-198.trans.txt").write_text("19-198-0000 YES\n19-198-0001 NO IT IS NOT\n")
    target = tmp_path / "set.shapes.tsv"
    done = program.run("shapes", tmp_path / "19", target)
    assert done.returncode == 0, done.stderr
    assert "3 utterances, 3.00 s of audio" in done.stdout
    assert "1 of them have no transcript" in done.stderr
    lines = [line for line in target.read_text().splitlines() if not line.startswith("#")]
    assert lines == ["id\tseconds\ttarget", "19-198-0000\t0.500\t3", "19-198-0001\t1.500\t12", "19-198-0002\t1.000\t"]
    recipe = dataset_recipe(tmp_path, "{source: set.shapes.tsv, batch_size: 2, order: sorted}", "Nothing")
    assert "3 utterances, 3.00 s of audio; 2 batches of 2" in program.run("show", recipe, "--trust").stdout
    assert program.run("shapes", tmp_path / "19", target).returncode == 2, "what is there is not overwritten"


def test_shapes_refuses_what_it_cannot_read_by_name(tmp_path: Path) -> None:
    good = recordings.write(tmp_path / "good.wav", 0.5)
    (tmp_path / "bad.wav").write_text("no audio")
    shutil.copy(good, tmp_path / "other.wav")
    sources = [good, tmp_path / "bad.wav", tmp_path / "other.wav"]
    target = tmp_path / "out" / "set.shapes.tsv"
    done = program.run("shapes", *sources, target)
    assert done.returncode == 2
    assert "an entry that cannot be used; nothing was written" in done.stderr
    assert "bad.wav cannot be read as audio" in done.stderr
    assert not target.exists()
    done = program.run("shapes", *sources, target, "--skip")
    assert done.returncode == 0
    assert "2 utterances, 1.00 s of audio. Left out 1 that cannot be used" in done.stdout
    assert program.run("shapes", good, tmp_path / "good.wav").returncode == 2, "audio is never written over"
    assert good.stat().st_size > 1000
