"""Files of shapes, and the one that ships: its figures are those that are known of the corpus."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import pytest

from profiler.dataset import shapes
from profiler.dataset.batching import make_batches, share_of_padding
from profiler.dataset.items import DatasetError, Utterance
from profiler.dataset.manifest import read_dataset
from profiler.recipe.schema import Dataset
from samples import make_shapes
from tests.helpers.program import ROOT

SHIPPED = ROOT / "samples" / "librispeech-train-clean-100.shapes.tsv"


def test_frames_become_seconds_and_stay_with_their_targets(tmp_path: Path) -> None:
    file = tmp_path / "some.shapes.tsv"
    file.write_text("# frames_per_second: 50\nid\tframes\ttarget\nx\t100\t10\ny\t25\t\n")
    first, second = read_dataset(file).utterances
    assert first == Utterance("x", 2.0, target_tokens=10)
    assert second == Utterance("y", 0.5)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    said = [Utterance("x", 1.5, target_tokens=3), Utterance("y", 2.25)]
    shapes.write(tmp_path / "t.shapes.tsv", said, ["about it"], 25)
    assert read_dataset(tmp_path / "t.shapes.tsv").utterances == said


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("x\tlong\t3", "line 3: expected a number of frames, got 'long'"),
        ("x\tnan\t3", "line 3: expected a number of seconds, got nan"),
        ("x\t0\t0", "line 3: lasts 0 s, which is impossible"),
        ("x\t25\tmany", "line 3: expected a number of target tokens, got 'many'"),
        ("x\t25\t-1", "line 3: expected a whole number of target tokens, got '-1'"),
        ("x\t25\t26", "line 3: the target is longer than its audio: 26 tokens in 1 s, which are 25 frames"),
        ("x\t25", "line 3: has 2 columns, the header 3"),
    ],
)
def test_impossible_shapes_are_named_with_their_line(tmp_path: Path, row: str, sentence: str) -> None:
    file = tmp_path / "some.shapes.tsv"
    file.write_text(f"# frames_per_second: 25\nid\tframes\ttarget\n{row}\ngood\t25\t25\n")
    reading = read_dataset(file)
    assert [utterance.id for utterance in reading.utterances] == ["good"]
    (problem,) = reading.problems
    assert sentence in str(problem)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("id\tframes\nx\t3\n", "how long is a frame"),
        ("# frames_per_second: many\nid\tframes\nx\t3\n", "expected a number of frames per second, got 'many'"),
        ("id\tlength\nx\t3\n", "expected a header with `frames` or `seconds`"),
        ("id\tseconds\tcolour\nx\t3\tred\n", "unknown columns colour"),
        ("# nothing else\n", "holds no shapes"),
    ],
)
def test_a_file_without_its_header_says_what_it_needs(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "some.shapes.tsv"
    file.write_text(text)
    with pytest.raises(DatasetError, match=sentence):
        read_dataset(file)


def test_the_shipped_shapes_have_the_figures_of_the_corpus() -> None:
    reading = read_dataset(SHIPPED)
    assert reading.problems == []
    assert any("not from the corpus itself" in note for note in reading.notes), "it is labelled as generated"
    frames = [utterance.seconds * 25 for utterance in reading.utterances]
    tokens = [utterance.target_tokens or 0 for utterance in reading.utterances]
    assert len(frames) == 991
    assert (min(frames), max(frames)) == pytest.approx((31, 680))
    assert statistics.fmean(frames) == pytest.approx(318.25, abs=0.001)
    assert (min(tokens), max(tokens)) == (2, 151)
    assert statistics.fmean(tokens) == pytest.approx(67.85, abs=0.001)
    assert statistics.correlation(frames, tokens) == pytest.approx(0.824, abs=0.001)
    in_order = make_batches(reading.utterances, Dataset(source="x", batch_size=30))
    assert 1 - share_of_padding(in_order) == pytest.approx(0.719, abs=0.001)
    by_length = make_batches(reading.utterances, Dataset(source="x", batch_size=30, order="sorted"))
    assert 1 - share_of_padding(by_length) == pytest.approx(0.9995, abs=0.00005)


def test_the_shipped_shapes_are_what_their_script_makes() -> None:
    frames, tokens = make_shapes.make()
    made, shipped = make_shapes.render(frames, tokens).splitlines(), SHIPPED.read_text().splitlines()
    assert made[:11] == shipped[:11]
    for ours, theirs in zip(made[11:], shipped[11:], strict=True):
        # Another version of numpy may round one value differently.
        pairs = zip(ours.split()[1:], theirs.split()[1:], strict=True)
        assert all(math.isclose(float(one), float(other), abs_tol=2) for one, other in pairs)
