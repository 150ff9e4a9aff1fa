"""Checks of a recipe: values against the schema, and what they point to.

Every mistake comes with its key, what was expected, and the nearest known key. Whether audio, interface and model are
there is told from files alone; no model library is imported. Values may be of any type: a recipe is looked at whole,
also where its schema refuses it, so that one look shows everything there is to fix.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from profiler.errors import AudioError, ModelError, UserError, closest, did_you_mean
from profiler.hyperyaml.allowed import is_allowed, unsafe_settings
from profiler.hyperyaml.outline import Key
from profiler.models import registry
from profiler.models.own.adapter_file import is_adapter_file
from profiler.recipe.schema import Recipe
from profiler.runtimes import ENGINES, check_installed
from profiler.user_path import user_path

MOST_SHOWN = 200  # mistakes that are worth a sentence
ONE_AT_A_TIME = "the interface {} takes one recording at a time; set {}"
Wrong = tuple[Key, str]


def check_values(values: dict[str, object]) -> tuple[Recipe | None, list[Wrong]]:
    """A recipe, or the keys that are wrong with a sentence each."""
    try:
        return Recipe.model_validate(values), []
    except ValidationError as error:
        return None, [(detail["loc"], _sentence(detail)) for detail in error.errors()[:MOST_SHOWN]]


def full_names(overrides: Mapping[str, Any], recipe: Mapping[str, Any]) -> dict[str, Any]:
    """{'batch_sizes': [1]} -> {'profiling_dimensions.batch_sizes': [1]}, where no other section has such a key.

    `recipe`: its keys at the top. Sections that it lacks do not count where they have no defaults; where several have
    such a key, neither do those of another mode: `budget` is measure.budget in a recipe that does not serve.
    """
    mode = overrides.get("mode", recipe.get("mode", Recipe.model_fields["mode"].default))
    idle = {name for name in OF_A_MODE if isinstance(mode, str) and name not in (mode, *recipe)}
    found: dict[str, Any] = {}
    for given, value in overrides.items():
        name = given
        if "." not in given and given not in recipe and given not in Recipe.model_fields:
            places = [key for key in _places(given) if key.split(".")[0] in recipe or key.split(".")[0] in DEFAULTED]
            places = [key for key in places if key.split(".")[0] not in idle] or places
            if len(places) > 1:
                raise UserError(f"`{given}` is a key of several sections: write {' or '.join(places)}.")
            name = places[0] if places else given
        if name in found:
            raise UserError(f"`{name}` is set twice on the command line; keep one.")
        found[name] = value
    return found


OF_A_MODE = ("training", "serving")  # sections that apply in the mode of their name alone
DEFAULTED = [name for name, field in Recipe.model_fields.items() if field.default is not None]


def _places(key: str) -> list[str]:
    """Dotted names of a key: those right below a section, else those below that."""
    sections = [name for name in Recipe.model_fields if name != "variants"]
    found = [f"{name}.{key}" for name in sections if key in _keys_at((name,))]
    return found or [
        f"{name}.{part}.{key}" for name in sections for part in _keys_at((name,)) if key in _keys_at((name, part))
    ]


def _unknown(name: str, above: Key) -> str:
    """The nearest key of the section, else of another one."""
    here = _keys_at(above)
    elsewhere = [key for section in DEFAULTED if section != "variants" for key in _keys_at((section,))]
    near = [] if closest(name, here) else closest(name, elsewhere)
    return f" Did you mean `{_places(near[0])[0]}`?" if near else did_you_mean(name, here)


def _sentence(detail: ErrorDetails) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    given = _show(detail["input"])
    if kind == "extra_forbidden":
        return f"unknown key.{_unknown(str(detail['loc'][-1]), detail['loc'][:-1])}"
    if kind == "missing":
        return f"missing. Expected {_describe(detail['loc'])}"
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
        "model_type": lambda: f"a section with keys: {', '.join(_keys_at(detail['loc']))}",
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
        kinds = (field.annotation, *get_args(field.annotation)) if field else ()
        section = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
    return section


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


# -- what a recipe points to


def check_inputs(values: dict[str, object], base: Path, read_audio: bool, trust: bool) -> list[Wrong]:
    """The keys whose target is not there or not usable, with a sentence each."""
    model, grid = _section(values, "pretrained_model"), _section(values, "profiling_dimensions")
    wrong = list(_check_model(model, grid, values, base, trust)) + list(_check_dataset(values, model, base))
    wrong += _check_engines(values)
    report, audio = _section(values, "measure").get("powertop"), grid.get("example_audio")
    if isinstance(report, str):  # whether it is there is said when it is read; a device or pipe would never end
        wrong += _caught(("measure", "powertop"), lambda: _require(report, base, _may_be_read, "file"))
    if isinstance(audio, str) and audio not in ("None", "none"):
        key = ("profiling_dimensions", "example_audio")
        wrong += _caught(key, lambda: _check_audio(user_path(audio, base), read_audio))
    return wrong


def _section(values: dict[str, object], name: str) -> dict[str, object]:
    found = values.get(name)
    return found if isinstance(found, dict) else {}


def _caught(key: Key, check: Callable[[], None]) -> list[Wrong]:
    """What a check says of a key; nothing where it has nothing to say."""
    try:
        check()
    except UserError as error:
        return [(key, str(error))]
    except OSError as error:  # a folder that may not be entered, a name that is too long
        return [(key, f"cannot be read: {error.strerror}")]
    return []


def _require(name: str, base: Path, is_there: Callable[[Path], bool], what: str) -> None:
    path = user_path(name, base)
    if not is_there(path):
        raise UserError(f"there is no {what} {path}")


def _may_be_read(path: Path) -> bool:
    return path.is_file() or not path.exists()


def _check_model(
    model: dict[str, object], grid: dict[str, object], values: dict[str, object], base: Path, trust: bool
) -> Iterator[Wrong]:
    kind, source, architecture = model.get("type"), model.get("source"), model.get("architecture")
    checkpoint, sizes = model.get("checkpoint"), grid.get("batch_sizes")
    known = isinstance(kind, str) and bool(kind)
    if known and (unknown := _caught(("pretrained_model", "type"), lambda: registry.check_type(str(kind)))):
        yield from unknown
        known = False
    if known:
        kind = str(kind)
        key = ("pretrained_model", "source")
        if isinstance(source, str) and kind == "Module" and not trust and not is_allowed(source):
            yield key, f"`{source}` would be imported, which runs code; if you trust this recipe, add --trust"
        if isinstance(source, str) and source:
            yield from _caught(key, lambda: registry.check_source(source, kind, base))
        if isinstance(architecture, str):
            key = ("pretrained_model", "architecture")
            yield from _caught(key, lambda: registry.check_source(f"{architecture}/", kind, base))
        key = ("pretrained_model", "weights")
        yield from _caught(key, lambda: registry.check_weights(str(model.get("weights")), kind))
        given = model.get("overrides")
        if isinstance(source, str) and isinstance(given, dict):
            key = ("pretrained_model", "overrides")
            yield from _caught(key, lambda: registry.check_overrides(kind, source, given))
        numbers = [size for size in sizes if isinstance(size, int)] if isinstance(sizes, list) else []
        if max(numbers, default=1) > 1 and not registry.takes_batches(kind):
            yield ("profiling_dimensions", "batch_sizes"), ONE_AT_A_TIME.format(kind, "batch_sizes: [1]")
    key = ("pretrained_model", "checkpoint")
    if isinstance(checkpoint, str):
        yield from _caught(key, lambda: _require(checkpoint, base, Path.is_file, "file"))
    if checkpoint and known and kind != "Module":
        yield key, "only a class (type: Module) takes a checkpoint"
    if known and is_adapter_file(str(kind)):
        yield from _check_adapter_file(model, values, trust)
    if known and values.get("mode") == "training":
        yield from _check_training(values, str(kind))
    if known and values.get("mode") == "serving":
        yield from _check_serving(values, str(kind))
    elif known and registry.is_outside(str(kind)):
        yield ("pretrained_model", "type"), "a server that runs already is measured with mode: serving"
    if not trust:  # settings that let a model's own code run
        for inner, sentence in unsafe_settings(model.get("overrides")):
            yield ("pretrained_model", "overrides", *inner), sentence


# What the profiler changes in a model that it has loaded itself.
CHANGES = ("quantize", "precision", "compile", "attention", "memory_format")
# What its file is told in other ways.
NOT_FOR_A_FILE = ("input", "lengths", "prompt", "new_tokens", "architecture")


def _check_adapter_file(model: dict[str, object], values: dict[str, object], trust: bool) -> Iterator[Wrong]:
    """A file of the user's loads and calls the model: it is a program, and nothing else knows what is in the model."""
    kind, variants = model.get("type"), values.get("variants")
    if not trust:
        yield ("pretrained_model", "type"), f"`{kind}` would be run; if you trust it, add --trust"
    if values.get("mode") == "serving":
        yield ("mode",), "serving needs forks of a model that the profiler loads; an adapter file's runs elsewhere"
    for name in NOT_FOR_A_FILE:
        if model.get(name) is not None:
            yield ("pretrained_model", name), "is not for an adapter file, whose `load` takes overrides as arguments"
    for number, variant in enumerate(variants if isinstance(variants, list) else ()):
        given = variant if isinstance(variant, dict) else {}
        for name in CHANGES:
            if given.get(name) not in (None, False):
                sentence = "changes a model that the profiler loads; an adapter file does so itself, by an argument of "
                yield ("variants", number, name), f"{sentence}its `load` (set: {{pretrained_model.overrides: ...}})"
    if _section(values, "trace").get("labels"):
        yield ("trace", "labels"), "are of the modules of a model, which are not known with an adapter file"


