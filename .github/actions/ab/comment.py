#!/usr/bin/env python3
"""Posts a table to the pull request (GitHub) or merge request (GitLab) that CI runs for. Needs Python alone.

    comment.py speed.md

Changes the comment that an earlier push left, known by its first line, or makes one. What it needs is in the
environment of every job but for the token: on GitHub GH_TOKEN and PR, the number; on GitLab NOTE_TOKEN.

Whatever happens here, the exit status is 0 and the table is in the summary or the artifacts of the job: whether a job
fails is decided by what was measured. The token goes to the server that the environment names and nowhere else.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

MARK = "<!-- speech-profiler -->"
PAGE, MOST_PAGES = 100, 30
LONGEST = 60_000  # characters; GitHub takes 65,536
CUT = "\n\nThe rest is in the summary or the artifacts of the job."
SECONDS = 30


class NotPosted(Exception):
    """Why, in a sentence."""


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would take the token to another server."""

    def redirect_request(self, *anything):
        return None


class Service:
    """One of the two: how it is asked, where comments are, and what may be missing."""

    def __init__(self, comments, one, header, change, permission):
        self.comments, self.one, self.header, self.change, self.permission = comments, one, header, change, permission

    @classmethod
    def of(cls, env):
        """Where this job runs. Raises NotPosted where there is nothing to post to."""
        if "CI_API_V4_URL" in env:
            number, token = env.get("CI_MERGE_REQUEST_IID"), env.get("NOTE_TOKEN")
            notes = f"{env['CI_API_V4_URL']}/projects/{env.get('CI_PROJECT_ID')}/merge_requests/{number}/notes"
            missing = "NOTE_TOKEN: a masked CI variable, a token with the scope `api` and at least the role Reporter"
            made = cls(notes, notes, {"PRIVATE-TOKEN": token}, "PUT", missing)
        else:
            number, token = env.get("PR"), env.get("GH_TOKEN")
            issues = (
                f"{env.get('GITHUB_API_URL', 'https://api.github.com')}/repos/{env.get('GITHUB_REPOSITORY')}/issues"
            )
            missing = "`pull-requests: write` among the permissions of the job; a pull request of a fork never has it"
            header = {"Authorization": f"Bearer {token}", "X-GitHub-Api-Version": "2022-11-28"}
            made = cls(f"{issues}/{number}/comments", f"{issues}/comments", header, "PATCH", missing)
        if not number:
            raise NotPosted("this job does not run for a pull or merge request")
        if not token:
            raise NotPosted(f"there is no token; needed: {made.permission}")
        return made

    def ask(self, method, url, body=None):
        content = None if body is None else json.dumps({"body": body}).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "speech-profiler", **self.header}
        request = urllib.request.Request(url, content, headers, method=method)
        try:
            with urllib.request.build_opener(NoRedirect).open(request, timeout=SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            needed = f"; needed: {self.permission}" if error.code in (401, 403, 404) else ""
            raise NotPosted(f"{method} was answered with {error.code} {error.reason}{needed}") from None
        except (OSError, ValueError) as error:
            raise NotPosted(f"{method} failed: {error}") from None

    def post(self, body):
        """'changed' or 'made'."""
        for page in range(1, MOST_PAGES + 1):
            found = self.ask("GET", f"{self.comments}?per_page={PAGE}&page={page}")
            for comment in found:
                if (comment.get("body") or "").startswith(MARK):
                    try:
                        self.ask(self.change, f"{self.one}/{comment['id']}", body)
                        return "changed"
                    except NotPosted:  # somebody else's, who used the same action: a new one may still be possible
                        continue
            if len(found) < PAGE:
                break
        self.ask("POST", self.comments, body)
        return "made"


def main():
    table = Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace")
    if len(table) > LONGEST:
        table = table[:LONGEST] + CUT
    try:
        print(f"The comment was {Service.of(os.environ).post(table)}.")
    except NotPosted as reason:
        warning = "::warning title=Speed of this change::" if "GITHUB_ACTIONS" in os.environ else ""
        print(f"{warning}The table was not posted: {reason}. It is in the summary or the artifacts of the job.")


if __name__ == "__main__":
    main()
