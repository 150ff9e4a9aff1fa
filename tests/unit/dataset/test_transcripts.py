"""Which utterances can be scored, and what is wrong with the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler.dataset.items import DatasetError, Reading, Utterance
from profiler.dataset.manifest import read_dataset
from profiler.dataset.plan import check_transcripts, plan_dataset, references_fingerprint
from profiler.recipe.load import load_recipe
from profiler.recipe.schema import Dataset
from tests.helpers import talker
from tests.unit.dataset import recordings

AUDIO = Path("a.wav")


def reading(*texts: str | None, audio: Path | None = AUDIO) -> Reading:
    return Reading(Path("set"), "csv", [Utterance(f"u{n}", 1.0, audio, text=text) for n, text in enumerate(texts)])


def settings(**more: str) -> Dataset:
    return Dataset.model_validate({"source": "set", **more})


def test_a_set_with_transcripts_is_scored() -> None:
    found = check_transcripts(reading("yes", "no"), settings())
    assert (found.scored, len(found.utterances), found.problems) == (True, 2, [])


def test_a_set_without_any_is_timed_and_no_more() -> None:
    found = check_transcripts(reading(None, None), settings())
    assert (found.scored, len(found.utterances), found.problems, found.reason) == (False, 2, [], None)


def test_transcripts_can_be_ignored() -> None:
    found = check_transcripts(reading("yes", None), settings(transcripts="ignore"))
    assert (found.scored, len(found.utterances), found.problems) == (False, 2, [])


def test_transcripts_of_lengths_alone_cannot_be_scored() -> None:
    found = check_transcripts(reading("yes", "no", audio=None), settings())
    assert not found.scored
    assert "lengths" in str(found.reason)


def test_what_cannot_be_scored_is_named_with_the_reason() -> None:
    source = reading("yes", None, " ", "[noise]")
    source.utterances.append(Utterance("far", 1.0, None, text="yes"))
    found = check_transcripts(source, settings(normalise="english"))
    assert [utterance.id for utterance in found.utterances] == ["u0"]
    assert [str(problem) for problem in found.problems] == [
        "u1: has no transcript",
        "u2: its transcript is empty",
        "u3: nothing is left of its transcript, '[noise]', after the normalisation english",
        "far: has a transcript, but no audio",
    ]
    assert len(check_transcripts(source, settings(normalise="none")).utterances) == 2


def test_a_training_run_scores_nothing(tmp_path: Path) -> None:
    talker.manifest(tmp_path, [("a", recordings.write(tmp_path / "a.wav", 1.0).name, "yes"), ("b", "a.wav", "")])
    recipe = talker.recipe(tmp_path, "{source: set.csv}")
    plan = plan_dataset(load_recipe(recipe, {"mode": "training"}, trust=True))
    assert plan is not None
    assert (plan.scored, len(plan.utterances)) == (False, 2)
    with pytest.raises(DatasetError, match="b: its transcript is empty"):
        plan_dataset(load_recipe(recipe, trust=True))


def test_the_fingerprint_is_of_ids_and_references_alone() -> None:
    one, two = Utterance("a", 1.0, AUDIO, text="x"), Utterance("b", 2.0, AUDIO, text="y")
    assert references_fingerprint([one, two]) == references_fingerprint(
        [two, Utterance("a", 3.0, Path("elsewhere.wav"), text="x")]
    )
    assert references_fingerprint([one, two]) != references_fingerprint([one, Utterance("b", 2.0, AUDIO, text="z")])


def test_a_transcript_that_was_decoded_wrongly_is_named(tmp_path: Path) -> None:
    recordings.write(tmp_path / "a.wav", 1.0)
    source = tmp_path / "set.jsonl"
    source.write_text('{"audio": "a.wav", "text": "caf\ufffd"}\n', encoding="utf-8")
    (problem,) = read_dataset(source).problems
    assert "line 1: was read with the wrong encoding" in str(problem)


def test_lines_of_blanks_are_no_transcripts(tmp_path: Path) -> None:
    recordings.write(tmp_path / "a-1.flac", 1.0)
    (tmp_path / "a.trans.txt").write_text("   \na-1 YES\n\t\n")
    found = read_dataset(tmp_path)
    assert ([utterance.text for utterance in found.utterances], found.problems) == (["YES"], [])


# -- a Hugging Face data set on disk


def rows(folder: Path) -> dict[str, list[object]]:
    """Audio as bytes in the table, as a path (whose bytes are taken in as well), and bytes that are no audio."""
    first = recordings.write(folder / "first.flac", 0.5)
    return {
        "id": ["a", "b", "c"],
        "audio": [
            {"bytes": first.read_bytes(), "path": "inside.flac"},
            {"bytes": None, "path": str(recordings.write(folder / "second.wav", 0.3))},
            {"bytes": b"no audio", "path": None},
        ],
        "sentence": ["one", "two", "three"],
    }


def saved(folder: Path, columns: dict[str, list[object]]) -> Path:
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict(columns)
    if isinstance(columns["audio"][0], dict):
        table = table.cast_column("audio", datasets.Audio(sampling_rate=16000))
    table.save_to_disk(folder)
    return folder


def test_a_hugging_face_set_on_disk_is_read_without_decoding(tmp_path: Path) -> None:
    from profiler.audio import read_mono
    from profiler.dataset.tables import audio_of

    source = saved(tmp_path / "set", rows(tmp_path))
    found = read_dataset(source)
    assert found.format == "huggingface"
    assert [(u.id, u.seconds, u.text, u.row) for u in found.utterances] == [
        ("a", 0.5, "one", 0),
        ("b", 0.3, "two", 1),
    ]
    assert len(read_mono(audio_of(source, 0), 16000)) == 8000
    (problem,) = found.problems
    assert "row 2: its audio, row-2, cannot be read as audio" in str(problem)


def test_a_column_of_paths_is_audio_too(tmp_path: Path) -> None:
    recordings.write(tmp_path / "set" / "a.wav", 0.4)
    source = saved(tmp_path / "set", {"audio": ["a.wav"], "text": ["yes"]})
    (utterance,) = read_dataset(source).utterances
    assert (utterance.seconds, utterance.audio, utterance.text) == (0.4, source / "a.wav", "yes")


def test_of_several_splits_one_has_to_be_named(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict({"audio": ["a.wav"], "text": ["yes"]})
    datasets.DatasetDict({"test": table, "train": table}).save_to_disk(tmp_path / "set")
    with pytest.raises(DatasetError, match=r"holds 2 splits; name one of them: .*set/test, .*set/train"):
        read_dataset(tmp_path / "set")
    assert "there is no audio file" in str(read_dataset(tmp_path / "set" / "test").problems[0])


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    source = saved(tmp_path / "set", {"audio": ["a.wav"], "text": ["yes"]})
    next(source.glob("*.arrow")).write_bytes(b"nothing")
    with pytest.raises(DatasetError, match="cannot be read as a data set on disk"):
        read_dataset(source)