def _check_training(values: dict[str, object], kind: str) -> Iterator[Wrong]:
    """Can the interface be trained, with this loss, in these variants?"""
    settings, variants = _section(values, "training"), values.get("variants")
    loss = settings.get("loss", "auto")
    loss = loss if isinstance(loss, str) else "auto"
    yield from _caught(("pretrained_model", "type"), lambda: registry.check_trainable(kind))
    yield from _caught(("training", "loss"), lambda: registry.check_loss(kind, loss))
    if settings.get("transducer_library") == "warprnnt_numba" and not registry.is_there("warprnnt_numba"):
        sentence = 'warprnnt_numba is not installed. Install it: pip install "speech-profiler[transducer]"'
        yield ("training", "transducer_library"), sentence
    for number, variant in enumerate(variants if isinstance(variants, list) else ()):
        given = variant if isinstance(variant, dict) else {}
        for name in ("quantize", "compile", "cuda_graph", "precision", "runtime"):
            if given.get(name) not in (None, False, "float32", "torch"):
                advice = "; set training.precision: bfloat16" if name == "precision" else ""
                yield ("variants", number, name), f"is for inference and does not go with training{advice}"


def _check_engines(values: dict[str, object]) -> Iterator[Wrong]:
    """Is the engine of each variant installed? Of another interpreter that is told when it loads the model."""
    variants = values.get("variants")
    for number, variant in enumerate(variants if isinstance(variants, list) else ()):
        given = variant if isinstance(variant, dict) else {}
        name = given.get("runtime")
        if isinstance(name, str) and name in ENGINES and given.get("python") is None:
            yield from _caught(("variants", number, "runtime"), partial(check_installed, name))


