"""What the GitHub Action and the GitLab template run: a script that measures, on a small repository, and one to post.

GitHub and GitLab are a stand-in here: a real HTTP server on 127.0.0.1 that speaks the few requests that are needed, as
their documentation has them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from ruamel.yaml import YAML

from tests.helpers.program import ROOT

SCRIPT = ROOT / ".github" / "actions" / "ab" / "ab.sh"
MODEL = """import torch


class Net(torch.nn.Module):
    def forward(self, waveforms):
        for _ in range({loops}):
            waveforms = torch.sin(waveforms)
        return waveforms
"""
RECIPE = """pretrained_model: {source: net.Net, type: Module}
profiling_dimensions: {audio_mockup_secs: [1], batch_sizes: [1], export_logs: false}
measure: {rounds: 6, warmup: 1, budget: 0.2}
trace: {breakdown: false}
"""


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=Someone", "-c", "user.email=someone@example.org"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def run_script(folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PROFILER": f"{sys.executable} {ROOT / 'profile.py'}", "SECONDS_PER_CELL": "6"} | more
    return subprocess.run([str(SCRIPT)], cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The head does thirty times the work of the base."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-b", "main")
    for name, text in {"net.py": MODEL.format(loops=10), "speed.yaml": RECIPE}.items():
        (folder / name).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-m", "base")
    (folder / "net.py").write_text(MODEL.format(loops=300))
    return folder


@pytest.mark.slow
def test_a_slower_head_ends_with_3_and_the_table_says_so(repository: Path) -> None:
    done = run_script(
        repository, BASE="main", RECIPE="speed.yaml", GITHUB_STEP_SUMMARY="summary.md", GITHUB_OUTPUT="outputs"
    )
    assert done.returncode == 3, done.stdout + done.stderr
    table = (repository / "speed.md").read_text()
    assert table.startswith("<!-- speech-profiler -->\n### Speed against `main`: slower\n")
    assert "slower" in table
    assert (repository / "summary.md").read_text() == table
    assert (repository / "outputs").read_text() == "status=3\nsaid=slower\ntable=speed.md\n"


def test_what_cannot_be_measured_is_said_in_the_table_and_by_the_exit_status(repository: Path) -> None:
    done = run_script(repository, BASE="no-such-branch", RECIPE="speed.yaml")
    assert done.returncode == 2
    assert "no-such-branch" in done.stderr
    assert "was not measured (exit status 2)" in (repository / "speed.md").read_text()
    missing = run_script(repository, BASE="main", RECIPE="")
    assert missing.returncode != 0
    assert "say which recipe" in missing.stderr


def _yaml(path: str) -> Any:
    return YAML(typ="safe").load((ROOT / path).read_text())


def test_the_action_and_the_template_run_the_script() -> None:
    action, template = _yaml(".github/actions/ab/action.yml"), _yaml(".gitlab/ab.yml")
    measured, said = action["runs"]["steps"]
    assert measured["run"] == '"$GITHUB_ACTION_PATH/ab.sh"'
    used = {"BASE", "RECIPE", "THRESHOLD", "SECONDS_PER_CELL", "STRICT", "ARGUMENTS"}
    assert set(measured["env"]) == used
    assert all(f"${{{name}:" in SCRIPT.read_text() for name in used)
    assert "always()" in said["if"]  # the table of a slower head is posted too
    assert "GH_TOKEN" not in measured["env"]  # the code of the pull request runs there
    assert template[".speech-profiler-ab"]["variables"]["AB"] == ".github/actions/ab"


def test_the_action_is_one_that_github_takes() -> None:
    """Checked against the rules for composite actions, which no program here knows."""
    action = _yaml(".github/actions/ab/action.yml")
    assert set(action) == {"name", "description", "inputs", "outputs", "runs"}
    assert set(action["runs"]) == {"using", "steps"}
    assert action["runs"]["using"] == "composite"
    for step in action["runs"]["steps"]:
        assert set(step) <= {"name", "id", "if", "shell", "run", "env"}
        assert step["shell"] == "bash"  # must be said in a composite action
        assert "${{" not in step["run"]  # an expression there is text of the script: a title could be a command
        assert all(isinstance(value, str) for value in step["env"].values())
    for given in action["inputs"].values():
        assert set(given) <= {"description", "required", "default"}
        assert isinstance(given.get("default", ""), str)
    assert all(set(given) == {"description", "value"} for given in action["outputs"].values())
    used = set(re.findall(r"inputs\.(\w+)", (ROOT / ".github/actions/ab/action.yml").read_text()))
    assert used == set(action["inputs"])


def test_the_secrets_of_a_repository_are_not_given_to_the_code_of_forks(tmp_path: Path) -> None:
    done = run_script(tmp_path, BASE="main", RECIPE="speed.yaml", GITHUB_EVENT_NAME="pull_request_target")
    assert done.returncode == 2
    assert "on: pull_request" in done.stderr
    assert not list(tmp_path.iterdir())


# -- posting


@dataclass
class Service:
    """Comments of pull request 7, and what was asked. `kind` is github or gitlab."""

    kind: str
    url: str = ""
    comments: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def environment(self, token: str | None = "may-write", number: str | None = "7") -> dict[str, str]:
        if self.kind == "github":
            found = {
                "GITHUB_ACTIONS": "true",
                "GITHUB_API_URL": self.url,
                "GITHUB_REPOSITORY": "speech/models",
                "GH_TOKEN": token,
                "PR": number,
            }
        else:
            found = {
                "CI_API_V4_URL": f"{self.url}/api/v4",
                "CI_PROJECT_ID": "42",
                "NOTE_TOKEN": token,
                "CI_MERGE_REQUEST_IID": number,
            }
        return {name: value for name, value in found.items() if value is not None} | {"PATH": os.environ["PATH"]}

    def answer(self, method: str, url: str, token: str, body: dict[str, Any]) -> tuple[int, Any]:
        self.asked.append(method)
        address = urlsplit(url)
        if self.kind == "github":
            comments, one = "/repos/speech/models/issues/7/comments", r"/repos/speech/models/issues/comments/(\d+)"
            change, given = "PATCH", token.removeprefix("Bearer ")
        else:
            comments = "/api/v4/projects/42/merge_requests/7/notes"
            one, change, given = rf"{comments}/(\d+)", "PUT", token
        if given not in ("may-write", "may-read"):
            return 401, {"message": "Bad credentials"}
        if method == "GET" and address.path == comments:
            asked = {name: int(value[0]) for name, value in parse_qs(address.query).items()}
            start = (asked["page"] - 1) * asked["per_page"]
            return 200, self.comments[start : start + asked["per_page"]]
        if given != "may-write":
            return 403, {"message": "Resource not accessible by integration"}
        if method == "POST" and address.path == comments:
            self.comments.append({"id": 1000 + len(self.comments), "body": body["body"]})
            return 201, self.comments[-1]
        if method == change and (found := re.fullmatch(one, address.path)):
            comment = next(each for each in self.comments if each["id"] == int(found[1]))
            comment["body"] = body["body"]
            return 200, comment
        return 404, {"message": "Not Found"}


@pytest.fixture(params=["github", "gitlab"])
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    found = Service(request.param)

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            token = self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN") or ""
            status, answer = found.answer(self.command, self.path, token, body)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        do_GET = do_POST = do_PATCH = do_PUT = _any

        def log_message(self, *anything: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield found
    server.shutdown()
    server.server_close()


def post(folder: Path, table: str, environment: dict[str, str]) -> str:
    (folder / "speed.md").write_text(table)
    words = [sys.executable, "-I", str(SCRIPT.with_name("comment.py")), "speed.md"]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr  # what was measured decides
    assert "may-" not in done.stdout + done.stderr  # no token in a log
    return done.stdout


MARK = "<!-- speech-profiler -->\n"


def test_a_first_push_makes_a_comment_and_later_ones_change_it(service: Service, tmp_path: Path) -> None:
    service.comments = [{"id": number, "body": "Looks good to me"} for number in range(130)]
    assert "made" in post(tmp_path, f"{MARK}faster", service.environment())
    assert "changed" in post(tmp_path, f"{MARK}slower, by 3 µs", service.environment())
    assert [each["body"] for each in service.comments[130:]] == [f"{MARK}slower, by 3 µs"]
    assert all(each["body"] == "Looks good to me" for each in service.comments[:130])


def test_what_is_missing_is_said_and_nothing_fails(service: Service, tmp_path: Path) -> None:
    needed = "pull-requests: write" if service.kind == "github" else "scope `api`"
    for token in ("may-read", "wrong", None):
        said = post(tmp_path, f"{MARK}slower", service.environment(token))
        assert "was not posted" in said
        assert needed in said
    assert "403 Forbidden" in post(tmp_path, f"{MARK}slower", service.environment("may-read"))
    assert said.startswith("::warning") == (service.kind == "github")
    asked = len(service.asked)
    assert "does not run for a pull or merge request" in post(tmp_path, MARK, service.environment(number=None))
    assert len(service.asked) == asked
    assert not service.comments


def test_a_table_that_is_too_long_is_cut_and_a_server_that_is_not_there_is_said(
    service: Service, tmp_path: Path
) -> None:
    post(tmp_path, MARK + "| cell |\n" * 10_000, service.environment())
    assert len(service.comments[0]["body"]) < 65_536
    assert service.comments[0]["body"].endswith("artifacts of the job.")
    service.url = "http://127.0.0.1:9"  # nobody listens there
    assert "failed: <urlopen error" in post(tmp_path, MARK, service.environment())


AB_PROGRAM = """#!/bin/sh
while [ "$1" != --output ]; do shift; done
echo "token: ${NOTE_TOKEN:-}${GH_TOKEN:-}" > "$2"
exit 3
"""


def test_the_job_posts_what_was_measured_and_ends_as_it_did(service: Service, tmp_path: Path) -> None:
    """All lines of both jobs, with another program in the place of `ab`: it is not told the token."""
    program = tmp_path / "ab"
    program.write_text(AB_PROGRAM)
    program.chmod(0o755)
    settings = {"RECIPE": "speed.yaml", "PROFILER": str(program), "CI_MERGE_REQUEST_DIFF_BASE_SHA": "abc"}
    token, both = service.environment(), service.environment() | settings
    if service.kind == "github":
        measure, say = (step["run"] for step in _yaml(".github/actions/ab/action.yml")["runs"]["steps"])
        more = {"BASE": "abc", "GITHUB_ACTION_PATH": str(SCRIPT.parent), "TABLE": "speed.md"}
        jobs = [
            (measure, {name: value for name, value in both.items() if name != "GH_TOKEN"} | more),
            (say, token | more),
        ]
    else:
        job = _yaml(".gitlab/ab.yml")[".speech-profiler-ab"]
        lines = "\n".join(["set -eo pipefail", *job["script"]])
        jobs = [(lines, both | job["variables"] | {"AB": str(SCRIPT.parent)})]
    ends = [subprocess.run(["bash", "-c", run], cwd=tmp_path, env=env, timeout=60).returncode for run, env in jobs]
    assert ends == ([3, 0] if service.kind == "github" else [3])
    assert service.comments[0]["body"] == f"{MARK}### Speed against `abc`: slower\n\ntoken: \n"
