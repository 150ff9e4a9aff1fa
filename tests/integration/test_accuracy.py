"""Error rates beside speed, through the real program: measured, scored again, traded off; and what goes wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from profiler.accuracy import transcripts
from tests.helpers import program, talker
from tests.helpers.road import Done

pytestmark = pytest.mark.slow

VARIANTS = """variants:
- {name: plain}
- {name: loud, set: {pretrained_model.overrides.loud: true}}
- {name: untrained, set: {pretrained_model.checkpoint: null, pretrained_model.weights: random}}
- {name: deadly, set: {pretrained_model.overrides.deadly: 1.1}}
"""
GOOD = 24


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A run over 24 utterances and some that cannot be used, in batches of 4, by four variants."""
    folder = tmp_path_factory.mktemp("talker")
    rows = talker.speech(folder, GOOD)
    broken = folder / "broken.flac"
    broken.write_bytes((folder / "u5.flac").read_bytes()[:2000])  # its header is whole
    bad = [("broken", "broken.flac", "one"), ("u0", "u1.flac", "one"), ("silent", "u1.flac", " ")]
    bad += [("noise", "u2.flac", "[noise]"), ("far", "nowhere.flac", "one")]
    talker.manifest(folder, [*rows[:10], *bad, *rows[10:]])
    recipe = talker.recipe(folder, "{source: set.csv, batch_size: 4, on_error: skip}", VARIANTS)
    done = program.run(recipe, "--trust", "--logdir", folder / "logs")
    assert done.returncode == 1, "some utterances end the process of the last variant"
    return Done(done.stdout, done.stderr, folder / "logs")


def accuracy(done: Done, variant: str) -> dict[str, Any]:
    return accuracy_in(done.folder)[variant]


def accuracy_in(folder: Path) -> dict[str, Any]:
    return {found["variant"]: found for found in json.loads((folder / "results.json").read_text())["accuracy"]}


def test_error_rates_are_those_of_the_known_mistakes(heard: Done) -> None:
    found = accuracy(heard, "plain")
    words = sum(1 + number % 6 + (number % 7 == 0) for number in range(GOOD))
    assert (found["utterances"], found["of_utterances"]) == (GOOD, GOOD + 1)
    wer = found["wer"]
    assert (wer["substitutions"], wer["insertions"], wer["deletions"], wer["units"]) == (5, 0, 4, words)
    assert wer["value"] == pytest.approx(9 / words)
    assert wer["ci95"][0] < wer["value"] < wer["ci95"][1]
    assert found["cer"]["value"] > 0
    assert (found["normalisation"], found["scorer"].split()[0]) == ("basic", "jiwer")
    assert found["normaliser"].startswith("whisper-normalizer")


def test_the_rtf_is_of_the_same_calls(heard: Done) -> None:
    (data,) = [found for found in heard.results["datasets"] if found["variant"] == "plain"]
    assert accuracy(heard, "plain")["rtf"] == data["rtf"]
    kept = transcripts.read(heard.folder / accuracy(heard, "plain")["transcripts"])
    first = [sample["latency_s"][0] for sample in data["samples"]]
    assert {found.latency_s for found in kept.values()} == set(first), "the text is that of the timed call"
    assert sorted({found.seconds for found in kept.values()}) == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.2])


def test_what_the_model_wrote_is_kept_as_it_was(heard: Done) -> None:
    kept = transcripts.read(heard.folder / "loud" / "transcripts.jsonl")
    assert len(kept) == GOOD
    assert kept["u1"].hypothesis == "ONE TWO!"
    assert kept["u1"].reference == "one two"


def test_random_weights_get_no_error_rate_and_the_column_says_why(heard: Done) -> None:
    found = accuracy(heard, "untrained")
    assert (found["wer"], found["cer"], found["reason"]) == (None, None, "random weights")
    assert found["rtf"] > 0, "speed is honest all the same"
    assert not (heard.folder / "untrained" / "transcripts.jsonl").exists()
    rows = [line.split("|") for line in heard.stdout.splitlines() if line.startswith("|") and "untrained" in line]
    assert sum(row[2].strip() == "random weights" for row in rows) == 2, "beside the others, and beside speed"
    assert "no error rate: random weights" in heard.stderr


