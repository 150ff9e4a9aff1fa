"""Pack a run in one zip file that can be given to anybody: results, report, plots and recipe.

Private paths, user and host names are taken out unless --with-names is given. `profile.py report FILE.zip` opens it on
any machine.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from profiler.cli.options import add_logdir
from profiler.errors import UserError
from profiler.results.runs import NAMES, find_run
from profiler.units import bytes_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help=NAMES)
    parser.add_argument("file", metavar="FILE.zip", type=Path, help="where to write")
    add_logdir(parser)
    parser.add_argument("--with-names", action="store_true", help="keep paths, user and host names")
    parser.add_argument("--with-traces", action="store_true", help="put the traces in too; they are large")
    parser.add_argument(
        "--with-transcripts", action="store_true", help="put in what was said and what the models wrote, to score again"
    )
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")


def run(arguments: argparse.Namespace) -> int:
    target: Path = arguments.file
    if target.suffix.lower() != ".zip":
        raise UserError(f"{target}: expected a name that ends with .zip.")
    if target.exists() and not arguments.force:
        raise UserError(f"{target} is there already; choose another name, or replace it with --force.")
    folder = find_run(arguments.run, arguments.logdir)

    from profiler.report.write import write_pages
    from profiler.results.export.pack import pack

    packed = pack(folder, target, arguments.with_names, arguments.with_traces, arguments.with_transcripts, write_pages)
    print(f"Wrote {target}: {len(packed.files)} files, {bytes_text(target.stat().st_size)}.")
    if packed.traces_left_out:
        print(f"Left out: {packed.traces_left_out} traces (--with-traces adds them).")
    if packed.transcripts_left_out:
        print(f"Left out: the transcripts of {packed.transcripts_left_out} variants (--with-transcripts adds them).")
    if arguments.with_names:
        print("Paths, user and host names are in it, as they are in the run.")
    else:
        print("Private paths, user and host names were taken out; variants, labels and packages keep their names.")
    print(f"Open it anywhere: python profile.py report {target}")
    return 0
