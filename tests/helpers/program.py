"""Runs the real program as a user does: another process, from the root of the project."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from profiler.cli import COMMANDS
from tests.helpers import warm

ROOT = Path(__file__).resolve().parents[2]
MODULES = Path(__file__).resolve().parent / "modules.py"

QUICK = "measure: {warmup: 1, budget: 0.2, rounds: 2}\n"


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, str(ROOT / "profile.py"), *map(str, arguments)]


def run(
    *arguments: str | Path, timeout: float = 300, fresh: bool = False, path: Path | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run to the end and give exit status and output.

    Where nothing is asked of the process itself it is a fork that has torch already (warm.py), which saves seconds.
    With a `path`, a PYTHONPATH, it has no torch: it would take that of the folder.
    """
    if path is not None and (fresh or sys.platform != "linux"):
        more["env"] = {**os.environ, "PYTHONPATH": str(path)}
    if fresh or more or sys.platform != "linux":
        return subprocess.run(command(*arguments), capture_output=True, text=True, cwd=ROOT, timeout=timeout, **more)
    kind = libraries_of(*arguments) if path is None else "plain"
    return warm.run(command(*arguments)[1:], ROOT, timeout, kind, path)


def libraries_of(*arguments: str | Path, folder: Path = ROOT) -> str:
    """What a command imports (warm.KINDS): torch for a class, libraries of models to run or count others."""
    first = str(arguments[0]) if arguments else "--help"
    runs = first in ("ab", "doctor", "tune") or not (first in COMMANDS or first.startswith("-"))
    counts = first == "show" and "--no-counts" not in arguments
    if "--help" in arguments or not (runs or counts):
        return "plain"
    recipes = [folder / argument for argument in arguments if str(argument).endswith(".yaml")]
    if any("type: Module" in path.read_text(errors="replace") for path in recipes if path.is_file()):
        return "torch"
    if counts and not recipes:  # a shipped one is counted already
        return "plain"
    return "torch" if first == "doctor" else "models"


def start(*arguments: str | Path, **more: Any) -> subprocess.Popen[str]:
    """Start and go on, for tests that stop it."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
    return subprocess.Popen(command(*arguments), text=True, cwd=ROOT, **pipes)


def module_recipe(
    folder: Path,
    name: str,
    arguments: str = "{}",
    seconds: str = "[0.1, 0.2]",
    batches: str = "[1, 2]",
    more: str = QUICK,
    grid: str = "",
) -> Path:
    """A recipe for one of tests/helpers/modules.py, with that file beside it."""
    shutil.copy(MODULES, folder / "modules.py")
    recipe = folder / "recipe.yaml"
    recipe.write_text(
        f"pretrained_model:\n  source: modules.{name}\n  type: Module\n  overrides: {arguments}\n"
        f"profiling_dimensions:\n  audio_mockup_secs: {seconds}\n  batch_sizes: {batches}\n{grid}{more}"
    )
    return recipe


def results_in(logdir: Path) -> dict[str, Any]:
    """The results of the only run in a log folder."""
    (file,) = logdir.glob("*/*/results.json")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def run_folder(logdir: Path) -> Path:
    (file,) = logdir.glob("*/*/results.json")
    return file.parent


def cell(results: dict[str, Any], seconds: float, batch_size: int) -> dict[str, Any]:
    (found,) = [c for c in results["cells"] if (c["seconds"], c["batch_size"]) == (seconds, batch_size)]
    return dict(found)


def processes_mentioning(text: str) -> list[int]:
    """Pids of processes whose command line or environment mentions a text."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            content = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            state = (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if text.encode() in content and state != "Z":
            found.append(int(folder.name))
    return found
