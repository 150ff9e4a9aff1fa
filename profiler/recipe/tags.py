"""Which YAML tags a recipe may use.

HyperPyYAML's `!new:`, `!name:`, `!module:`, `!apply:` and `!applyref:` import and call whatever they name: loading such
a file is running code. They are allowed for the model-building parts of the libraries we serve. Refused are all others,
unless the user says `--trust`, and the parts of those same libraries that start programs, fetch or unpickle.
"""

from __future__ import annotations

import sys
from pathlib import Path

from profiler.recipe.errors import Mistake
from profiler.recipe.lines import Outline, read_outline
from profiler.yaml_values import CALL_PREFIXES

HARMLESS = ("!ref", "!copy", "!tuple", "!")
INCLUDING = "!include:"

# Model-building parts only. Left out on purpose: speechbrain.utils (it has a function that runs a shell command),
# torch.load and torch.hub (they unpickle and download), transformers' from_pretrained (may run a model's own code).
SERVED = (
    "speechbrain.augment.",
    "speechbrain.decoders.",
    "speechbrain.inference.",
    "speechbrain.lobes.",
    "speechbrain.nnet.",
    "speechbrain.processing.",
    "torch.nn.",
    "torch.optim.",
    "torchaudio.models.",
    "torchaudio.transforms.",
    "transformers.models.",
)
# A module's own imports are reachable through it: torch.nn.parallel.distributed.os.popen. These lead out again.
WAYS_OUT = sys.stdlib_module_names | {"dist", "np", "numpy", "requests", "sb", "scipy"}
WAYS_OUT |= {"huggingface_hub", "speechbrain", "torch", "torchaudio", "transformers", "yaml"}
REFUSED_WORDS = ("from_pretrained", "from_hparams", "load", "hub", "system", "eval", "exec", "import")


def is_served(target: str) -> bool:
    """True for a dotted path that a recipe may name without `--trust`."""
    parts = target.lower().replace("_", ".").split(".")
    return (
        target.startswith(SERVED)
        and not any(word in parts or word in target.lower().split(".") for word in REFUSED_WORDS)
        and WAYS_OUT.isdisjoint(target.split(".")[1:])
    )


def check_tags(outline: Outline, path: Path, trust: bool, above: tuple[Path, ...] = ()) -> list[Mistake]:
    """The tags that may not be used here, of this file and of the files it includes."""
    mistakes = []
    for tag, line in outline.tags:
        if tag in HARMLESS:
            continue
        if tag.startswith(INCLUDING):
            mistakes += _check_included(path.parent / tag[len(INCLUDING) :], path, line, trust, above)
        elif trust:
            continue
        elif tag.startswith(CALL_PREFIXES):
            target = tag.split(":", 1)[1]
            if not is_served(target):
                mistakes.append(
                    Mistake(
                        f"`{tag}` would run code. Only model parts of the served libraries are allowed "
                        f"({', '.join(name.rstrip('.') for name in SERVED)}); if you trust this recipe, add --trust",
                        file=str(path),
                        line=line,
                    )
                )
        elif "python/" in tag:
            name = tag.rsplit("python/", 1)[1]
            mistakes.append(
                Mistake(
                    f"`!!python/{name}` would run code; if you trust this recipe, add --trust",
                    file=str(path),
                    line=line,
                )
            )
        else:
            mistakes.append(Mistake(f"unknown tag `{tag}`; did you mean `!ref`?", file=str(path), line=line))
    return mistakes


def _check_included(included: Path, path: Path, line: int, trust: bool, above: tuple[Path, ...]) -> list[Mistake]:
    try:
        text = included.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        return [Mistake(f"cannot include {included}: {reason}", file=str(path), line=line)]
    above = (*above, path.resolve())
    if included.resolve() in above:
        return [Mistake(f"{included} includes itself", file=str(path), line=line)]
    outline = read_outline(text, str(included))
    return outline.mistakes + check_tags(outline, included, trust, above)
