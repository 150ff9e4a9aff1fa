"""`init MODEL` writes a recipe that runs as it is; `profile.py MODEL` does both."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TinyModel
from tests.helpers import program


def init(*arguments: Any) -> Any:
    return program.run("init", *arguments)


def test_a_recipe_is_written_that_explains_itself_and_has_no_mistakes(tiny_model: Any, tmp_path: Path) -> None:
    made: TinyModel = tiny_model("ctc")
    target = tmp_path / "mine.yaml"
    done = init(made.folder, target)
    assert done.returncode == 0, done.stderr
    assert f"as {made.type}, because its config.json is of a `wav2vec2` (Wav2Vec2ForCTC)" in done.stdout
    assert "It could also be AutoModelForAudioClassification" in done.stdout
    assert f"Run it: python profile.py {target}" in done.stdout
    assert target.read_text().startswith("# tiny-ctc: real-time factor")
    shown = program.run("show", target, "--no-counts")
    assert "no mistakes" in shown.stdout
    again = init(made.folder, target)
    assert again.returncode == 0, "the same text may be written again"
    target.write_text("mine: 1\n")
    refused = init(made.folder, target)
    assert refused.returncode == 2
    assert "is there already" in refused.stderr
    assert init(made.folder, target, "--force").returncode == 0


@pytest.mark.parametrize("model", ["./nothing", "nowhere.Encoder", "nobody/nothing"])
def test_what_is_not_there_is_an_error_in_a_sentence(model: str, tmp_path: Path) -> None:
    done = init(model, tmp_path / "x.yaml")
    assert done.returncode == 2
    assert model in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "x.yaml").exists()


@pytest.mark.slow
def test_a_model_is_run_in_one_go(tiny_model: Any, tmp_path: Path) -> None:
    made: TinyModel = tiny_model("encoder")
    quick = ["profiling_dimensions.audio_mockup_secs=[0.2]", "profiling_dimensions.batch_sizes=[1]"]
    quick += ["measure={rounds: 1, budget: 0.1, operations: false}", "trace.breakdown=false"]
    command = [*program.command(made.folder, *quick, "--logdir", tmp_path / "logs", "--json", "--quiet")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "tiny-encoder.yaml").is_file()
    assert "Wrote tiny-encoder.yaml" in done.stderr
    results = json.loads(done.stdout)
    assert results["models"][0]["type"] == "AutoModel"
    assert results["cells"][0]["status"] == "ok"


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from profiler.cli import main; "
        f"status = main(['init', 'openai/whisper-tiny', {str(tmp_path / 'x.yaml')!r}]); "
        "sys.exit(status or 9 * ('torch' in sys.modules or 'transformers' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=program.ROOT, capture_output=True).returncode == 0
