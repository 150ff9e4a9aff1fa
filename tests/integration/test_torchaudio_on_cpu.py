"""torchaudio is a CUDA build even where torch is not: it is made to import, in memory, only where it would fail."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def python(script: str, *path: Path) -> Any:
    """Run a script in a fresh interpreter, with folders first on its search path; its last line is JSON."""
    start = f"import json, sys; sys.path[:0] = {[str(folder) for folder in path]!r}\n"
    done = subprocess.run([sys.executable, "-c", start + script], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def hashes() -> dict[str, str]:
    spec = importlib.util.find_spec("torchaudio")
    assert spec is not None
    assert spec.origin is not None
    files = sorted((Path(spec.origin).parent / "_extension").glob("*.py"))
    assert files
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_models_can_be_built_and_no_file_of_torchaudio_is_changed() -> None:
    before = hashes()
    answer = python("""
import torch
from profiler.models.torchaudio.on_cpu import ensure_torchaudio
native = [ensure_torchaudio(), ensure_torchaudio()]
import torchaudio
with torch.device("meta"):
    made = {name: getattr(torchaudio.models, name)() for name in ("wav2vec2_base", "hubert_base", "hubert_large")}
counts = {name: sum(p.numel() for p in model.parameters()) for name, model in made.items()}
model = torchaudio.models.wav2vec2_base().eval()
with torch.no_grad():
    frames = model(torch.zeros(1, 16000))[0].shape[1]
mel = torchaudio.transforms.MelSpectrogram(16000)(torch.zeros(1, 16000)).shape[1]
print(json.dumps({"native": native, "cuda": torch.version.cuda, "counts": counts, "frames": frames, "mel": mel}))
""")
    assert answer["counts"]["wav2vec2_base"] == 94_370_944
    assert answer["counts"]["hubert_base"] == 94_370_944
    assert answer["counts"]["hubert_large"] == 315_434_112
    assert answer["frames"] == 49
    assert answer["mel"] == 128
    if answer["cuda"] is None:
        assert answer["native"] == [False, False]
    assert hashes() == before


def test_libraries_that_import_torchaudio_work_afterwards() -> None:
    answer = python("""
from profiler.models.torchaudio.on_cpu import ensure_torchaudio
ensure_torchaudio()
from speechbrain.inference.ASR import EncoderASR
from transformers import AutoFeatureExtractor
print(json.dumps([EncoderASR.__name__, AutoFeatureExtractor.__name__]))
""")
    assert answer == ["EncoderASR", "AutoFeatureExtractor"]


STUB = """
from . import utils
_IS_TORCHAUDIO_EXT_AVAILABLE = utils._load_lib("_torchaudio")
if _IS_TORCHAUDIO_EXT_AVAILABLE:
    utils._check_cuda_version()
"""


def stub(folder: Path, load_lib: str, check: str = "return None") -> Path:
    """A package called torchaudio whose native library, and check of its CUDA, behave as told."""
    extension = folder / "torchaudio" / "_extension"
    extension.mkdir(parents=True)
    (folder / "torchaudio" / "__init__.py").write_text("from . import _extension\n")
    (extension / "__init__.py").write_text(STUB)
    loader, checker = f"def _load_lib(name):\n    {load_lib}\n", f"def _check_cuda_version():\n    {check}\n"
    (extension / "utils.py").write_text(loader + checker)
    return folder


TRY = """
from profiler.models.torchaudio.on_cpu import ensure_torchaudio
try:
    native = ensure_torchaudio()
except Exception as error:
    native = repr(error)
utils = sys.modules.get("torchaudio._extension.utils")
print(json.dumps({"native": native, "loader": utils and utils._load_lib.__module__}))
"""


@pytest.mark.parametrize(
    ("load_lib", "native", "loader"),
    [
        ("return True", True, "torchaudio._extension.utils"),
        ("return False", False, "torchaudio._extension.utils"),
        ("raise OSError('libc10_cuda.so')", False, "profiler.models.torchaudio.on_cpu"),
    ],
)
def test_nothing_is_touched_where_torchaudio_imports_by_itself(
    load_lib: str, native: bool, loader: str, tmp_path: Path
) -> None:
    answer = python(TRY, stub(tmp_path, load_lib))
    assert answer == {"native": native, "loader": loader}


def test_a_library_for_another_cuda_is_not_used(tmp_path: Path) -> None:
    answer = python(TRY, stub(tmp_path, "return True", "raise RuntimeError('compiled with different CUDA versions')"))
    assert answer == {"native": False, "loader": "profiler.models.torchaudio.on_cpu"}


def test_other_errors_of_torchaudio_are_not_hidden(tmp_path: Path) -> None:
    answer = python(TRY, stub(tmp_path, "raise RuntimeError('built for another torch')"))
    assert answer["native"] == "RuntimeError('built for another torch')"


def test_the_package_itself_imports_nothing_heavy() -> None:
    loaded = python("import profiler\nprint(json.dumps(sorted(sys.modules)))")
    heavy = {"torch", "numpy", "rich", "pydantic", "transformers", "speechbrain", "torchaudio", "tensorboard"}
    assert "profiler" in loaded
    assert heavy & set(loaded) == set()
