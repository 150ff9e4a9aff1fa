"""The same three utterances in every format come out the same; what cannot be used is named with its place."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from profiler.dataset.items import DatasetError, Reading
from profiler.dataset.manifest import find_format, read_dataset
from tests.unit.dataset import recordings

LENGTHS = {"a": 0.5, "b": 1.25, "c": 0.8}
TEXTS = {"a": "ONE", "b": "TWO THREE", "c": "FOUR"}


@pytest.fixture
def audio(tmp_path: Path) -> Path:
    """A folder with three recordings."""
    for name, seconds in LENGTHS.items():
        recordings.write(tmp_path / "audio" / f"{name}.wav", seconds)
    return tmp_path / "audio"


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_json(path: Path, values: list[dict[str, Any]]) -> Path:
    text = "".join(json.dumps(value) + "\n" for value in values)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def problems(reading: Reading) -> list[str]:
    return [str(problem) for problem in reading.problems]


def recording(name: str, kind: str = "file") -> dict[str, Any]:
    source = {"type": kind, "channels": [0], "source": f"audio/{name}.wav"}
    return {"id": name, "sources": [source], "sampling_rate": 16000, "duration": LENGTHS[name]}


def make_csv(folder: Path) -> Path:
    rows = [f"{name},{LENGTHS[name]},audio/{name}.wav,speaker,{TEXTS[name]}" for name in LENGTHS]
    return write_lines(folder / "set.csv", ["ID,duration,wav,spk_id,wrd", *rows])


def make_tsv(folder: Path) -> Path:
    return write_lines(
        folder / "set.tsv", ["id\tpath\tsentence", *(f"{name}\taudio/{name}.wav\t{TEXTS[name]}" for name in LENGTHS)]
    )


def make_jsonl(folder: Path) -> Path:
    values = [
        {"id": name, "audio_filepath": f"audio/{name}.wav", "duration": LENGTHS[name], "text": TEXTS[name]}
        for name in LENGTHS
    ]
    return write_json(folder / "set.jsonl", values)


def make_cuts(folder: Path) -> Path:
    values = [
        {
            "id": name,
            "start": 0,
            "duration": LENGTHS[name],
            "channel": 0,
            "supervisions": [{"id": name, "recording_id": name, "start": 0, "duration": 1, "text": TEXTS[name]}],
            "recording": recording(name),
            "type": "MonoCut",
        }
        for name in LENGTHS
    ]
    return write_json(folder / "set_cuts.jsonl.gz", values)


def make_recordings(folder: Path) -> Path:
    write_json(
        folder / "set_supervisions.jsonl.gz",
        [
            {"id": name, "recording_id": name, "start": 0.0, "duration": LENGTHS[name], "text": TEXTS[name]}
            for name in LENGTHS
        ],
    )
    return write_json(folder / "set_recordings.jsonl.gz", [recording(name) for name in LENGTHS])


def make_kaldi(folder: Path) -> Path:
    write_lines(folder / "wav.scp", [f"{name} audio/{name}.wav" for name in LENGTHS])
    write_lines(folder / "text", [f"{name} {TEXTS[name]}" for name in LENGTHS])
    return folder


def make_folder(folder: Path) -> Path:
    write_lines(folder / "audio" / "x.trans.txt", [f"{name} {TEXTS[name]}" for name in LENGTHS])
    return folder / "audio"


@pytest.mark.parametrize(
    ("make", "format"),
    [
        (make_csv, "csv"),
        (make_tsv, "csv"),
        (make_jsonl, "jsonl"),
        (make_cuts, "lhotse"),
        (make_recordings, "lhotse"),
        (make_kaldi, "kaldi"),
        (make_folder, "folder"),
    ],
)
def test_every_format_gives_the_same_utterances(tmp_path: Path, audio: Path, make: Any, format: str) -> None:
    source = make(tmp_path)
    reading = read_dataset(source)
    assert problems(reading) == []
    assert reading.format == format
    found = reading.utterances
    assert [utterance.id for utterance in found] == list(LENGTHS), "in the order of the source"
    assert {u.id: u.seconds for u in found} == pytest.approx(LENGTHS)
    assert {u.id: u.text for u in found} == TEXTS
    for utterance in found:
        assert utterance.audio is not None
        assert utterance.audio.resolve() == audio / f"{utterance.id}.wav"


def test_pieces_of_a_recording_keep_their_place(tmp_path: Path, audio: Path) -> None:
    write_lines(tmp_path / "wav.scp", ["rec flac -c -d -s audio/b.wav |"])
    write_lines(tmp_path / "segments", ["u1 rec 0.1 0.4", "u2 rec 0.5 -1"])
    first, second = read_dataset(tmp_path).utterances
    assert (first.id, first.offset, first.seconds) == ("u1", 0.1, pytest.approx(0.3))
    assert (second.offset, second.seconds) == (0.5, pytest.approx(0.75)), "up to the end of the recording"


def test_lengths_alone_are_enough(tmp_path: Path) -> None:
    write_lines(tmp_path / "utt2dur", ["u1 1.5", "u2 2.5"])
    found = read_dataset(tmp_path)
    assert [(u.id, u.seconds, u.audio) for u in found.utterances] == [("u1", 1.5, None), ("u2", 2.5, None)]
    assert len(found.without_audio) == 2


def test_what_is_wrong_with_entries_is_named_with_its_line(tmp_path: Path, audio: Path) -> None:
    (audio / "empty.wav").touch()
    (audio / "text.wav").write_text("this is no audio")
    whole = (audio / "b.wav").read_bytes()
    (audio / "cut.wav").write_bytes(whole[: len(whole) // 2])
    source = write_lines(
        tmp_path / "set.csv",
        [
            "id,path,duration,offset,text,tokens",
            "ok,audio/a.wav,,,,",
            "gone,audio/nowhere.wav,1,,,",
            "ok,audio/b.wav,,,,",
            "zero,audio/b.wav,0,,,",
            "minus,audio/b.wav,-3,,,",
            "nan,audio/b.wav,nan,,,",
            "word,audio/b.wav,long,,,",
            "samples,,20000,,,",
            "beyond,audio/a.wav,9,,,",
            "after,audio/a.wav,,7,,",
            "before,audio/a.wav,0.1,-1,,",
            "empty,audio/empty.wav,,,,",
            "text,audio/text.wav,,,,",
            "cut,audio/cut.wav,,,,",
            "nothing,,,,,",
            "few",
            "target,audio/a.wav,,,,13",
            "half,audio/a.wav,,,,1.5",
            f"story,audio/a.wav,,,{'word ' * 20},",
            "folder,audio,,,,",
            "fine,audio/c.wav,,,FOUR,12",
        ],
    )
    reading = read_dataset(source)
    assert [utterance.id for utterance in reading.utterances] == ["ok", "fine"]
    expected = {
        3: "there is no audio file",
        4: "the id ok is there twice, first in line 2",
        5: "lasts 0 s, which is impossible",
        6: "lasts -3 s, which is impossible",
        7: "expected a number of seconds, got 'nan'",
        8: "expected a number of seconds, got 'long'",
        9: "are these samples or milliseconds?",
        10: "ends at 9.00 s, but",
        11: "begins at 7 s, but",
        12: "begins before its recording",
        13: "is empty",
        14: "cannot be read as audio",
        15: "is cut off: 9989 of 20000 samples are there",
        16: "has neither audio nor a length",
        17: "has 1 fields, the header 6",
        18: "the target is longer than its audio: 13 tokens in 0.5 s, which are 12 frames at 25 per second",
        19: "expected a whole number of target tokens, got '1.5'",
        20: "the transcript is longer than its audio: 100 characters in 0.5 s",
        21: "is a folder, not an audio file",
    }
    assert len(reading.problems) == len(expected), problems(reading)
    for problem, (line, text) in zip(reading.problems, expected.items(), strict=True):
        assert problem.place == f"line {line}"
        assert text in problem.message


def test_json_that_is_none_is_named_with_its_line(tmp_path: Path, audio: Path) -> None:
    source = tmp_path / "set.jsonl"
    good = json.dumps({"audio": {"path": "audio/a.wav", "bytes": None}, "text": "ONE"}).encode()
    source.write_bytes(
        b"\n".join(
            [
                good,
                b"{broken",
                b"[1, 2]",
                b'{"speaker": 3}',
                b'{"audio": "audio/b.wav", "text": 7}',
                b'{"audio": "audio/b.wav", "text": "caf\xe9"}',
            ]
        )
    )
    reading = read_dataset(source)
    assert [(u.id, u.text) for u in reading.utterances] == [("a", "ONE")]
    lines = problems(reading)
    assert [line.split(":")[0] for line in lines] == ["line 2", "line 3", "line 4", "line 5", "line 6"]
    for line, text in zip(
        lines,
        ["is not JSON", "is not a JSON object", "expected a key with the audio", "is not a text: 7", "not in UTF-8"],
        strict=True,
    ):
        assert text in line


def test_lhotse_entries_that_cannot_be_read_are_named(tmp_path: Path, audio: Path) -> None:
    cuts = [
        {"id": "mix", "type": "MixedCut", "tracks": []},
        {"id": "url", "start": 0, "duration": 1, "type": "MonoCut", "recording": recording("a", "url")},
        {"id": "features", "start": 3, "duration": 1.5, "type": "MonoCut", "supervisions": 5, "features": {}},
    ]
    reading = read_dataset(write_json(tmp_path / "some.jsonl", cuts))
    assert "line 1: is a MixedCut" in problems(reading)[0]
    assert "of the type url" in problems(reading)[1]
    assert [(u.id, u.seconds, u.audio) for u in reading.utterances] == [("features", 1.5, None)]
    make_recordings(tmp_path)
    write_json(
        tmp_path / "set_supervisions.jsonl.gz",
        [
            {"id": "a", "recording_id": "a", "start": 0, "duration": 0.5},
            {"id": "x", "recording_id": "nowhere"},
            {"id": "y", "recording_id": ["a"]},
        ],
    )
    found = problems(read_dataset(tmp_path / "set_supervisions.jsonl.gz"))
    for name in ("nowhere", "['a']"):
        assert any(f"there is no recording {name} for this transcript" in line for line in found)
    assert sum("has no supervision" in line for line in found) == 2


def test_kaldi_commands_are_not_run(tmp_path: Path, audio: Path) -> None:
    witness = tmp_path / "was-run"
    write_lines(tmp_path / "wav.scp", ["a audio/a.wav", f"b touch {witness} |", "b twice.wav", "c"])
    write_lines(tmp_path / "text", ["a ONE", "nobody HELLO"])
    reading = read_dataset(tmp_path / "wav.scp")
    assert [utterance.id for utterance in reading.utterances] == ["a"]
    assert not witness.exists()
    found = " ".join(problems(reading))
    assert "wav.scp line 2: is a command, which is not run" in found
    assert "wav.scp line 3: the id b is there twice" in found
    assert "wav.scp line 4: has no file" in found
    assert "text line 2: there is no audio for the transcript of nobody" in found


def test_a_folder_says_what_it_did_not_take(tmp_path: Path, audio: Path) -> None:
    make_folder(tmp_path)
    with (audio / "x.trans.txt").open("a") as file:
        file.write("ghost BOO\n")
    (audio / "notes.pdf").touch()
    recordings.write(audio / "deep" / "d.flac", 0.3, rate=8000, channels=2)
    reading = read_dataset(audio)
    assert [utterance.id for utterance in reading.utterances] == ["a", "b", "c", "d"]
    assert reading.utterances[-1].seconds == pytest.approx(0.3)
    assert [utterance.id for utterance in reading.without_text] == ["d"]
    assert problems(reading) == ["x.trans.txt line 4: there is no audio for the transcript of ghost"]
    assert reading.notes == ["Not taken for audio, by their names: notes.pdf."]


def test_files_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        recordings.write(tmp_path / folder / "a.wav", 0.2)
    assert [u.id for u in read_dataset(tmp_path).utterances] == ["one/a.wav", "two/a.wav"]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("set.csv", b"speaker,sex\n1,f\n", "line 1: expected a column with the audio"),
        ("set.csv", b"", "found nothing"),
        ("set.csv", "path\n".encode("utf-16"), "is in UTF-16"),
        ("set.jsonl.gz", b"this is no gzip", "is not a whole gzip file"),
        ("set.xyz", b"?", "is none of what a data set can be"),
        ("dataset_info.json", b"{}", "cannot be read as a data set on disk"),
        ("metadata.csv", b"file_name\n", "has a manifest in it"),
        ("set.txt", b"hello", "There is no audio in"),
    ],
)
def test_a_source_that_cannot_be_read_says_so(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    (tmp_path / name).write_bytes(content)
    of_folder = ("dataset_info.json", "metadata.csv", "set.txt")
    with pytest.raises(DatasetError, match=sentence):
        read_dataset(tmp_path if name in of_folder else tmp_path / name)


def test_a_format_can_be_given(tmp_path: Path, audio: Path) -> None:
    source = make_csv(tmp_path).rename(tmp_path / "list.txt")
    with pytest.raises(DatasetError):
        find_format(source)
    assert len(read_dataset(source, "csv").utterances) == 3


def test_a_folder_that_cannot_be_read_is_a_problem_with_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root, who may read everything: what the system would say is put in its place."""
    recordings.write(tmp_path / "set" / "a.wav", 0.5)
    (tmp_path / "set" / "closed").mkdir()
    (tmp_path / "set" / "loop").symlink_to(tmp_path / "set")
    scandir = os.scandir

    def refusing(path: str) -> object:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    reading = read_dataset(tmp_path / "set")
    assert [utterance.id for utterance in reading.utterances] == ["a"]
    assert [str(problem) for problem in reading.problems] == ["closed: this folder cannot be read: Permission denied"]


def test_a_folder_of_everything_is_not_taken_for_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profiler.dataset.folders.MANY_FILES", 50)
    recordings.write(tmp_path / "a.wav", 0.5)
    for number in range(120):
        (tmp_path / f"{number}.txt").touch()
    with pytest.raises(DatasetError, match="of the first 121 files in it 1 are audio"):
        read_dataset(tmp_path)


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.csv"])
def test_a_line_without_end_is_refused(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profiler.dataset.items.LONGEST_LINE", 10_000)
    content = b'{"seconds": 1, "text": "' + b"a" * 100_000
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(DatasetError, match="is no manifest"):
        read_dataset(tmp_path / name)
