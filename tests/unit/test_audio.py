"""Any recording -> batches of an exact length."""

from __future__ import annotations

import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import soundfile

from profiler.audio import NOISE_LEVEL, Speech, check_audio, read_mono
from profiler.dataset.checks import length_of
from profiler.errors import AudioError
from tests.helpers.tiny import SPEECH

RATE = 16000


def tone(seconds: float, rate: int, hertz: float = 440.0) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def ramp(folder: Path, samples: int = 1000) -> Path:
    """A file in which every sample is another value, so that pieces can be told apart."""
    file = folder / "ramp.wav"
    soundfile.write(file, np.arange(1, samples + 1, dtype=np.float32) / (samples + 1), RATE, subtype="FLOAT")
    return file


# --- reading ---


@pytest.mark.parametrize(
    ("suffix", "kind"), [("wav", "PCM_16"), ("wav", "FLOAT"), ("flac", "PCM_16"), ("ogg", "VORBIS")]
)
@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44100, 48000])
def test_any_format_and_rate_becomes_the_models_rate(tmp_path: Path, suffix: str, kind: str, rate: int) -> None:
    file = tmp_path / f"tone.{suffix}"
    soundfile.write(file, tone(1.0, rate), rate, subtype=kind)
    check_audio(file)
    samples = read_mono(file, RATE)
    assert samples.dtype == np.float32
    assert len(samples) == pytest.approx(RATE, abs=rate * 0.01 if suffix == "ogg" else 1)
    # Still the same tone: its frequency is where it was, in hertz.
    spectrum = np.abs(np.fft.rfft(samples))
    assert np.argmax(spectrum) * RATE / len(samples) == pytest.approx(440, abs=2)


def test_channels_are_mixed_to_one(tmp_path: Path) -> None:
    left, right = tone(0.5, RATE, 300), tone(0.5, RATE, 700)
    soundfile.write(tmp_path / "stereo.wav", np.stack([left, right], axis=1), RATE, subtype="FLOAT")
    np.testing.assert_allclose(read_mono(tmp_path / "stereo.wav", RATE), (left + right) / 2, atol=1e-6)


def test_many_channels_at_another_rate(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "six.wav", np.stack([tone(1, 48000)] * 6, axis=1), 48000)
    assert read_mono(tmp_path / "six.wav", RATE).shape == (RATE,)


def test_the_shipped_sample_can_be_read() -> None:
    check_audio(SPEECH)
    assert len(read_mono(SPEECH, RATE)) > 5 * RATE


# --- batches ---


@pytest.mark.parametrize("seconds", [0.001, 0.1, 0.25, 1 / 3, 1, 1.5, 2.7182, 60])
@pytest.mark.parametrize("rate", [8000, 16000, 44100])
def test_rows_have_exactly_the_asked_length(seconds: float, rate: int) -> None:
    batch = Speech(SPEECH, rate).batch(seconds, 2, seed=0)
    assert batch.waveforms.shape == (2, round(seconds * rate))
    assert batch.waveforms.dtype == np.float32
    assert batch.rate == rate
    assert batch.seconds_of_audio == pytest.approx(2 * seconds, abs=2 / rate)


def test_a_length_below_one_sample_still_gives_one() -> None:
    assert Speech(None, RATE).batch(1e-9, 1, seed=0).waveforms.shape == (1, 1)


def test_a_short_clip_is_repeated_whole(tmp_path: Path) -> None:
    clip = read_mono(ramp(tmp_path, 1000), RATE)
    (row,) = Speech(tmp_path / "ramp.wav", RATE).batch(3500 / RATE, 1, seed=1).waveforms
    start = int(np.argmin(np.abs(clip - row[0])))
    np.testing.assert_array_equal(row, np.tile(clip, 5)[start : start + 3500])


def test_rows_of_a_batch_are_different_pieces(tmp_path: Path) -> None:
    rows = Speech(ramp(tmp_path, 1000), RATE).batch(100 / RATE, 8, seed=0).waveforms
    assert len({float(row[0]) for row in rows}) == 8


def test_rows_differ_even_when_the_clip_is_shorter_than_a_row(tmp_path: Path) -> None:
    rows = Speech(ramp(tmp_path, 100), RATE).batch(1000 / RATE, 4, seed=0).waveforms
    assert len({row.tobytes() for row in rows}) == 4


