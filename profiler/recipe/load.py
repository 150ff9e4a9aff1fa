"""The road from a file to a checked Recipe: read, outline, tags, overrides and references, values, paths.

Nothing here imports a model library, and none of the recipe's tags is run: a whole recipe is checked within a fraction
of a second, and every mistake in it is reported at once.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperpyyaml import resolve_references
from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from profiler.errors import UserError
from profiler.nearest import nearest
from profiler.recipe.calls import contains_call, evaluate, is_call
from profiler.recipe.check import check_values
from profiler.recipe.errors import Mistake, RecipeError
from profiler.recipe.inputs import check_inputs
from profiler.recipe.lines import Key, Outline, dotted, read_outline
from profiler.recipe.overrides import nest
from profiler.recipe.schema import Recipe, Variant
from profiler.recipe.tags import check_tags
from profiler.shipped import shipped_recipes

SETTABLE = ("pretrained_model", "measure", "trace")


@dataclass(frozen=True)
class LoadedRecipe:
    """A checked recipe, and what a variant's `set:` makes of it."""

    path: Path
    text: str
    recipe: Recipe
    by_variant: dict[str, Recipe]

    @property
    def name(self) -> str:
        return self.path.stem

    def resolve_path(self, path: str) -> Path:
        """Paths in a recipe are relative to the recipe."""
        return (self.path.parent / Path(path).expanduser()).resolve()


def load_recipe(
    path: str | Path,
    overrides: Mapping[str, Any] | None = None,
    trust: bool = False,
    read_audio: bool = True,
) -> LoadedRecipe:
    """Read and check a recipe; raises RecipeError with all its mistakes.

    `read_audio=False` only looks whether the example audio is there, which saves importing what decodes it.
    """
    path = Path(path)
    text = _read(path)
    outline = read_outline(text, str(path))
    if outline.unreadable:
        raise RecipeError(str(path), outline.mistakes)
    source = _Source(path, text, outline, dict(overrides or {}), trust)
    mistakes = outline.mistakes + check_tags(outline, path, trust)
    recipe, wrong = _check(source, {}, "command line", runnable=not mistakes, read_audio=read_audio)
    if mistakes or wrong or recipe is None:
        raise RecipeError(str(path), mistakes + wrong)
    by_variant, wrong = {}, []
    for index, variant in enumerate(recipe.variants):
        refused = _refuse_settings(source, variant, index)
        changed, more = _check(source, variant.set, f"variant `{variant.name}`", not refused, read_audio=False)
        wrong += refused or more
        if changed is not None:
            by_variant[variant.name] = changed
    if wrong:
        raise RecipeError(str(path), wrong)
    return LoadedRecipe(path, text, recipe, by_variant)


def _read(path: Path) -> str:
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a recipe in it, such as {path / 'wav2vec2.yaml'}.")
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        known = nearest(path.stem, list(shipped_recipes()))
        raise UserError(f"There is no recipe {path}.{known} `python profile.py ls` lists what ships.") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a text file; a recipe is YAML in UTF-8.") from None
    except OSError as error:
        raise UserError(f"Cannot read the recipe {path}: {error.strerror}.") from None


class _Named(io.StringIO):
    """A text with a file name: HyperPyYAML looks up includes beside it."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self.name = name


class _Constructor(SafeConstructor):
    """Builds plain values; a tag that would call something becomes a mapping that only describes it."""


def _describe_call(constructor: SafeConstructor, tag: str, node: Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, MappingNode):
        value = constructor.construct_mapping(node, deep=True)
    elif isinstance(node, SequenceNode):
        value = constructor.construct_sequence(node, deep=True)
    else:
        value = constructor.construct_scalar(node) or None
    return {f"!{tag}": value}


_Constructor.add_multi_constructor("!", _describe_call)


@dataclass(frozen=True)
class _Source:
    """The text of a recipe, what its outline says, and what the command line changes in it."""

    path: Path
    text: str
    outline: Outline
    overrides: dict[str, Any]
    trust: bool

    def mistake(self, key: Key, sentence: str) -> Mistake:
        return Mistake(sentence, dotted(key), str(self.path), self.outline.line_of(key))


def _check(
    source: _Source, settings: dict[str, Any], place: str, runnable: bool, read_audio: bool
) -> tuple[Recipe | None, list[Mistake]]:
    """Values of the recipe with `settings` on top, and what is wrong with them.

    A recipe that may not be resolved (a refused tag, a duplicate key) is still checked as far as it can be read, so
    that one look shows everything there is to mend.
    """
    overrides = {**source.overrides, **settings}
    unresolved: list[Mistake] = []
    values: Any = None
    if runnable:
        try:
            resolved = resolve_references(_Named(source.text, str(source.path)), nest(overrides))
            values = _evaluated(_plain_values(resolved.getvalue()))
        except UserError:
            raise
        except Exception as error:
            reason = str(error.args[0] if error.args else error).rstrip(": .")
            unresolved = [Mistake(f"cannot be resolved: {reason}", "a reference or override", str(source.path))]
    if values is None:
        values = _plain_values(source.text)
    # HyperPyYAML recipes may define variables: keys of the top level that some !ref uses.
    for name in source.outline.referenced - set(Recipe.model_fields):
        values.pop(name, None)
    recipe, wrong = check_values(values)
    wrong += check_inputs(values, source.path.parent, read_audio, source.trust)
    mistakes = []
    for key, sentence in wrong:
        name = dotted(key)
        if _is_call(values, key):
            continue  # a tag that could not be resolved was reported as itself
        if any(name == given or name.startswith((f"{given}.", f"{given}[")) for given in overrides):
            mistakes.append(Mistake(f"{sentence} (from the {place})", name))
        else:
            mistakes.append(source.mistake(key, sentence))
    return (recipe if not unresolved else None), unresolved + mistakes


def _plain_values(text: str) -> Any:
    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = _Constructor
    yaml.allow_duplicate_keys = True
    return yaml.load(text)


def _evaluated(values: Any) -> Any:
    """Run checked tags where a plain value is expected; the model's overrides keep theirs for the worker."""
    if not contains_call(values):
        return values
    model = values.get("pretrained_model")
    overrides = model.pop("overrides", None) if isinstance(model, dict) else None
    evaluated = {name: evaluate(value) for name, value in values.items()}
    if overrides is not None:
        evaluated["pretrained_model"]["overrides"] = overrides
    return evaluated


def _is_call(values: Any, key: Key) -> bool:
    """True where the value at a key, or above it, only describes a tag."""
    for part in key:
        try:
            values = values[part]
        except (KeyError, IndexError, TypeError):
            return False
        if is_call(values) or (isinstance(values, dict) and "!ref" in values):
            return True
    return False


def _refuse_settings(source: _Source, variant: Variant, index: int) -> list[Mistake]:
    return [
        source.mistake(
            ("variants", index, "set", key),
            f"a variant may set keys of {', '.join(SETTABLE)}; the grid is the same for all variants",
        )
        for key in variant.set
        if key.split(".")[0] not in SETTABLE
    ]