def test_an_utterance_that_ends_the_process_costs_no_other(heard: Done) -> None:
    """Those of 1.2 s, four of them, each in a batch with others."""
    found = accuracy(heard, "deadly")
    assert found["utterances"] == GOOD - 4
    left = {entry["reason"]: entry["ids"] for entry in found["left_out"]}
    assert left["killed by SIGKILL; out of memory is the usual cause"] == ["u5", "u11", "u17", "u23"]
    assert "4 not scored (u5, u11, u17, u23): killed by SIGKILL" in heard.stdout
    assert "deadly: of 20 utterances, where others transcribed 24" in heard.stdout
    assert found["difference"] == {"to": "plain", "value": 0.0, "ci95": [0.0, 0.0], "utterances": GOOD - 4}


def test_bad_entries_are_skipped_named_and_counted(heard: Done) -> None:
    assert "Skipped 4 of 29 entries" in heard.stdout
    assert "the id u0 is there twice, first in line 2" in heard.stdout
    assert "there is no audio file" in heard.stdout
    (left,) = accuracy(heard, "plain")["left_out"]
    assert left["ids"] == ["broken"]
    assert left["reason"].startswith("cannot be read")


def test_the_trade_off_is_a_table_and_plots(heard: Done) -> None:
    assert "Accuracy beside speed" in heard.stdout
    page = (heard.folder / "report.html").read_text()
    assert "Word error rate on set.csv 10.23 [4.35, 17.28] % of plain to 12.50" in page
    for cost in ("rtf", "memory", "size"):
        for suffix in ("png", "svg", "pdf"):
            assert (heard.folder / f"tradeoff-{cost}.{suffix}").stat().st_size > 5000
    drawn = (heard.folder / "tradeoff-rtf.svg").read_text()
    assert "Word error rate, %" in drawn
    assert all(name in drawn for name in ("plain", "loud", "deadly"))
    assert "untrained" not in drawn


# -- scoring again, without the model


@pytest.fixture
def again(heard: Done, tmp_path: Path) -> Path:
    """A copy of the run, as if it came from another machine: no recipe, no audio, no model."""
    return Path(shutil.copytree(heard.folder, tmp_path / "run"))