def test_a_seed_gives_the_same_batch_again_and_another_seed_another() -> None:
    speech = Speech(SPEECH, RATE)
    first, again, other = (speech.batch(0.5, 2, seed).waveforms for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_more_rows_than_samples(tmp_path: Path) -> None:
    assert Speech(ramp(tmp_path, 3), RATE).batch(0.01, 10, seed=0).waveforms.shape == (10, 160)


def test_no_file_means_random_data_at_the_level_of_speech() -> None:
    speech = Speech(None, RATE)
    batch = speech.batch(1, 3, seed=0)
    assert batch.waveforms.std() == pytest.approx(NOISE_LEVEL, rel=0.05)
    assert len({row.tobytes() for row in batch.waveforms}) == 3
    np.testing.assert_array_equal(batch.waveforms, speech.batch(1, 3, seed=0).waveforms)


# --- padding ---


def test_without_padding_all_of_a_batch_is_audio() -> None:
    batch = Speech(SPEECH, RATE).batch(1, 4, seed=0)
    assert batch.share_of_padding == 0
    assert list(batch.lengths) == [RATE] * 4


@pytest.mark.parametrize("padding", [0.1, 0.5, 0.9])
def test_padding_spreads_the_lengths_below_the_full_one(padding: float) -> None:
    batch = Speech(None, RATE).batch(1, 64, seed=0, padding=padding)
    assert batch.lengths[0] == RATE  # the batch has the length that the cell names
    assert batch.lengths.min() >= (1 - padding) * RATE - 1
    assert len(set(batch.lengths)) > 32
    assert batch.share_of_padding == pytest.approx(padding / 2, abs=padding / 6)
    for row, length in zip(batch.waveforms, batch.lengths, strict=True):
        assert not row[length:].any()
        assert row[:length].any()


def test_real_audio_and_padding_add_up() -> None:
    batch = Speech(SPEECH, RATE).batch(2, 8, seed=1, padding=0.5)
    assert batch.seconds_of_audio == pytest.approx(8 * 2 * (1 - batch.share_of_padding))


def test_a_single_row_has_nothing_to_be_padded_to() -> None:
    assert Speech(SPEECH, RATE).batch(1, 1, seed=0, padding=0.5).share_of_padding == 0


# --- files that are no audio ---


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match=r"there is no audio file .*gone\.wav"):
        check_audio(tmp_path / "gone.wav")


def test_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="is a folder; name one audio file"):
        check_audio(tmp_path)


def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    (tmp_path / "empty.wav").touch()
    with pytest.raises(AudioError, match=r"empty\.wav is empty"):
        check_audio(tmp_path / "empty.wav")


@pytest.mark.parametrize("suffix", ["wav", "flac", "ogg", "mp3", "txt"])
@pytest.mark.parametrize("content", [b"this is text, not sound\n" * 40, bytes(range(256)) * 8, b"\0" * 4096, b"RIFF"])
def test_what_is_not_audio_says_how_to_convert(tmp_path: Path, suffix: str, content: bytes) -> None:
    file = tmp_path / f"broken.{suffix}"
    file.write_bytes(content)
    with pytest.raises(AudioError, match=rf"broken\.{suffix} (cannot be read as audio|holds no samples)"):
        check_audio(file)


def test_a_header_without_samples_is_a_mistake(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "nothing.wav", np.zeros(0, np.float32), RATE)
    with pytest.raises(AudioError, match="holds no samples"):
        check_audio(tmp_path / "nothing.wav")


@pytest.mark.parametrize("share", [0.01, 0.5, 0.9])
def test_a_truncated_flac_is_a_mistake(tmp_path: Path, share: float) -> None:
    whole = SPEECH.read_bytes()
    (tmp_path / "cut.flac").write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(AudioError, match=r"cut\.flac"):
        check_audio(tmp_path / "cut.flac")