def _check_serving(values: dict[str, object], kind: str) -> Iterator[Wrong]:
    """Is the load generator there, and does the grid leave batches to the load?"""
    if not registry.is_there("mlperf_loadgen"):
        sentence = 'needs MLPerf\'s LoadGen, which is not installed. Install it: pip install "speech-profiler[serving]"'
        yield ("mode",), f"serving {sentence}"
    if _section(values, "profiling_dimensions").get("batch_sizes") not in (None, [1]):
        yield ("profiling_dimensions", "batch_sizes"), "requests are batched by serving.batch; set batch_sizes: [1]"
    settings = _section(values, "serving")
    if registry.is_outside(kind):
        yield from _check_outside(settings, registry.scenario_of(kind))
    size = _section(settings, "batch").get("size")
    if isinstance(size, int) and size > 1 and not registry.takes_batches(kind):
        yield ("serving", "batch", "size"), ONE_AT_A_TIME.format(kind, "size: 1")


# Of each scenario of a server: the limit to its load, and the key that asks for loads.
LIMITS = {"server": ("rate", "loads"), "streams": ("streams", "streams")}


def _check_outside(settings: dict[str, object], scenario: str) -> Iterator[Wrong]:
    """Is the load on a server that runs already limited, and is it of the kind that the server takes?"""
    name, asked = LIMITS[scenario]
    outside, loads = _section(settings, "outside"), settings.get(asked)
    limit = outside.get(name)
    if limit is None:
        yield ("serving",), f"a server needs a limit to its load: set serving.outside: {{{name}: ..., seconds: ...}}"
    if isinstance(limit, int | float) and isinstance(loads, list):
        for number, load in enumerate(loads):
            if isinstance(load, int | float) and load > limit:
                yield ("serving", asked, number), f"{load:g} is more than serving.outside.{name}: {limit:g}"
    if settings.get("scenarios") != [scenario]:
        what = "requests as they arrive" if scenario == "server" else "the audio of live speakers"
        yield ("serving", "scenarios"), f"this server is sent {what}; set scenarios: [{scenario}]"


def _check_dataset(values: dict[str, object], model: dict[str, object], base: Path) -> Iterator[Wrong]:
    """Is it there, and can its batches be processed? What is in it is read once, before a run starts."""
    dataset = _section(values, "dataset")
    source, size, kind = dataset.get("source"), dataset.get("batch_size"), model.get("type")
    if isinstance(source, str) and source:
        yield from _caught(("dataset", "source"), lambda: _require(source, base, Path.exists, "file or folder"))
    by_length = [name for name in ("batch_seconds", "batch_frames") if dataset.get(name) is not None]
    if isinstance(kind, str) and (by_length or (isinstance(size, int) and size > 1)):
        with contextlib.suppress(ModelError):  # an unknown interface is said above
            if not registry.takes_batches(kind):
                yield ("dataset", *by_length, "batch_size")[:2], ONE_AT_A_TIME.format(kind, "batch_size: 1")


def _check_audio(path: Path, read: bool) -> None:
    if read:
        from profiler.audio import check_audio

        check_audio(path)
    elif path.is_dir():
        raise AudioError(f"{path} is a folder; name one audio file")
    elif not path.is_file():
        raise AudioError(f"there is no audio file {path}")