def test_scoring_can_be_repeated_without_model_or_torch(again: Path) -> None:
    before = accuracy_in(again)
    script = f"""
import runpy, sys
sys.argv = ["profile.py", "report", {str(again)!r}, "--rescore", "--normalise", "none"]
try:
    runpy.run_path("profile.py", run_name="__main__")
finally:
    print("torch" in sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=program.ROOT, capture_output=True, text=True, timeout=60)
    assert done.stderr.splitlines()[-1] == "False"
    after = accuracy_in(again)
    assert after["loud"]["normalisation"] == "none"
    assert after["loud"]["wer"]["value"] >= 1, "capitals are errors now"
    assert after["plain"]["wer"] == before["plain"]["wer"]
    assert after["loud"]["difference"]["value"] > 0.5
    assert after["untrained"] == before["untrained"]
    assert "Texts normalised: none" in done.stdout
    assert "Texts normalised: none" in (again / "tables.md").read_text()
    assert len(json.loads((again / "results.json").read_text())["cells"][0]["latency_s"]["samples"]) >= 5

    done = program.run("report", again, "--rescore", "--normalise", "basic")
    assert done.returncode == 0, done.stderr
    assert accuracy_in(again) == before, "the same to the last digit of the intervals"


def test_scoring_again_takes_the_texts_as_they_are_now(again: Path) -> None:
    file = again / "plain" / "transcripts.jsonl"
    file.write_text(file.read_text().replace('"hypothesis": "one two"', '"hypothesis": "one"'))
    program.run("report", again, "--rescore")
    assert accuracy_in(again)["plain"]["wer"]["deletions"] > 4


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [(["--normalise", "english"], "needs --rescore"), (["--rescore", "--normalise", "german"], "invalid choice")],
)
def test_wrong_arguments_are_explained(again: Path, arguments: list[str], sentence: str) -> None:
    done = program.run("report", again, *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_texts_that_are_gone_or_damaged_are_named(again: Path) -> None:
    before = (again / "results.json").read_bytes()
    (again / "loud" / "transcripts.jsonl").write_text("{}\n")
    done = program.run("report", again, "--rescore")
    assert done.returncode == 2
    assert "transcripts.jsonl, line 1: is damaged" in done.stderr
    (again / "loud" / "transcripts.jsonl").unlink()
    done = program.run("report", again, "--rescore")
    assert done.returncode == 2
    assert "did not keep what its model wrote" in done.stderr
    assert (again / "results.json").read_bytes() == before, "nothing was lost"


def test_an_exported_run_is_scored_again_where_its_texts_were_packed(heard: Done, tmp_path: Path) -> None:
    bare, whole = tmp_path / "bare.zip", tmp_path / "whole.zip"
    told = program.run("export", heard.folder, bare)
    assert "Left out: the transcripts of 3 variants (--with-transcripts adds them)" in told.stdout
    refused = program.run("report", bare, "--rescore")
    assert refused.returncode == 2
    assert "left out when it was exported" in refused.stderr
    assert program.run("export", heard.folder, whole, "--with-transcripts").returncode == 0
    done = program.run("tradeoff", bare, whole, "--json")
    assert len(json.loads(done.stdout)) == 8
    done = program.run("tradeoff", whole, "--normalise", "none", "--json")
    points = {point["name"]: point for point in json.loads(done.stdout)}
    assert points["loud"]["wer"]["value"] >= 1


# -- over several runs


def changed(folder: Path, target: Path, change: Any) -> Path:
    shutil.copytree(folder, target)
    results = json.loads((target / "results.json").read_text())
    change(results)
    (target / "results.json").write_text(json.dumps(results))
    return target


def test_runs_are_put_side_by_side(heard: Done, tmp_path: Path) -> None:
    def quicker(results: dict[str, Any]) -> None:
        results["run"]["recipe"] = "elsewhere/quick.yaml"
        results["environment"]["cpu"] = "another processor"
        for found in (*results["accuracy"], *results["datasets"]):
            found["rtf"] /= 1000

    other = changed(heard.folder, tmp_path / "other", quicker)
    done = program.run("tradeoff", heard.folder, other, "--out", tmp_path / "plots", "--against", "rtf")
    assert done.returncode == 0, done.stderr
    rows = {line.split("|")[1].strip(): line for line in done.stdout.splitlines() if line.startswith("|")}
    on_front = {name for name, line in rows.items() if "RTF" in line.split("|")[-2] and name != "variant"}
    assert on_front
    assert on_front <= {"quick: plain", "quick: loud"}, "what is a thousand times quicker"
    assert "different machines" in done.stdout
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == [
        "tradeoff-rtf.pdf",
        "tradeoff-rtf.png",
        "tradeoff-rtf.svg",
    ]

    shown = program.run("tradeoff", heard.folder, other, "--json", "--error", "cer")
    points = {point["name"]: point for point in json.loads(shown.stdout)}
    assert all("size" in points[name]["front"] for name in ("quick: plain", "talker: plain")), "as small as each other"
    assert "rtf" not in points["talker: plain"]["front"]
    assert points["quick: untrained"]["reason"] == "random weights"


def test_runs_of_other_speech_or_other_texts_are_not_compared(heard: Done, tmp_path: Path) -> None:
    def of_other_speech(results: dict[str, Any]) -> None:
        for found in results["accuracy"]:
            found["references"] = "another"

    other = changed(heard.folder, tmp_path / "other", of_other_speech)
    done = program.run("tradeoff", heard.folder, other)
    assert done.returncode == 2
    assert "different data sets" in done.stderr

    plain = Path(shutil.copytree(heard.folder, tmp_path / "plain"))
    program.run("report", plain, "--rescore", "--normalise", "none")
    done = program.run("tradeoff", heard.folder, plain)
    assert done.returncode == 2
    assert "different normalisations of texts: basic" in done.stderr
    done = program.run("tradeoff", heard.folder, plain, "--normalise", "english", "--out", tmp_path / "plots")
    assert done.returncode == 0, done.stderr
    assert "texts normalised: english" in done.stdout
    assert accuracy_in(plain)["plain"]["normalisation"] == "none", "nothing is written"


def test_a_run_without_error_rates_trades_nothing(heard: Done, tmp_path: Path) -> None:
    bare = changed(heard.folder, tmp_path / "bare", lambda results: results["accuracy"].clear())
    done = program.run("tradeoff", bare)
    assert done.returncode == 2
    assert "names no data set with transcripts" in done.stderr
    done = program.run("report", bare, "--rescore")
    assert done.returncode == 2
    assert "has nothing to score: it was run without transcripts" in done.stderr


# -- wrong input, and kills


def test_bad_transcripts_stop_a_run_before_it_starts(tmp_path: Path) -> None:
    rows = talker.speech(tmp_path, 3)
    talker.manifest(tmp_path, [*rows, ("mute", "u0.flac", ""), ("u1", "u1.flac", "one two")])
    recipe = talker.recipe(tmp_path, "{source: set.csv}")
    done = program.run("show", recipe, "--trust", "--no-counts")
    assert done.returncode == 2
    assert "has 2 entries that cannot be used; nothing was run" in done.stderr
    assert "mute: its transcript is empty" in done.stderr
    assert "line 6: the id u1 is there twice" in done.stderr
    assert "dataset.on_error: skip" in done.stderr
    assert "dataset.transcripts: ignore" in done.stderr
    shown = program.run("show", recipe, "dataset.on_error=skip", "--trust", "--no-counts")
    assert "3 utterances" in shown.stdout
    assert "Error rates are measured, texts normalised: basic." in shown.stdout


def test_a_kill_loses_no_text_and_a_resumed_run_repeats_none(tmp_path: Path) -> None:
    """The speech is in a data set of Hugging Face on disk, its audio in the table."""
    datasets = pytest.importorskip("datasets")
    rows = talker.speech(tmp_path, 30)
    audio = [{"bytes": (tmp_path / name).read_bytes(), "path": name} for _, name, _ in rows]
    table = datasets.Dataset.from_dict(
        {"id": [row[0] for row in rows], "audio": audio, "text": [row[2] for row in rows]}
    )
    table.cast_column("audio", datasets.Audio(sampling_rate=16000)).save_to_disk(tmp_path / "set")
    recipe = talker.recipe(tmp_path, "{source: set, rounds: 1}", overrides="{pause: 0.1}")
    arguments = (recipe, "--trust", "--quiet", "--logdir", tmp_path / "logs", "measure.rounds=1")
    process = program.start(*arguments, start_new_session=True)
    deadline = time.monotonic() + 120
    kept: list[Path] = []
    while time.monotonic() < deadline and not (kept and kept[0].read_text().count("\n") >= 5):
        kept = list((tmp_path / "logs").glob("*/*/*/transcripts.jsonl"))
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    before = kept[0].read_text()
    lines = before.count("\n")
    assert 5 <= lines < 30
    kept[0].write_text(before + '{"id": "u2')  # as if it had been writing

    done = program.run(*arguments, "--resume", "latest")
    assert done.returncode == 0, done.stdout + done.stderr
    after = kept[0].read_text()
    assert after.startswith(before)
    assert after.count("\n") == 30, "each utterance once"
    results = program.results_in(tmp_path / "logs")
    (found,) = results["accuracy"]
    assert (found["utterances"], found["of_utterances"]) == (30, 30)
    assert found["rtf_percentiles"]["p50"] > 0
    assert "p90" not in found["rtf_percentiles"], "30 utterances do not tell"
    (data,) = results["datasets"]
    assert [len(sample["latency_s"]) for sample in data["samples"]] == [1] * 30, "no call was made again"
