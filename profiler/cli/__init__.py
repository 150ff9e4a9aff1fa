"""The command line: `profile.py RECIPE ...` runs; beside it stand a few commands, a file each.

A command's file has HELP (one line), `add_arguments(parser)` and `run(arguments) -> exit status`. Only the file of the
command that is asked for is imported, so that `--help` and `ls` answer at once.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from profiler.errors import ProfilerError

COMMANDS = {
    "init": "write a recipe for a model: a hub id, a folder, a file, the name of a class",
    "ls": "list the recipes that ship",
    "cp": "copy a shipped recipe to a file of your own",
    "show": "check a recipe and show its plan, without running it",
    "shapes": "write the lengths of audio, and of its transcripts, to a file of shapes",
    "report": "show the tables of a run again, rebuild its files",
    "ab": "measure two things turn by turn, and say which is faster",
    "compare": "say which cells of a run are faster or slower than in another one",
    "history": "show a figure of a recipe over its runs, with level shifts marked",
    "machines": "show runs of one recipe on several machines or thread counts side by side",
    "tradeoff": "put error rates beside speed, memory and size, over runs",
    "export": "pack a run in one zip file to give away, without private names",
    "doctor": "say whether this machine is fit for measuring; keep its noise floor for compare",
    "tensorboard": "open the log folder in TensorBoard",
}

DESCRIPTION = """Real-time factor, peak memory and traces of a speech model, over a grid of durations and batch sizes.

  profile.py RECIPE [key=value ...] [options]   run a recipe
  profile.py MODEL [key=value ...] [options]    write a recipe for a model, and run it
"""
EPILOG = """examples:
  profile.py recipes/wav2vec2.yaml
  profile.py recipes/wav2vec2.yaml profiling_dimensions.batch_sizes=[1,8] --threads 1
  profile.py init openai/whisper-tiny
  profile.py cp wav2vec2 my-model.yaml

`profile.py RECIPE --help` lists the options of a run, `profile.py COMMAND --help` those of a command.
Exit status: 0 all cells measured or skipped on purpose, 1 some cell failed, 2 wrong input,
3 slower (ab, compare --fail-over), 4 unclear (--strict), 130 interrupted."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; gives the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _dispatch(given)
    except ProfilerError as error:
        print(f"profile.py: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("profile.py: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe went away, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _dispatch(given: list[str]) -> int:
    if not given or given[0] in ("-h", "--help"):
        _overview().print_help()
        return 0 if given else 2
    if given[0] == "--version":
        from profiler import __version__

        print(f"speech-profiler {__version__}")
        return 0
    name = given[0] if given[0] in COMMANDS else "run"
    command = importlib.import_module(f"profiler.cli.{name}")
    usage = "profile.py RECIPE [key=value ...] [options]" if name == "run" else None
    parser = argparse.ArgumentParser(
        prog="profile.py" if name == "run" else f"profile.py {name}",
        usage=usage,
        description=command.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    parsed = parser.parse_intermixed_args(given if name == "run" else given[1:])
    return int(command.run(parsed))


def _overview() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="profile.py",
        usage="profile.py RECIPE [key=value ...] [options]\n       profile.py COMMAND ...",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, text in COMMANDS.items():
        commands.add_parser(name, help=text)
    return parser
