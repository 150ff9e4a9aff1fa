"""Mutated recipes and overrides: each is accepted or refused in a sentence, soon, and none of its code is run.

    python -m tests.fuzz.recipes --count 20000 --seed 7
    python -m tests.fuzz.recipes --overrides --count 2000 --seed 7

Mutations insert calls that would make a file, the canary. Prints what came of them; status 1 where something is wrong.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from profiler.errors import UserError
from profiler.recipe.load import load_recipe
from profiler.yaml_values import parse_override

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
LONGEST = 10.0  # seconds of CPU that a mutation may take
PLACE = re.compile(r"(?<=: )[^\n#]+|(?<=- )[^\n#]+")

# `@` is the canary.
HOSTILE = (
    "!apply:os.system ['touch @']", "!applyref:os.system ['touch @']", "!new:subprocess.Popen [[touch, '@']]",
    "!!python/object/apply:os.system ['touch @']", "!!python/object/new:subprocess.Popen [[touch, '@']]",
    "{'!apply:os.system': ['touch @']}", "{'!!python/object/apply:os.system': ['touch @']}",
    "{'!new:subprocess.Popen': [[touch, '@']]}", "\"(!!python/object/apply:os.system ['touch @'])\"",
    "!<!apply:os.system> ['touch @']", "!apply:builtins.exec [\"open('@', 'w')\"]",
    "!name:os.system {command: touch @}",
    "!apply:torch.load ['@']", "!include:evil.yaml", "!copy <evil>", "!ref <evil>", "!ref <evil> <evil>",
    "!ref <pretrained_model>", "!ref <pretrained_model.type>", "!ref <a>", "!module:os", "{trust_remote_code: true}",
)  # fmt: skip
ODD = (
    "", "null", "~", "[]", "{}", "''", "!!int abc", "!!float x", "!!bool 7", "!!timestamp x", "!!binary x", "!!set {a}",
    "!!omap [a: 1]", "!!null x", "!!str 4", "! 4", "!reff x", "!tuple (1, 2)", "(1, 2)", ".inf", "-.inf", ".nan",
    "1e999", "1" * 5000, "-1", "0", "0x10", "0o7", "1_000", "true", "yes", "2001-01-01", "a" * 300,
    "a/" * 3000, "~nouser/x", '"a\\0b"', '"a\\ud800b"', "/dev/zero", "/dev/stdin",
    ".", "..", "/", "../..", "*x", "&x 1", "&x [*x]", "<<: *x",
    "{<<: {a: 1}}", "? [a]\n: b", "{? {a: 1} : 2}", "{null: 1}", "{1: 2}", "{[1]: 2}", "|\n  text", ">\n  text", "'",
    '"', "[", "{", "]", "}", "---", "...", "%TAG !e! !apply:", "@", "`", "\t", "\x07", "\ufeff", "é" * 50, "\U0001f600",
    "!include:", "!include:/dev/zero", "!include:.", "!include:recipe.yaml", "!include:" + "a" * 300, "!ref <",
    "!ref <>", "!ref <a[>", "!ref <measure[rounds]> ** 99999", "!ref 9 ** 9 ** 9", "!ref <measure[rounds]> / 0",
    "!copy x", "!ref [a]", "!new:", "!new", "!apply:len [1]", "!apply:builtins.max [[]]", "!apply:sorted [[2, 1]]",
    "!PLACEHOLDER", "!new:torch.nn.ReLU", "!name:torch.nn.ReLU {a: 1}", "!apply:operator.getitem [[1], 5]",
    "!new:slice [1]", "[" * 200 + "]" * 200, "{a: " * 200 + "1" + "}" * 200, "[1, 2, 3, 1]", "[" + "1, " * 2000 + "2]",
)  # fmt: skip

LETTERS = "[]{}:,'\"!&*<>|%@`#-?\n \t0\0a\u2028"
SETTABLE = (
    *(
        "measure.rounds",
        "measure.powertop",
        "measure.memory",
        "pretrained_model.source",
        "pretrained_model.overrides.x",
    ),
    *("profiling_dimensions.example_audio", "pretrained_model.checkpoint", "dataset.source", "trace.labels.x"),
)


class Findings:
    """What came of the mutations."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.longest = 0.0
        self.wrong: list[str] = []

    @property
    def sound(self) -> bool:
        return not self.wrong

    def __str__(self) -> str:
        names = ("accepted", "refused", "tracebacks", "code run", f"over {LONGEST:g} s of CPU")
        figures = ", ".join(f"{name} {self.counts[name]:,}" for name in names)
        return f"{self.counts.total():,} outcomes: {figures}; longest {self.longest:.1f} s of CPU"


