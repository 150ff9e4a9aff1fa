"""`make setup`: it says what it does and how long it takes, and a failure ends with what to do.

Nothing is installed: a shell script plays the environment's Python, and its pip writes what pip writes in such a case.
"""

from __future__ import annotations

import importlib.util
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.helpers.program import ROOT

GOOD = """Obtaining file:///project
  Installing build dependencies: started
Collecting numpy>=2.0 (from -c constraints.txt)
  Downloading numpy-2.5.1-cp311-cp311-manylinux_2_28_x86_64.whl (16.6 MB)
Installing collected packages: numpy, torch
Successfully installed numpy-2.5.1 torch-2.13.0"""
# What pip 23.2 and venv wrote when this was tried.
FAILURES = {
    "no compiler": (
        "  running build_ext\n  error: command 'gcc' failed: No such file or directory\n"
        "  ERROR: Failed building wheel for editdistance",
        "apt-get install build-essential python3-dev",
    ),
    "no headers": ("editdistance/bycython.cpp:16:10: fatal error: Python.h: No such file", "Python's headers"),
    "disk full": (
        "Installing collected packages: numpy, torch\n"
        "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
        "The disk is full",
    ),
    "no such build": (
        "ERROR: Could not find a version that satisfies the requirement torch==2.13.0 (from versions: none)\n"
        "ERROR: No matching distribution found for torch==2.13.0",
        "no version of a package for this Python",
    ),
    "not mine": ("ERROR: Could not install packages: [Errno 13] Permission denied: 'x'", "as after a run with sudo"),
    "anything else": ("ERROR: ResolutionImpossible", "pip's whole output is in install.log"),
}


