"""The command line: `profile.py RECIPE ...` runs; beside it stand a few commands, a file each.

A command's file has a docstring (its help), `add_arguments(parser)` and `run(arguments) -> exit status`. Only the file
of the command that is asked for is imported, so that `--help` and `ls` answer at once.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from profiler.errors import ProfilerError, UserError, closest

GROUPS = {
    "recipes": {
        "init": "write a recipe for a model: a hub id, a folder, a file, a class",
        "ls": "list the recipes that ship",
        "cp": "copy a shipped recipe to a file of your own",
        "show": "check a recipe and show its plan, without running it",
        "shapes": "write the lengths of audio, and of its transcripts, to a file of shapes",
    },
    "runs": {
        "runs": "list the runs on disk",
        "report": "show a run again, rebuild its files",
        "export": "pack a run in one zip file to give away, without private names",
        "tensorboard": "open the log folder in TensorBoard",
    },
    "other machines": {
        "fleet": "run recipes on Ray, on SLURM, or here one after the other",
    },
    "comparing": {
        "ab": "measure two things turn by turn, and say which is faster",
        "compare": "say which cells of a run are faster or slower than in another one",
        "history": "show a figure of a recipe over its runs, with level shifts marked",
        "machines": "show runs of one recipe on several machines or thread counts side by side",
        "tune": "find engine, precision, threads and batch size within limits",
        "tradeoff": "put error rates beside speed, memory and size, over runs",
    },
    "the machine": {
        "doctor": "say whether this machine is fit for measuring; keep its noise floor for compare",
    },
}
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}
# What people call things elsewhere.
MEANT = {"list": "ls", "copy": "cp", "plan": "show", "check": "show", "validate": "show", "diff": "compare"}
OPTIONS_MEANT = {"--gpu": "--device cuda", "--cuda": "--device cuda", "--cpu": "--device cpu", "--mps": "--device mps"}
OPTIONS_MEANT |= {"-j": "--threads N", "--num-threads": "--threads N", "--output-dir": "--logdir FOLDER"}

OVERVIEW = """usage: profile.py RECIPE [key=value ...] [options]
       profile.py COMMAND ...

Real-time factor, peak memory and traces of a speech model, over a grid of
durations and batch sizes.

  profile.py RECIPE [key=value ...] [options]   run a recipe
  profile.py MODEL [key=value ...] [options]    write its recipe, and run it
"""
EPILOG = """
examples:
  profile.py recipes/wav2vec2.yaml
  profile.py recipes/wav2vec2.yaml batch_sizes=[1,8] --threads 1
  profile.py init openai/whisper-tiny
  profile.py cp wav2vec2 my-model.yaml

`profile.py RECIPE --help` lists the options of a run, `profile.py COMMAND
--help` those of a command. RUN is a run's folder, its id or a part of it, a
recipe's name (its latest run), latest, latest~1 or an exported FILE.zip.
Exit status: 0 all cells measured or skipped on purpose, 1 some cell failed,
2 wrong input, 3 slower (ab, compare --fail-over), 4 unclear (--strict),
130 interrupted."""
WIDTH = 79  # columns of the overview, in any terminal


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
    if not given or given[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0 if given else 2
    if given[0] in ("--version", "version"):
        from profiler import __version__

        print(f"speech-profiler {__version__}")
        return 0
    if given[0] == "run":
        given = given[1:]
    name = given[0] if given and given[0] in COMMANDS else "run"
    if name == "run" and given:
        _check_word(given)
    command = importlib.import_module(f"profiler.cli.{name}")
    usage = "profile.py RECIPE [key=value ...] [options]" if name == "run" else None
    parser = _Parser(
        prog="profile.py" if name == "run" else f"profile.py {name}",
        usage=usage,
        description=command.__doc__,
        formatter_class=_Help,
    )
    command.add_arguments(parser)
    parsed = parser.parse_intermixed_args(given if name == "run" else given[1:])
    return int(command.run(parsed))


def _check_word(given: list[str]) -> None:
    """What is neither a command nor a recipe nor a file: say what may have been meant."""
    from profiler.shipped import recipe_path, shipped_recipes

    word = given[0]
    if word.startswith("-") or not re.fullmatch(r"[\w-]+", word) or recipe_path(word).exists():
        return
    reason = f"`{word}` is no command and no recipe."
    if word not in MEANT and len(given) > 1 and recipe_path(given[1]).is_file():
        raise UserError(f"{reason} A recipe is run without a command: python profile.py {' '.join(given[1:])}")
    beside = [file.name for file in Path().glob("*.yaml")]
    known = [*COMMANDS, *shipped_recipes(), *beside]
    close = [MEANT[word]] if word in MEANT else closest(word, known, most=2)
    close += [name for name in beside if name == f"{word}.yaml" and name not in close]
    meant = f" Did you mean {' or '.join(f'`{each}`' for each in close)}?" if close else ""
    raise UserError(f"{reason}{meant} `python profile.py --help` lists commands, `python profile.py ls` recipes.")


class _Parser(argparse.ArgumentParser):
    """Mistakes are one message, as everywhere, with what may have been meant."""

    def error(self, message: str) -> NoReturn:
        # A list of overrides may be empty; argparse says that it is required.
        message = message.replace(", key=value", "")
        unknown = re.match(r"unrecognized arguments: (-\S+)", message)
        if unknown:
            name = unknown[1].split("=")[0]
            options = [option for action in self._actions for option in action.option_strings]
            close = [OPTIONS_MEANT[name]] if name in OPTIONS_MEANT else closest(name, options)
            message = f"there is no option {name}." + (f" Did you mean `{close[0]}`?" if close else "")
        end = "" if message.endswith((".", "?")) else "."
        command = self.prog if " " in self.prog else f"{self.prog} RECIPE"
        raise UserError(f"{message}{end} `{command} --help` lists options.")


class _Help(argparse.HelpFormatter):
    """Paragraphs are wrapped; lines that are set in stay as they are, as long as they fit."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(self._paragraph(part, width) for part in textwrap.dedent(text).strip().split("\n\n"))

    def _paragraph(self, text: str, width: int) -> str:
        if not text.startswith(" "):
            return textwrap.fill(" ".join(text.split()), width)
        return "\n".join(line if len(line) <= width else _folded(line, width) for line in text.splitlines())


def _folded(line: str, width: int) -> str:
    """'  command      what it does' on two lines."""
    match = re.match(r"( *\S.*?) {2,}(.+)", line) or re.match(r"( *\S+(?: \S+){3,}?) (.+)", line)
    if match is None:
        return line
    inner = " " * 6
    return f"{match[1]}\n{textwrap.fill(match[2], width, initial_indent=inner, subsequent_indent=inner)}"


def _overview() -> str:
    lines = [OVERVIEW]
    for title, commands in GROUPS.items():
        lines.append(f"{title}:")
        for name, text in commands.items():
            lines.append(textwrap.fill(text, WIDTH, initial_indent=f"  {name:<12} ", subsequent_indent=" " * 15))
    return "\n".join([*lines, EPILOG])
