"""Any source of utterances -> what it holds. The format is told from the name and the first lines, or given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from profiler.dataset import folders, lhotse, shapes, tables
from profiler.dataset.items import DatasetError, Reading

READERS: dict[str, Callable[[Path, Reading], Reading]] = {
    "csv": tables.read_csv,
    "jsonl": tables.read_jsonl,
    "lhotse": lhotse.read_lhotse,
    "kaldi": folders.read_kaldi,
    "folder": folders.read_folder,
    "huggingface": tables.read_huggingface,
    "shapes": shapes.read_shapes,
}
JSON_SUFFIXES = (".jsonl", ".jsonl.gz", ".json")
METADATA = ("metadata.jsonl", "metadata.csv")


def read_dataset(source: Path, format: str = "auto", progress: Callable[[int], None] = lambda entries: None) -> Reading:
    """All utterances and all problems of a source; raises DatasetError where it cannot be read at all."""
    if not source.exists():
        raise DatasetError(f"There is no data set {source}.")
    chosen = find_format(source) if format == "auto" else format
    return READERS[chosen](source, Reading(source, chosen, progress=progress))


def find_format(source: Path) -> str:
    """What a source looks like; raises DatasetError where it looks like nothing that can be read."""
    if source.is_dir():
        return _format_of_folder(source)
    name = source.name.lower()
    if source.name in ("wav.scp", "segments", "utt2dur"):
        return "kaldi"
    if name.endswith(JSON_SUFFIXES):
        if lhotse.kind_of(source):
            return "lhotse"
        if name.endswith(".json") and not any(isinstance(value, dict) for _, value in tables.objects(source)):
            raise DatasetError(f"{source} is not JSON lines: every line has to be an object of its own.")
        return "jsonl"
    if name.endswith(".shapes.tsv") or (name.endswith(".tsv") and shapes.is_shapes(source)):
        return "shapes"
    if name.endswith((".csv", ".tsv")):
        return "csv"
    raise DatasetError(
        f"{source} is none of what a data set can be: a manifest (.csv, .tsv, .jsonl, .jsonl.gz, a Kaldi folder, "
        "lhotse's manifests), a file of shapes (.shapes.tsv), or a folder of audio. If it is one, name its `format`."
    )


def _format_of_folder(folder: Path) -> str:
    if folders.is_kaldi(folder):
        return "kaldi"
    if tables.is_on_disk(folder):
        return "huggingface"
    for name in METADATA:
        if (folder / name).is_file():
            raise DatasetError(f"{folder} has a manifest in it; name that one, {folder / name}, or set format: folder.")
    return "lhotse" if lhotse.manifests_in(folder) else "folder"