@pytest.fixture
def install() -> ModuleType:
    """install.py, imported as what it is: a script at the root."""
    spec = importlib.util.spec_from_file_location("install", ROOT / "install.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def constraints(tmp_path: Path) -> Path:
    path = tmp_path / "constraints.txt"
    path.write_text("# two\nnumpy==2.5.1\ntorch==2.13.0\n")
    return path


def environment(folder: Path, says: str = GOOD, status: int = 0) -> Path:
    """A folder whose bin/python answers as that of an environment does, and whose pip says this."""
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    python = folder / "bin" / "python"
    python.write_text(
        f'#!/bin/sh\necho "$@" >> {folder}/asked\n[ "$1" = -c ] && exit 0\ncat <<"END"\n{says}\nEND\nexit {status}\n'
    )
    python.chmod(0o755)
    return folder


def make(*words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--directory", str(ROOT), "setup", *words]
    return subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False, timeout=120)


def test_what_is_done_is_said_and_the_environment_is_ready(tmp_path: Path, constraints: Path) -> None:
    venv = environment(tmp_path / "venv")
    done = make(f"VENV={venv}", f"CONSTRAINTS={constraints}", f"PYTHON={sys.executable}")
    assert done.returncode == 0, done.stderr
    assert f"Bringing {venv} up to date" in done.stdout
    assert f"{venv}/bin/python profile.py --help" in done.stdout
    assert (venv / ".ready").exists()
    assert not (venv / ".installing").exists()
    assert "Successfully installed" in (venv / "install.log").read_text()
    installs = [line for line in (venv / "asked").read_text().splitlines() if "pip install" in line]
    assert [" --no-deps espnet mistral-common zeus" in line for line in installs] == [False, True]
    assert "docs" in re.split(r"[\[\],]", installs[0])


def test_a_first_setup_says_how_long_and_how_much(
    install: ModuleType,
    tmp_path: Path,
    constraints: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    venv = tmp_path / "venv"
    monkeypatch.setattr(sys, "executable", str(maker(tmp_path)))
    assert install.main(venv, constraints) == 0
    said = capsys.readouterr().out
    assert "about 2 packages" in said
    assert "minutes" in said
    assert "GB of disk" in said
    assert (venv / ".ready").exists()


def maker(folder: Path) -> Path:
    """A Python whose `-m venv --clear FOLDER` makes an environment as above."""
    model = environment(folder / "model")
    script = folder / "python-with-venv"
    script.write_text(f'#!/bin/sh\nrm -rf "$4"; cp -r {model} "$4"\n')
    script.chmod(0o755)
    return script


@pytest.mark.parametrize("case", FAILURES)
def test_a_failing_install_ends_with_what_to_do(
    case: str, install: ModuleType, tmp_path: Path, constraints: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    says, advice = FAILURES[case]
    venv = environment(tmp_path / "venv", says, status=1)
    assert install.main(venv, constraints) == 1
    told = capsys.readouterr().err
    assert says.splitlines()[-1] in told
    assert advice in " ".join(told.split())
    assert told.rstrip().endswith("kept.")
    assert "Traceback" not in told
    assert not (venv / ".ready").exists()


def test_without_a_network_real_pip_fails_with_what_to_do(tmp_path: Path, constraints: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (packages,) = venv.glob("lib/*/site-packages")
    (packages / "pip").symlink_to(Path(importlib.util.find_spec("pip").origin).parent)  # type: ignore[union-attr, arg-type]
    closed = {"PIP_INDEX_URL": "http://127.0.0.1:9", "PIP_RETRIES": "1", "PIP_CONFIG_FILE": os.devnull}
    done = make(f"VENV={venv}", f"CONSTRAINTS={constraints}", f"PYTHON={sys.executable}", **closed)
    assert done.returncode == 2, done.stdout
    assert "The last lines of pip:" in done.stderr
    assert "The package index cannot be reached. Check the network." in done.stderr
    assert not (venv / ".installing").exists()


@pytest.mark.parametrize("version", ["3.9.2", "3.14.0"])
def test_a_wrong_python_is_said_before_anything_is_made(version: str, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("make", "sh"):
        (folder / tool).symlink_to(shutil.which(tool) or tool)
    python = folder / "python3"
    python.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exit 1\necho Python {version}\n')
    python.chmod(0o755)
    done = make(f"VENV={tmp_path / 'venv'}", PATH=str(folder))
    assert done.returncode == 2
    assert "needs Python 3.11, 3.12 or 3.13; none was found. Nothing was installed." in done.stderr
    assert f"python3: Python {version}" in done.stderr
    assert "python3.11: not here" in done.stderr
    assert "make setup PYTHON=" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_a_python_without_venv_says_which_package_it_needs(
    install: ModuleType,
    tmp_path: Path,
    constraints: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho because ensurepip is not available.\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    assert install.main(tmp_path / "venv", constraints) == 1
    assert f"python{sys.version_info[0]}.{sys.version_info[1]}-venv" in capsys.readouterr().err


def test_too_little_disk_is_said_before_anything_is_made(
    install: ModuleType,
    tmp_path: Path,
    constraints: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1e9))
    assert install.main(tmp_path / "venv", constraints) == 1
    assert "1.0 GB are free" in capsys.readouterr().err
    assert not (tmp_path / "venv").exists()


def test_a_setup_that_stopped_while_unpacking_starts_again(
    install: ModuleType,
    tmp_path: Path,
    constraints: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Half a package has a folder of metadata already, which pip would take for a whole one."""
    venv = environment(tmp_path / "venv", "Installing collected packages: numpy, torch", status=1)
    (venv / "half").touch()
    assert install.main(venv, constraints) == 1
    assert (venv / ".installing").exists()
    monkeypatch.setattr(sys, "executable", str(maker(tmp_path)))
    assert install.main(venv, constraints) == 0
    assert "stopped while it unpacked packages" in capsys.readouterr().out
    assert not (venv / "half").exists()
    assert not (venv / ".installing").exists()


def test_an_interrupted_setup_ends_pip_and_says_how_to_go_on(tmp_path: Path, constraints: Path) -> None:
    venv = environment(tmp_path / "venv", "Collecting numpy")
    python = venv / "bin" / "python"
    waits = f"echo $$ > {venv}/pid; sleep 0.3; kill -INT $PPID; exec sleep 60\n"
    python.write_text(python.read_text().replace("exit 0\n", f"exit 0\n{waits}", 1))
    command = [sys.executable, "install.py", venv, constraints]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 130
    assert done.stderr.strip().startswith("Interrupted.")
    assert not Path(f"/proc/{(venv / 'pid').read_text().strip()}").exists()


def test_a_terminal_shows_the_package_in_hand_in_one_line(tmp_path: Path, constraints: Path) -> None:
    venv = environment(tmp_path / "venv")
    python = venv / "bin" / "python"
    python.write_text(python.read_text().replace("\nInstalling collected", '\nEND\nsleep 0.6\ncat <<"END"\nInstalling'))
    reader, writer = pty.openpty()
    command = [sys.executable, "install.py", venv, constraints]
    with subprocess.Popen(command, cwd=ROOT, stdout=writer, stderr=writer) as process:
        os.close(writer)
        shown = b""
        try:
            while piece := os.read(reader, 65536):
                shown += piece
        except OSError:  # the other side was closed
            pass
    os.close(reader)
    assert process.returncode == 0
    assert re.search(r"\r0:0\d  package 1 of about 2: downloading numpy 2.5.1 \(16.6 MB\)\x1b\[K", shown.decode())
