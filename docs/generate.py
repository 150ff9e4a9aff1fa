"""Writes what in docs/ is made from the code: the reference of recipes, and the JSON Schema of results.

.venv/bin/python docs/generate.py [FOLDER]
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from profiler.recipe import schema
from profiler.results import types
from profiler.results.untrusted import LONGEST_TEXT

HERE = Path(__file__).resolve().parent
RECIPE_FILE, SCHEMA_FILE = "recipe-reference.md", "results.schema.json"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
COMMENT = re.compile(r"^    (\w+): .*?\s{2}# (.+)$", re.MULTILINE)

HEAD = """# Recipe reference

Made from `profiler/recipe/schema.py` by `docs/generate.py`; edit there. A recipe is YAML (HyperPyYAML: `!ref` works
everywhere), and every key can be set for one run on the command line, as `section.key=value`, or as `key=value` where
one section alone has it (`budget=5` is `measure.budget` in a recipe that does not serve). Keys without a default must
be given. Paths are relative to the recipe.

```sh
python profile.py cp wav2vec2 my-model.yaml
python profile.py show my-model.yaml --no-counts measure.rounds=1 profiling_dimensions.batch_sizes=[1,8]
```

`show` prints the keys that differ from the defaults (`--all`: every key), and all mistakes at once, with their lines.

On the command line and in a variant's `set`, a mapping is merged into the one that is there: keys that it does not name
stay. `pretrained_model.overrides={}` takes the whole mapping away, and so does `pretrained_model.overrides=null`; any
other value, a list too, is replaced.
"""
END = """
## A variant

`variants` is a list; each entry has a name and says what it changes. A recipe without it has one, `float32`.
Tables give the ratio of each to its `baseline`, or to the first variant.

```yaml
variants:
  - name: float32
  - {name: int8, quantize: dynamic, baseline: float32}
  - {name: one-thread, threads: 1}
  - {name: greedy, set: {pretrained_model.overrides: {beam_size: 1}}}
```
"""


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    (folder / RECIPE_FILE).write_text(recipe_reference(), encoding="utf-8")
    text = json.dumps(results_schema(), indent=1, ensure_ascii=False)
    (folder / SCHEMA_FILE).write_text(text + "\n", encoding="utf-8")


# -- the reference of recipes


def recipe_reference() -> str:
    """A table for each section, in the order of the schema."""
    whole = schema.Recipe.model_json_schema()
    parts = [HEAD, *_plain_keys(whole)]
    for name, prop in whole["properties"].items():
        section = _section(whole, prop)
        if section is not None:
            optional = "" if name in whole["required"] else " Optional."
            what = section["description"].rstrip(".")
            parts.append(f"\n## {_heading(name, prop)}\n\n{what}.{optional}\n\n{_table(whole, section)}")
    return "\n".join(parts) + "\n" + END


def _plain_keys(whole: dict[str, Any]) -> list[str]:
    """Keys of the recipe itself that are no section."""
    plain = {name: prop for name, prop in whole["properties"].items() if _section(whole, prop) is None}
    if not plain:
        return []
    table = {"properties": plain, "required": whole["required"]}
    return [f"\n## Keys at the top\n\n{_table(whole, table)}"]


def _heading(name: str, prop: dict[str, Any]) -> str:
    return f"`{name}`" + (", each entry" if prop.get("type") == "array" else "")


def _section(whole: dict[str, Any], prop: dict[str, Any]) -> dict[str, Any] | None:
    """What a property refers to, where that is a section, alone or in a list."""
    for choice in (prop, prop.get("items", {}), *prop.get("anyOf", [])):
        if "$ref" in choice:
            found: dict[str, Any] = whole["$defs"][choice["$ref"].rsplit("/", 1)[-1]]
            return found if "properties" in found else None
    return None


def _table(whole: dict[str, Any], section: dict[str, Any]) -> str:
    lines = ["| key | type | default | meaning |", "|---|---|---|---|", *_rows(whole, section, "")]
    return "\n".join(lines)


def _rows(whole: dict[str, Any], section: dict[str, Any], prefix: str) -> list[str]:
    rows = []
    for name, prop in section["properties"].items():
        inner = _section(whole, prop)
        if inner is not None:
            rows += _rows(whole, inner, f"{prefix}{name}.")
            continue
        required = name in section.get("required", [])
        default = "must be given" if required else f"`{_yaml(prop.get('default', {}))}`"
        cells = (f"`{prefix}{name}`", _type(prop), default, prop.get("description", ""))
        rows.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return rows


def _type(prop: dict[str, Any]) -> str:
    if "anyOf" in prop:
        return " or ".join(_type(choice) for choice in prop["anyOf"])
    if "enum" in prop or "const" in prop:
        return ", ".join(f"`{value}`" for value in prop.get("enum", [prop.get("const")]))
    if prop.get("type") == "array":
        return f"list, each {_type(prop.get('items', {}))}"
    names = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
    name = names.get(prop.get("type", ""), {"object": "mapping", "null": "null"}.get(prop.get("type", ""), "anything"))
    limits = {"exclusiveMinimum": "> {}", "minimum": ">= {}", "exclusiveMaximum": "< {}", "maximum": "<= {}"}
    said = [text.format(f"{prop[key]:.12g}") for key, text in limits.items() if key in prop]
    return f"{name} {', '.join(said)}".strip()


def _yaml(value: Any) -> str:
    return "null" if value is None else json.dumps(value) if not isinstance(value, str) else value


# -- the schema of results


def results_schema() -> dict[str, Any]:
    """JSON Schema of what this version writes: every key of every object, but for the user's own recipe."""
    whole = _alike(types.Results.model_json_schema(by_alias=True))
    for found in (whole, *whole["$defs"].values()):
        for prop in found["properties"].values():
            prop.pop("title", None)  # the key again, in capitals
    for kind in vars(types).values():
        if inspect.isclass(kind) and issubclass(kind, BaseModel):
            found = whole if kind is types.Results else whole["$defs"].get(kind.__name__)
            if found:
                _describe(found, kind)
    whole["properties"]["schema"] = {
        "const": types.SCHEMA,
        "description": "version of this format; it grows when a key changes its meaning. Files of earlier versions are "
        "read too, and written in this one",
    }
    whole["required"] = ["schema", *whole["required"]]
    head = {"$schema": DIALECT, "title": "results.json of the speech profiler"}
    return head | {key: value for key, value in whole.items() if key != "title"}


def _alike(found: Any) -> Any:
    """As every version of pydantic writes it: newer ones add the limit of all texts to each, and what goes without
    saying."""
    if isinstance(found, list):
        return [_alike(each) for each in found]
    if isinstance(found, float) and found.is_integer():
        return int(found)
    if not isinstance(found, dict):
        return found
    kept = {key: _alike(value) for key, value in found.items() if (key, value) != ("maxLength", LONGEST_TEXT)}
    implied: dict[str, Any] = {"propertyNames": {}, "additionalProperties": True}
    return {key: value for key, value in kept.items() if key not in implied or value != implied[key]}


def _describe(found: dict[str, Any], kind: type[BaseModel]) -> None:
    """The comment beside a field in the source is its description."""
    for name, comment in COMMENT.findall(inspect.getsource(kind)):
        if name in found.get("properties", {}):
            found["properties"][name].setdefault("description", comment)


if __name__ == "__main__":
    main()