def mutated(text: str, chance: random.Random, canary: Path) -> str:
    """One to four changes: of a value, a line, a key, or a few letters."""
    for _ in range(chance.randint(1, 4)):
        piece = chance.choice(HOSTILE if chance.random() < 0.5 else ODD).replace("@", str(canary))
        lines = text.split("\n")
        number = chance.randrange(len(lines))
        kind = chance.randrange(7)
        places = list(PLACE.finditer(text))
        if kind <= 2 and places:
            place = chance.choice(places)
            text = f"{text[: place.start()]}{piece}{text[place.end() :]}"
        elif kind == 3:
            indent = len(lines[number]) - len(lines[number].lstrip())
            lines.insert(number, " " * indent + f"{chance.choice(['a', 'evil', 'measure', 'null', 'x'])}: {piece}")
            text = "\n".join(lines)
        elif kind == 4:
            lines[number : number + 1] = [] if chance.random() < 0.5 else [lines[number]] * 2
            text = "\n".join(lines)
        elif kind == 5:
            where = chance.randrange(len(text) + 1)
            text = (
                text[:where]
                + chance.choice("[]{}:,'\"!&*<>|%@`#-?\n \t0\0a\u2028")
                + text[where + chance.randrange(3) :]
            )
        else:
            text = f"{piece}\n{text}" if chance.random() < 0.3 else f"{text}\nevil: {piece}\n"
    return text


def override(chance: random.Random, canary: Path) -> str:
    sections = ("pretrained_model", "profiling_dimensions", "measure", "trace", "dataset", "variants", "training", "x")
    keys = (
        "source",
        "type",
        "overrides",
        "batch_sizes",
        "example_audio",
        "rounds",
        "checkpoint",
        "labels",
        "0",
        "",
        "x",
    )
    value = chance.choice((*HOSTILE, *ODD)).replace("@", str(canary))
    value = value if chance.random() < 0.7 else f"[{value}, {chance.choice(ODD)}]"
    key = ".".join([chance.choice(sections), *chance.sample(keys, chance.randint(0, 2))])
    key = chance.choice(SETTABLE) if chance.random() < 0.5 else key
    return chance.choice((f"{key}={value}", f"{key}={value}={value}", value, f"={value}", f"{key}.{value}=1"))


def run(count: int, seed: int, overrides: bool = False, trust: bool = False) -> Findings:
    """`count` mutations of the shipped recipes, in a folder of their own. With `trust`, their code runs."""
    findings, chance = Findings(), random.Random(seed)
    sources = [path.read_text(encoding="utf-8") for path in sorted(RECIPES.glob("*.yaml"))]
    # A process that trusted code has started may still write there.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name) / "recipes"  # with all that shipped recipes point to
        folder.mkdir()
        for there in (RECIPES / "architectures", RECIPES / "models"):
            (folder / there.name).symlink_to(there)
        (folder.parent / "samples").symlink_to(RECIPES.parent / "samples")
        canary, path = folder / "canary", folder / "recipe.yaml"
        (folder / "evil.yaml").write_text(f"a: 1\nb: {HOSTILE[0].replace('@', str(canary))}\n")
        for number in range(count):
            source = chance.choice(sources)
            text = source if overrides else mutated(source, chance, canary)
            given = [override(chance, canary) for _ in range(chance.randint(1, 2))] if overrides else []
            shown = repr(given) if overrides else text
            path.write_bytes(text.encode("utf-8", "surrogatepass"))
            before = time.process_time()
            try:
                load_recipe(path, dict(map(parse_override, given)), trust, read_audio=number % 10 == 0)
                findings.counts["accepted"] += 1
            except UserError as error:
                str(error).encode("utf-8", "backslashreplace")
                findings.counts["refused"] += 1
            except BaseException:
                findings.counts["tracebacks"] += 1
                findings.wrong.append(f"{traceback.format_exc()}\n--- {number}\n{shown[:3000]}")
            spent = time.process_time() - before
            findings.longest = max(findings.longest, spent)
            if spent > LONGEST:
                findings.counts[f"over {LONGEST:g} s of CPU"] += 1
                findings.wrong.append(f"{spent:.1f} s of CPU\n--- {number}\n{shown[:3000]}")
            if canary.exists():
                canary.unlink()
                findings.counts["code run"] += 1
                findings.wrong.append(f"code was run\n--- {number}\n{shown[:3000]}")
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--overrides", action="store_true", help="mutate key=value instead of recipes")
    given = parser.parse_args()
    findings = run(given.count, given.seed, given.overrides)
    print("\n\n".join(findings.wrong[:20]))
    print(findings)
    return 0 if findings.sound else 1


if __name__ == "__main__":
    sys.exit(main())