@pytest.mark.parametrize("suffix", ["wav", "ogg", "mp3"])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_truncated_recording_is_a_mistake(tmp_path: Path, suffix: str, share: float) -> None:
    soundfile.write(tmp_path / f"whole.{suffix}", tone(4.0, RATE), RATE)
    whole = (tmp_path / f"whole.{suffix}").read_bytes()
    (tmp_path / f"cut.{suffix}").write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(AudioError, match=rf"cut\.{suffix}"):
        check_audio(tmp_path / f"cut.{suffix}")


def test_how_much_of_a_truncated_wav_is_left_is_said(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "whole.wav", tone(1.0, RATE), RATE, subtype="PCM_16")
    whole = (tmp_path / "whole.wav").read_bytes()
    (tmp_path / "cut.wav").write_bytes(whole[:-16000])
    with pytest.raises(AudioError, match="8000 of 16000 samples"):
        check_audio(tmp_path / "cut.wav")


def test_a_wav_from_a_pipe_does_not_know_its_size_and_is_fine(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "pipe.wav", tone(0.5, RATE), RATE, subtype="PCM_16")
    content = bytearray((tmp_path / "pipe.wav").read_bytes())
    size = content.index(b"data") + 4
    content[4:8] = content[size : size + 4] = b"\xff" * 4
    (tmp_path / "pipe.wav").write_bytes(content)
    check_audio(tmp_path / "pipe.wav")
    assert len(read_mono(tmp_path / "pipe.wav", RATE)) == RATE // 2


def test_a_recording_under_another_name_is_fine(tmp_path: Path) -> None:
    shutil.copy(SPEECH, tmp_path / "speech.bin")
    check_audio(tmp_path / "speech.bin")


# --- files that nobody recorded ---


def test_only_the_first_minutes_of_a_long_recording_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And as much as a longer cell needs, whichever cell came before."""
    monkeypatch.setattr("profiler.audio.USED_SECONDS", 0.5)
    file = ramp(tmp_path, 4 * RATE)
    whole = read_mono(file, RATE)
    speech = Speech(file, RATE)
    short = speech.batch(0.1, 4, seed=0).waveforms
    assert short.max() <= whole[RATE // 2]
    long = speech.batch(2, 4, seed=0).waveforms
    assert long.shape == (4, 2 * RATE)
    assert whole[RATE // 2] < long.max() <= whole[2 * RATE]
    np.testing.assert_array_equal(speech.batch(0.1, 4, seed=0).waveforms, short)


def test_a_sparse_file_of_gigabytes_takes_the_memory_of_what_is_used(tmp_path: Path) -> None:
    file = tmp_path / "large.wav"
    soundfile.write(file, tone(1, RATE), RATE, subtype="PCM_16")
    size = 4_000_000_000
    with file.open("r+b") as raw:
        raw.seek(4)
        raw.write((size - 8).to_bytes(4, "little"))
        raw.seek(40)
        raw.write((size - 44).to_bytes(4, "little"))
        raw.truncate(size)
    tracemalloc.start()
    check_audio(file)
    Speech(file, RATE).batch(1, 1, seed=0)
    assert tracemalloc.get_traced_memory()[1] < 200_000_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("rate", "channels", "said"), [(1, 1, "1 Hz"), (2_000_000_000, 1, "Hz"), (16000, 600, "600 ch")]
)
def test_rates_and_channels_that_nobody_records_are_refused(
    tmp_path: Path, rate: int, channels: int, said: str
) -> None:
    file = tmp_path / "odd.wav"
    soundfile.write(file, np.zeros((100, channels), np.float32), rate)
    for read in (check_audio, lambda path: Speech(path, RATE)):
        with pytest.raises(AudioError, match=said):
            read(file)
    assert said in str(length_of(file, "odd.wav"))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_samples_that_are_not_numbers_are_refused_and_counted(tmp_path: Path, value: float) -> None:
    samples = tone(1, RATE)
    samples[100:103] = value
    soundfile.write(tmp_path / "nan.wav", samples, RATE, subtype="FLOAT")
    for read in (check_audio, lambda path: Speech(path, RATE), lambda path: read_mono(path, RATE, 0.0, 0.5)):
        with pytest.raises(AudioError, match=r"nan\.wav has 3 samples that are not numbers"):
            read(tmp_path / "nan.wav")
    read_mono(tmp_path / "nan.wav", RATE, 0.5, 0.5)
