"""The road from a file to a checked Recipe: read, outline, tags, overrides and references, values, paths.

Nothing here imports a model library, and none of the recipe's tags is run: a whole recipe is checked within a fraction
of a second, and every mistake in it is reported at once.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from profiler.errors import UserError, closest
from profiler.hyperyaml import values as kinds
from profiler.hyperyaml.allowed import is_pure
from profiler.hyperyaml.evaluate import compute, evaluate
from profiler.hyperyaml.outline import Key, Mistake, Outline, RecipeError, dotted
from profiler.hyperyaml.read import Document, read_document
from profiler.hyperyaml.resolve import Unresolved, resolve
from profiler.hyperyaml.values import Call, Include, Reference, contains_call
from profiler.models.identify import found_type
from profiler.recipe.check import check_inputs, check_values, full_names
from profiler.recipe.schema import Recipe, Variant
from profiler.shipped import shipped_recipes
from profiler.user_path import user_path
from profiler.yaml_values import nest

MOST_READ = 20  # variants of a recipe that has mistakes elsewhere; each is a recipe to check
SETTABLE = ("pretrained_model", "measure", "trace", "training")


@dataclass(frozen=True)
class LoadedRecipe:
    """A checked recipe, and what a variant's `set:` makes of it.

    The variants of an A/B run come from two recipes: `paths` then says which one each is from.
    """

    path: Path
    text: str
    recipe: Recipe
    by_variant: dict[str, Recipe]
    paths: dict[str, Path] = field(default_factory=dict)
    title: str = ""
    trust: bool = False  # the user's word that code may be run which is not on the allow list
    overrides: dict[str, Any] = field(default_factory=dict)  # what the command line changed, by full names

    @property
    def name(self) -> str:
        return self.title or self.path.stem

    def folder_of(self, variant: str) -> Path:
        """What the paths of a variant are relative to."""
        return self.paths.get(variant, self.path).parent

    def resolve_path(self, path: str, variant: str = "") -> Path:
        """Paths in a recipe are relative to the recipe: to that of a variant, where one is named."""
        return user_path(path, self.folder_of(variant)).resolve()


def load_recipe(
    path: str | Path,
    overrides: Mapping[str, Any] | None = None,
    trust: bool = False,
    read_audio: bool = True,
) -> LoadedRecipe:
    """Read and check a recipe; raises RecipeError with all its mistakes.

    `read_audio=False` only looks whether the example audio is there, which saves importing what decodes it.
    """
    path = user_path(path)
    document = _read(path, trust)
    if document.tree is None:
        raise RecipeError(str(path), document.mistakes)
    source = _Source(document, full_names(overrides or {}, document.tree), trust)
    mistakes = list(document.mistakes)
    runnable = not mistakes
    recipe, wrong = _check(source, {}, (), runnable, read_audio)
    mistakes += wrong
    by_variant = {}
    for index, variant in enumerate(recipe.variants if recipe else _readable_variants(source)):
        if variant is None:
            continue
        refused = _refused(source, variant, index)
        if recipe is not None and not variant.set and not refused:
            by_variant[variant.name] = recipe
            continue
        place = ("variants", index, "set")
        changed, wrong = _check(source, variant.set, place, runnable and not refused, read_audio=False)
        known = {(mistake.key, mistake.line) for mistake in mistakes}
        mistakes += refused or [mistake for mistake in wrong if (mistake.key, mistake.line) not in known]
        if changed is not None:
            by_variant[variant.name] = changed
    if mistakes or recipe is None:
        raise RecipeError(str(path), mistakes)
    return LoadedRecipe(path, document.text, recipe, by_variant, trust=trust, overrides=source.overrides)


def _read(path: Path, trust: bool) -> Document:
    try:
        return read_document(path, trust)
    except IsADirectoryError:
        raise UserError(f"{path} is a folder; name a recipe in it, such as {path / 'wav2vec2.yaml'}.") from None
    except FileNotFoundError:
        known = {name: name for name in shipped_recipes()}
        known |= {file.stem: str(file) for file in sorted(path.parent.glob("*.yaml"))}  # beside it
        close = closest(path.stem, known)
        meant = f" Did you mean `{known[close[0]]}`?" if close else ""
        raise UserError(f"There is no recipe {path}.{meant} `python profile.py ls` lists what ships.") from None
    except OSError as error:
        raise UserError(f"Cannot read the recipe {path}: {error.strerror}.") from None


@dataclass(frozen=True)
class _Source:
    """A recipe as it was read, and what the command line changes in it."""

    document: Document
    overrides: dict[str, Any]
    trust: bool

    def mistake(self, key: Key, sentence: str) -> Mistake:
        return Mistake(sentence, dotted(key), str(self.document.path), self.document.outline.line_of(key))


def _check(
    source: _Source, settings: dict[str, Any], place: Key, runnable: bool, read_audio: bool
) -> tuple[Recipe | None, list[Mistake]]:
    """Values of the recipe with `settings` on top, which stand at `place`, and what is wrong with them.

    A recipe that may not be resolved (a refused tag, a duplicate key) is still checked as far as it can be read, so
    that one look shows everything there is to fix.
    """
    overrides = {**settings, **source.overrides, **settings}  # settings are looked up first, and win
    unresolved: list[Mistake] = []
    values: Any = None
    if runnable:
        try:
            resolved = resolve(
                source.document.tree,
                nest({**source.overrides, **settings}),
                functools.partial(compute, trust=source.trust),
                null_removes=True,
            )
            values = _evaluated(_named_class(_without_variables(resolved, source.document.outline)), source.trust)
        except Unresolved as error:
            reason = str(error).rstrip(": .")
            reason += f" ({', '.join(source.overrides)})" if "overrides" in reason else ""
            what = "a reference or override"
            unresolved = [Mistake(f"cannot be resolved: {reason}", what, str(source.document.path), error.line)]
    raw = values is None
    values = _without_variables(source.document.tree, source.document.outline) if raw else values
    model, unknown = found_type(values.get("pretrained_model"), source.document.path.parent)
    values = {**values, "pretrained_model": model} if model is not None else values
    recipe, wrong = check_values(values)
    wrong += [(("pretrained_model", "type"), unknown)] if unknown else []
    wrong += [] if unknown else check_inputs(values, source.document.path.parent, read_audio, source.trust)
    mistakes = []
    for key, sentence in wrong:
        name = dotted(key)
        if raw and _is_described(values, key):
            continue  # a tag that could not be resolved was reported as itself
        in_file = key in source.document.outline.lines
        given = next((given for given in overrides if _concerns(given, name, in_file)), None)
        if given in settings:
            mistakes.append(source.mistake((*place, given), sentence if name == given else f"{name}: {sentence}"))
        elif given is not None:
            mistakes.append(Mistake(f"{sentence} (from the command line)", name))
        else:
            mistakes.append(source.mistake(key, sentence))
    return (recipe if not unresolved else None), unresolved + mistakes


def _readable_variants(source: _Source) -> list[Variant | None]:
    """The variants of a recipe that has mistakes elsewhere; None in the place of one that has mistakes itself."""
    found: list[Variant | None] = []
    with contextlib.suppress(Exception):
        for value in source.document.tree["variants"][:MOST_READ]:
            try:
                found.append(Variant.model_validate(value))
            except ValidationError:
                found.append(None)
    return found


def _concerns(override: str, name: str, in_file: bool) -> bool:
    """Whether a mistake at `name` comes from an override: of it, of what holds it, or of something new below it."""
    return (
        name == override
        or name.startswith((f"{override}.", f"{override}["))
        or (not in_file and override.startswith(f"{name}."))
    )


def _without_variables(values: Any, outline: Outline) -> Any:
    """HyperPyYAML recipes may define variables: keys of the top level that some !ref uses, and that we do not know."""
    variables = outline.referenced - set(Recipe.model_fields)
    return {name: value for name, value in values.items() if name not in variables}


def _named_class(values: Any) -> Any:
    """`source: !new:package.Class {...}` is the class and its arguments: built in the worker, not here."""
    model = values.get("pretrained_model")
    source = model.get("source") if isinstance(model, dict) else None
    if isinstance(source, Call) and source.kind == kinds.NEW and isinstance(source.arguments, (dict, type(None))):
        given = model.get("overrides")
        made = {"type": "Module", **model, "source": source.target}
        made["overrides"] = {**(source.arguments or {}), **(given if isinstance(given, dict) else {})}
        return {**values, "pretrained_model": made}
    return values


def _evaluated(values: dict[str, Any], trust: bool) -> dict[str, Any]:
    """Run tags where a plain value is expected: Python's own functions alone, or any with the user's trust.

    The model's overrides keep theirs for the worker.
    """

    def plain(value: Any) -> Any:
        return evaluate(value, trust) if contains_call(value) and (trust or is_pure(value)) else value

    try:
        model = values.get("pretrained_model")
        if not isinstance(model, dict):
            return {name: plain(value) for name, value in values.items()}
        made = {name: value if name == "overrides" else plain(value) for name, value in model.items()}
        return {name: made if name == "pretrained_model" else plain(value) for name, value in values.items()}
    except UserError as error:
        raise Unresolved(str(error)) from None
    except Exception as error:  # whatever the called function raises
        raise Unresolved(f"{type(error).__name__}: {error}") from None


def _is_described(values: Any, key: Key) -> bool:
    """True where the value at a key, or above it, only describes a tag."""
    for part in key:
        try:
            values = values[part]
        except (KeyError, IndexError, TypeError):
            return False
        if isinstance(values, (Call, Reference, Include)):
            return True
    return False


def _refused(source: _Source, variant: Variant, index: int) -> list[Mistake]:
    """What a variant may not set, and what it would run or import first."""
    sentence = f"a variant may set keys of {', '.join(SETTABLE)}; the grid is the same for all variants"
    place = ("variants", index)
    python = None if variant.python is None else user_path(variant.python, source.document.path.parent)
    missing = source.trust and python is not None and not (python.is_file() and os.access(python, os.X_OK))
    settings = [key for key in variant.set if key.split(".")[0] not in SETTABLE]
    programs = {} if source.trust else {"python": variant.python, "path": variant.path}
    return (
        [source.mistake((*place, "set", key), sentence) for key in settings]
        + [
            source.mistake((*place, key), f"would run code (`{value}`); if you trust this recipe, add --trust")
            for key, value in programs.items()
            if value is not None
        ]
        + [source.mistake((*place, "python"), f"there is no interpreter {python}")] * missing
    )
