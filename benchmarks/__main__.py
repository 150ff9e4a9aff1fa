"""All figures of benchmarks/README.md and docs/fleet.md anew, on the commit that is checked out, in one command.

    .venv/bin/python -m benchmarks [NAME ...]     # all, or the named ones alone; about an hour and a half

Each benchmark is run as its own command, one after the other, on a machine that should have nothing else to do. What it
prints takes the place of the figures in its section, with date, commit and the time it took; all else stays.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "benchmarks" / "README.md"
PAGES = (README, ROOT / "docs" / "fleet.md")
# In the README each section names its command; between these two lines stands what it printed.
PRINTED = re.compile(
    r"(    \.venv/bin/python -m benchmarks\.(\w+)[^\n]*\n.*?<!-- printed -->\n)(.*?)(<!-- end -->)", re.DOTALL
)


def names(*pages: Path) -> list[str]:
    """Benchmarks whose figures stand on these pages, or on any."""
    return [match[2] for page in pages or PAGES for match in PRINTED.finditer(page.read_text(encoding="utf-8"))]


def run(name: str) -> str:
    """What a benchmark prints, with when and on what it was run."""
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    took = time.monotonic() - start
    if done.returncode != 0:
        raise SystemExit(f"benchmarks.{name} ended with status {done.returncode}; the page keeps its earlier figures.")
    when = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, commit {commit()}, {took / 60:.1f} min"
    return f"{done.stdout.strip()}\n\n{when}\n"


def commit() -> str:
    """Of the checkout; `+` where files of the program differ from it."""
    git = ["git", "-C", str(ROOT)]
    found = subprocess.run([*git, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True).stdout.strip()
    changed = subprocess.run([*git, "status", "--porcelain", "-uno", "profiler"], capture_output=True, text=True).stdout
    return f"{found}+" if changed.strip() else found


def replace(text: str, name: str, printed: str) -> str:
    """A page with other figures in one section."""
    return PRINTED.sub(lambda match: f"{match[1]}{printed}{match[4]}" if match[2] == name else match[0], text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names())} (default: all)")
    chosen = parser.parse_args().names or names()
    unknown = [name for name in chosen if name not in names()]
    if unknown:
        parser.error(f"no section of a page runs {', '.join(unknown)}; there are {', '.join(names())}")
    for name in chosen:
        print(f"benchmarks.{name}", file=sys.stderr, flush=True)
        printed = run(name)
        (page,) = (page for page in PAGES if name in names(page))
        page.write_text(replace(page.read_text(encoding="utf-8"), name, printed), encoding="utf-8")


if __name__ == "__main__":
    main()
