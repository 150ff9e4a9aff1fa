"""Values against the schema: every mistake with its key, what was expected, and the nearest known key."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from profiler.errors import UserError, closest, did_you_mean
from profiler.hyperyaml.outline import Key
from profiler.recipe.schema import Recipe, Variant

MOST_SHOWN = 200  # mistakes that are worth a sentence


def check_values(values: dict[str, Any]) -> tuple[Recipe | None, list[tuple[Key, str]]]:
    """A recipe, or the keys that are wrong with a sentence each."""
    try:
        return Recipe.model_validate(values), []
    except ValidationError as error:
        return None, [(_key(detail), _sentence(detail)) for detail in error.errors()[:MOST_SHOWN]]


def full_names(overrides: Mapping[str, Any], present: Collection[str]) -> dict[str, Any]:
    """{'batch_sizes': [1]} -> {'profiling_dimensions.batch_sizes': [1]}, where no other section has such a key.

    `present`: keys at the top of the recipe. Those of a section that it lacks, and that has no defaults, do not count.
    """
    found: dict[str, Any] = {}
    for given, value in overrides.items():
        name = given
        if "." not in given and given not in present and given not in Recipe.model_fields:
            places = [key for key in _places(given) if key.split(".")[0] in present or key.split(".")[0] in DEFAULTED]
            if len(places) > 1:
                raise UserError(f"`{given}` is a key of several sections: write {' or '.join(places)}.")
            name = places[0] if places else given
        if name in found:
            raise UserError(f"`{name}` is set twice on the command line; keep one.")
        found[name] = value
    return found


DEFAULTED = [name for name, field in Recipe.model_fields.items() if field.default is not None]


def _places(key: str) -> list[str]:
    """Dotted names of a key: those right below a section, else those below that."""
    sections = {name: _section_of(field.annotation) for name, field in Recipe.model_fields.items()}
    inner = {name: section for name, section in sections.items() if section and section is not Variant}
    found = [f"{name}.{key}" for name, section in inner.items() if key in section.model_fields]
    return found or [
        f"{name}.{part}.{key}"
        for name, section in inner.items()
        for part, field in section.model_fields.items()
        if (below := _section_of(field.annotation)) and key in below.model_fields
    ]


def _unknown(name: str, above: Key) -> str:
    """The nearest key of the section, else of another one."""
    here = _keys_at(above)
    elsewhere = [key for section in DEFAULTED if section != "variants" for key in _keys_at((section,))]
    near = [] if closest(name, here) else closest(name, elsewhere)
    return f" Did you mean `{_places(near[0])[0]}`?" if near else did_you_mean(name, here)


def _key(detail: ErrorDetails) -> Key:
    return tuple(detail["loc"])


def _sentence(detail: ErrorDetails) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    given = _show(detail["input"])
    if kind == "extra_forbidden":
        return f"unknown key.{_unknown(str(detail['loc'][-1]), tuple(detail['loc'][:-1]))}"
    if kind == "missing":
        return f"missing. Expected {_describe(_key(detail))}"
    expected: Callable[[], str] | None = {
        "greater_than": lambda: f"a number greater than {context.get('gt'):g}",
        "greater_than_equal": lambda: f"a number of at least {context.get('ge'):g}",
        "less_than_equal": lambda: f"a number of at most {context.get('le'):,}",
        "less_than": lambda: f"a number below {context.get('lt'):g}",
        "too_short": lambda: "a list with at least one value",
        "too_long": lambda: f"at most {context.get('max_length')} of them",
        "string_too_short": lambda: "a text that is not empty",
        "list_type": lambda: "a list, such as [1, 4]",
        "int_type": lambda: "a whole number",
        "float_type": lambda: "a number",
        "finite_number": lambda: "a finite number",
        "string_type": lambda: "a text",
        "bool_type": lambda: "true or false",
        "dict_type": lambda: "a section with keys",
        "model_type": lambda: f"a section with keys: {', '.join(_keys_at(_key(detail)))}",
        "literal_error": lambda: str(context.get("expected")),
        "string_pattern_mismatch": lambda: "letters, digits and . _ + - (it becomes a folder's name)",
    }.get(kind)
    if expected:
        return f"expected {expected()}, got {given}"
    return str(context.get("error") or detail["msg"])


def _show(value: Any) -> str:
    value = value[:99] if isinstance(value, (str, list)) else value
    try:
        text = "nothing" if value is None else str(value) if not isinstance(value, str) else f"'{value}'"
    except ValueError:  # Python writes no number of more than 4,300 digits
        text = "a number of thousands of digits"
    if isinstance(value, bool):
        text = text.lower()
    return text if len(text) <= 60 else text[:57] + "..."


def _section_at(key: Key) -> type[BaseModel] | None:
    section: type[BaseModel] | None = Recipe
    for part in key:
        if isinstance(part, int):
            continue
        field = section.model_fields.get(part) if section else None
        section = _section_of(field.annotation) if field else None
    return section


def _section_of(annotation: Any) -> type[BaseModel] | None:
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def _keys_at(key: Key) -> list[str]:
    section = _section_at(key)
    return list(section.model_fields) if section else []


def _describe(key: Key) -> str:
    section = _section_at(key[:-1])
    field = section.model_fields.get(str(key[-1])) if section else None
    if field and field.description:
        return field.description
    keys = _keys_at(key)
    return f"a section with {', '.join(keys)}" if keys else "a value"
