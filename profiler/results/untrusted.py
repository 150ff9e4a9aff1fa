"""Files of a run that somebody else may have written: names, links and sizes, checked before anything is made of them.

A run's folder, a zip file or a log folder may come from anybody. Whatever in it becomes a path goes through
`FileName`, `InnerPath` or `inside`; whatever is read whole goes through `read_bytes` or `read_json`.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError, core_schema, from_json

from profiler.errors import UserError
from profiler.units import bytes_text

NAME = r"^[A-Za-z0-9][A-Za-z0-9._+-]*$"  # of a variant, in recipes too: its folder is called so
LONGEST_NAME = 200  # characters; file systems take 255 bytes, and some names get an ending
LONGEST_PATH = 1000
LONGEST_TEXT = 1_000_000  # characters of any one text; reasons and commands have hundreds
# A cell takes 2 to 5 kB and some 250 values: with these, a run of 10,000 cells has five times the room it needs, and
# the worst file that passes is read in seconds.
LARGEST = 250_000_000  # bytes
MOST_VALUES = 12_000_000
MOST_CELLS = 100_000
MOST_KEYS = 100_000  # of one mapping: labels, packages, utterances left out
SHOWN = 80  # characters of a refused name


def _checked_name(name: str) -> str:
    if len(name) > LONGEST_NAME or not re.fullmatch(NAME, name) or name.endswith("\n"):
        raise PydanticCustomError(
            "file_name",
            "{name} cannot be the name of a file or folder: it may have at most {most} letters, digits and . _ + -, "
            "and begins with a letter or digit",
            {"name": shortened(repr(name)), "most": LONGEST_NAME},
        )
    return name


def _checked_path(path: str) -> str:
    parts = path.split("/")
    if len(path) > LONGEST_PATH or not path.isprintable() or set("\\:") & set(path) or {"", ".", ".."} & set(parts):
        raise PydanticCustomError(
            "inner_path", "{path} is no path of a file inside of the run's folder", {"path": shortened(repr(path))}
        )
    return path


FileName = Annotated[str, AfterValidator(_checked_name)]
InnerPath = Annotated[str, AfterValidator(_checked_path)]


def shortened(text: str, most: int = SHOWN) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def bounded(schema: Any) -> None:
    """Have a schema of pydantic stop at the first wrong entry of a list, and refuse mappings without end."""
    if isinstance(schema, list):
        for inner in schema:
            bounded(inner)
    elif isinstance(schema, dict):
        if schema.get("function") == {"type": "no-info", "function": _few_keys}:
            return  # done, with the record that it belongs to
        if schema.get("type") == "list":
            schema["fail_fast"] = True
        for inner in schema.values():
            bounded(inner)
        if schema.get("type") == "dict":  # its own limit is looked at after its entries
            mapping = dict(schema)
            schema.clear()
            schema.update(core_schema.no_info_before_validator_function(_few_keys, mapping))


def _few_keys(value: Any) -> Any:
    if isinstance(value, dict) and len(value) > MOST_KEYS:
        raise PydanticCustomError("mapping", "it has more than {most} keys", {"most": MOST_KEYS})
    return value


def inside(folder: Path, name: str) -> Path:
    """A file or folder of a run. Raises UserError where a link leads out of the run's folder."""
    path = folder / name
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise UserError(f"{path} is refused: it is a link that leads out of its run's folder.")
    return path


def fresh(path: Path) -> Path:
    """The same path, to be written: a link that lies there is removed, so that nothing is written where it leads."""
    if path.is_symlink():
        path.unlink()
    return path


def read_bytes(path: Path, most: int = LARGEST) -> bytes:
    """All of a regular file; a pipe or a device would be waited for. Raises UserError where it is larger, OSError."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise UserError(f"{path} is not a file that can be read.")
        content = file.read(found.st_size + 1) if found.st_size <= most else b""
    if found.st_size > most or len(content) > most:
        raise UserError(f"{path} is refused: it is larger than {bytes_text(most)}, which no run writes.")
    return content


def parse_json(content: bytes) -> Any:
    """JSON as we write it: no NaN, no lone surrogates, no deep nesting. Raises ValueError with the reason."""
    if content.count(b",") + content.count(b"[") + content.count(b"{") > MOST_VALUES:
        raise ValueError(f"it holds more than {MOST_VALUES:,} values, which no run writes")
    return from_json(content, allow_inf_nan=False)


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises OSError, UserError where it is too large, ValueError where it is no JSON."""
    return parse_json(read_bytes(path))
