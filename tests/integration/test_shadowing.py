"""`profile.py` has the name of a module of the standard library; whoever wants that module still gets it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def python(*arguments: str, **environment: str) -> str:
    """Run Python from the root of the project, where our profile.py is first on the search path."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_cprofile_works_from_the_root() -> None:
    assert "function calls" in python("-c", "import cProfile; cProfile.run('1+1')")


def test_cprofile_as_a_program_works_from_the_root(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print(sum(range(10)))\n")
    assert python("-m", "cProfile", "-o", os.devnull, str(script)) == "45\n"
    assert "function calls" in python("-m", "cProfile", str(script))


def test_importing_profile_gives_the_standard_library() -> None:
    printed = python("-c", "import profile; profile.run('1+1'); print(profile.Profile.__module__, profile.__file__)")
    name, file = printed.splitlines()[-1].split()
    assert name == "profile"
    assert Path(file).parent == Path(os.__file__).parent


def test_cprofile_works_in_the_process_of_our_program() -> None:
    script = """
import io, runpy, sys
sys.argv = ["profile.py", "ls"]
try:
    runpy.run_path("profile.py", run_name="__main__")
except SystemExit as end:
    print("exit", end.code)
import cProfile, profile, pstats
meter = cProfile.Profile()
meter.runcall(sum, [1, 2])
print("calls", pstats.Stats(meter, stream=io.StringIO()).total_calls)
"""
    printed = python("-c", script)
    assert "wav2vec2-commonvoice-fr" in printed
    assert "exit 0" in printed
    assert "calls" in printed.splitlines()[-1]


def test_pytest_runs_from_the_root(tmp_path: Path) -> None:
    python("-m", "pytest", "--version")
    test = tmp_path / "test_trivial.py"
    test.write_text("import cProfile\n\ndef test_it():\n    cProfile.Profile().runcall(len, [])\n")
    assert "1 passed" in python("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(test))


COMPILE = """
import sys
import torch

@torch.compile(backend=sys.argv[1])
def double(x):
    return x * 2 + 1

print(double(torch.ones(3)).tolist())
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_torch_compile_works_from_the_root(backend: str, tmp_path: Path) -> None:
    if backend == "inductor" and not (shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")):
        backend = "aot_eager"  # all of it but generating C++
    printed = python("-c", COMPILE, backend, TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    assert printed.splitlines()[-1] == "[3.0, 3.0, 3.0]"
