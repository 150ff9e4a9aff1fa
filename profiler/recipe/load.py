"""The road from a file to a checked Recipe: read, outline, tags, overrides and references, values, paths.

Nothing here imports a model library, and none of the recipe's tags is run: a whole recipe is checked within a fraction
of a second, and every mistake in it is reported at once.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hyperpyyaml import resolve_references
from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from profiler.errors import UserError, did_you_mean
from profiler.recipe.check import check_values
from profiler.recipe.errors import Mistake, RecipeError
from profiler.recipe.inputs import check_inputs
from profiler.recipe.lines import Key, Outline, dotted, read_outline
from profiler.recipe.schema import Recipe, Variant
from profiler.recipe.tags import check_tags
from profiler.shipped import shipped_recipes
from profiler.yaml_values import contains_call, evaluate, is_call, nest

RESOLVED_TAGS = ("!ref", "!copy", "!include:")
NEW = "!new:"
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
    trust: bool = False  # whether the user said so

    @property
    def name(self) -> str:
        return self.title or self.path.stem

    def folder_of(self, variant: str) -> Path:
        """What the paths of a variant are relative to."""
        return self.paths.get(variant, self.path).parent

    def path_of(self, variant: str, path: str) -> Path:
        return (self.folder_of(variant) / Path(path).expanduser()).resolve()

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
    runnable = not mistakes
    recipe, wrong = _check(source, {}, (), runnable, read_audio)
    mistakes += wrong
    by_variant = {}
    for index, variant in enumerate(recipe.variants if recipe else _readable_variants(source)):
        if variant is None:
            continue
        refused = _refuse_settings(source, variant, index) + _refuse_programs(source, variant, index)
        place = ("variants", index, "set")
        changed, wrong = _check(source, variant.set, place, runnable and not refused, read_audio=False)
        known = {(mistake.key, mistake.line) for mistake in mistakes}
        mistakes += refused or [mistake for mistake in wrong if (mistake.key, mistake.line) not in known]
        if changed is not None:
            by_variant[variant.name] = changed
    if mistakes or recipe is None:
        raise RecipeError(str(path), mistakes)
    return LoadedRecipe(path, text, recipe, by_variant, trust=trust)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except IsADirectoryError:
        raise UserError(f"{path} is a folder; name a recipe in it, such as {path / 'wav2vec2.yaml'}.") from None
    except FileNotFoundError:
        known = did_you_mean(path.stem, list(shipped_recipes()))
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


def _describe_python_call(constructor: SafeConstructor, tag: str, node: Node) -> dict[str, Any]:
    return _describe_call(constructor, f"!python/{tag}", node)


_Constructor.add_multi_constructor("!", _describe_call)
_Constructor.add_multi_constructor("tag:yaml.org,2002:python/", _describe_python_call)


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

    def cannot_resolve(self, error: Exception) -> Mistake:
        """HyperPyYAML's complaint, with the line of the reference that it names."""
        reason = str(error.args[0] if error.args else error).rstrip(": .")
        if "overrides" in reason:
            reason += f" ({', '.join(self.overrides)})"
        line = next((line for text, line in self.outline.references if text.strip("<>") in reason), None)
        return Mistake(f"cannot be resolved: {reason}", "a reference or override", str(self.path), line)


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
            resolved = resolve_references(_Named(source.text, str(source.path)), nest({**source.overrides, **settings}))
            values = _without_variables(_plain_values(resolved.getvalue()), source.outline)
            values = _evaluated(_named_class(values))
        except UserError:
            raise
        except Exception as error:
            unresolved = [source.cannot_resolve(error)]
    if values is None:
        try:
            values = _without_variables(_plain_values(source.text), source.outline)
        except Exception as error:  # such as `!!int abc`
            return None, unresolved or [source.cannot_resolve(error)]
    elif (circle := _left_reference(values, ())) is not None:
        unresolved = [source.mistake(circle, "the reference leads back to itself")]
    recipe, wrong = check_values(values)
    wrong += check_inputs(values, source.path.parent, read_audio, source.trust)
    mistakes = []
    for key, sentence in wrong:
        name = dotted(key)
        if _is_call(values, key):
            continue  # a tag that could not be resolved was reported as itself
        given = next((given for given in overrides if _concerns(given, name, key in source.outline.lines)), None)
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
        for value in _plain_values(source.text)["variants"]:
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


def _plain_values(text: str) -> Any:
    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = _Constructor
    yaml.allow_duplicate_keys = True
    return yaml.load(text)


def _without_variables(values: Any, outline: Outline) -> Any:
    """HyperPyYAML recipes may define variables: keys of the top level that some !ref uses, and that we do not know."""
    variables = outline.referenced - set(Recipe.model_fields)
    return {name: value for name, value in values.items() if name not in variables}


def _named_class(values: Any) -> Any:
    """`source: !new:package.Class {...}` is the class and its arguments: built in the worker, not here."""
    model = values.get("pretrained_model") if isinstance(values, dict) else None
    source = model.get("source") if isinstance(model, dict) else None
    if isinstance(model, dict) and isinstance(source, dict) and is_call(source):
        tag, arguments = next(iter(source.items()))
        if tag.startswith(NEW) and (arguments is None or isinstance(arguments, dict)):
            model["source"] = tag[len(NEW) :]
            model["overrides"] = {**(arguments or {}), **(model.get("overrides") or {})}
            model.setdefault("type", "Module")
    return values


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


def _left_reference(value: Any, key: Key) -> Key | None:
    """Where a `!ref` is left after all were resolved: one that leads back to itself."""
    if isinstance(value, dict) and ("!ref" in value or "!copy" in value):
        return key
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return next((found for name, item in inner if (found := _left_reference(item, (*key, name))) is not None), None)


def _is_call(values: Any, key: Key) -> bool:
    """True where the value at a key, or above it, only describes a tag."""
    for part in key:
        try:
            values = values[part]
        except (KeyError, IndexError, TypeError):
            return False
        if is_call(values) or (isinstance(values, dict) and str(next(iter(values), "")).startswith(RESOLVED_TAGS)):
            return True
    return False


def _refuse_programs(source: _Source, variant: Variant, index: int) -> list[Mistake]:
    """What a variant would run or import first."""
    return [
        source.mistake(("variants", index, key), f"would run code (`{value}`); if you trust this recipe, add --trust")
        for key, value in (("python", variant.python), ("path", variant.path))
        if value is not None and not source.trust
    ]


def _refuse_settings(source: _Source, variant: Variant, index: int) -> list[Mistake]:
    return [
        source.mistake(
            ("variants", index, "set", key),
            f"a variant may set keys of {', '.join(SETTABLE)}; the grid is the same for all variants",
        )
        for key in variant.set
        if key.split(".")[0] not in SETTABLE
    ]
