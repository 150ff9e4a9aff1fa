"""A model's name -> its library and interface, by looking: at names, at the files of a folder, inside a description.

Nothing of the model is imported, unpickled or run. What cannot be told this way is an error that says what was seen.
"""

from __future__ import annotations

import importlib.util
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.errors import ModelError, UserError
from profiler.hyperyaml.read import read_document
from profiler.models.espnet.config import FILE as ESPNET_FILE
from profiler.models.formats import (
    HUB_ID,
    cached_folder,
    fetch,
    hub_is_reachable,
    local_file,
    local_folder,
    looks_like_a_path,
)
from profiler.models.own.ctranslate2_folder import is_ctranslate2_folder, what_is_missing
from profiler.models.own.onnx_folder import files_of, is_onnx_folder
from profiler.models.s3prl.adapter import DESCRIPTION_FILE as S3PRL_FILE
from profiler.models.speechbrain.adapter import DESCRIPTION_FILE as SPEECHBRAIN_FILE
from profiler.models.speechbrain.adapter import INTERFACES as SPEECHBRAIN
from profiler.models.torchaudio.adapter import CLASS_OF, PREFIX, STREAMING
from profiler.models.transformers.adapter import FORMAT
from profiler.models.transformers.kinds import interfaces_of, read_config
from profiler.shipped import shipped_architecture

CONFIG = "config.json"
FILES = (
    SPEECHBRAIN_FILE,
    CONFIG,
    ESPNET_FILE,
    S3PRL_FILE,
)  # a SpeechBrain folder may have a config.json of its own beside
NAMED = {"silero_vad": "SileroVAD", "log-mel": "LogMel"}
DOTTED = re.compile(r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")
TORCH_FILES = (".pt", ".pth", ".ts", ".jit", ".ckpt", ".bin", ".tar")
EXPORTED = {
    ".onnx": ("ONNX", "it is an ONNX file"),
    ".xml": ("OpenVINO", "it is OpenVINO's description of a network, with its weights beside"),
    ".pte": ("ExecuTorch", "it is a program of ExecuTorch"),
    ".pt2": ("AOTInductor", "it is a package that AOTInductor compiled"),
}
OTHER_FILES = {
    ".nemo": "a NeMo model: NeMo lives in an environment of its own, in which an adapter file of three functions "
    "runs it (docs/add-a-library.md, 'A library in an environment of its own')",
    ".safetensors": "weights alone: name the folder that holds them together with their config.json",
    ".pb": "a TensorFlow model, which no interface here runs",
    ".tflite": "a TensorFlow Lite model, which no interface here runs",
}


@dataclass(frozen=True)
class Identified:
    """What a model is, as far as can be seen."""

    source: str  # as a recipe names it
    type: str
    because: str  # 'its config.json is of a `whisper`'
    others: tuple[str, ...] = ()  # interfaces that fit too


def identify(source: str, base: Path) -> Identified:
    """Raises ModelError where it cannot be told."""
    if (folder := local_folder(source, base)) is not None:
        return _in_folder(source, folder)
    if (file := local_file(source, base)) is not None:
        return _file(source, file)
    if source in NAMED:
        return Identified(source, NAMED[source], "it comes with the profiler's libraries")
    name = source.removeprefix(PREFIX)
    if name in CLASS_OF:
        others = (STREAMING,) if CLASS_OF[name] == "RNNTBundle" else ()
        return Identified(f"{PREFIX}{name}", CLASS_OF[name], "torchaudio has a bundle of this name", others)
    if is_class(source, base):
        return Identified(source, "Module", "it is the dotted name of a class")
    if DOTTED.match(source):
        raise ModelError(
            f"{source}: there is no package or file `{source.split('.')[0]}`, installed or here, that could have it"
        )
    if looks_like_a_path(source) or not HUB_ID.match(source):
        raise ModelError(
            f"There is no folder or file {source}, and it is no hub id such as openai/whisper-tiny, no name of a class "
            "such as my_models.Encoder, and no bundle of torchaudio"
        )
    return _in_folder(source, _hub_folder(source))


def is_class(source: str, base: Path) -> bool:
    """Whether it is a dotted name whose package is installed, or stands beside the recipe. Nothing is imported."""
    if not DOTTED.match(source):
        return False
    top = source.split(".")[0]
    if (base / top).is_dir() or (base / f"{top}.py").is_file():
        return True
    return importlib.util.find_spec(top) is not None


def could_be_model(given: str) -> bool:
    """Whether an argument is meant as a model, and not as the file of a recipe."""
    path, here = Path(given), Path()
    if given.endswith((".yaml", ".yml")):
        return False
    if path.is_dir():
        return any((path / name).is_file() for name in FILES)
    if path.exists():
        return path.suffix in (*TORCH_FILES, *EXPORTED, *OTHER_FILES)
    first, slash, _ = given.partition("/")
    hub_id = bool(slash) and bool(HUB_ID.match(given)) and not Path(first).exists()
    return given in NAMED or given.removeprefix(PREFIX) in CLASS_OF or is_class(given, here) or hub_id


def _in_folder(source: str, folder: Path) -> Identified:
    if (folder / SPEECHBRAIN_FILE).is_file():
        return _speechbrain(source, folder / SPEECHBRAIN_FILE)
    if is_ctranslate2_folder(folder):
        return Identified(source, "CTranslate2", "it is a folder of CTranslate2: model.bin with vocabulary.json")
    if missing := what_is_missing(folder):
        raise ModelError(f"{source} {missing}")
    if is_onnx_folder(folder) and not FORMAT.has_weights(folder):
        named = ", ".join(file.name for file in files_of(folder))
        return Identified(source, "ONNX", f"it is a folder of transformers whose network is {named}")
    if (folder / CONFIG).is_file():
        config = read_config(folder)
        fitting, kind = interfaces_of(config), config.get("model_type")
        if not fitting:
            said = f"is of the kind `{kind}`, which the installed transformers does not have" if kind else "names none"
            raise ModelError(f"{source}: its {CONFIG} {said}, so that no interface can be told; set `type` yourself")
        saved = ", ".join(str(name) for name in config.get("architectures") or ()) or "no class"
        others = [*fitting[1:], *(["ONNX"] if is_onnx_folder(folder) else [])]
        return Identified(source, fitting[0], f"its {CONFIG} is of a `{kind}` ({saved})", tuple(others))
    if (folder / ESPNET_FILE).is_file():
        return Identified(source, "ESPnetASRModel", f"it has ESPnet's {ESPNET_FILE}")
    if (folder / S3PRL_FILE).is_file():
        kinds = sorted(("Mockingjay", "TERA"), key=lambda kind: kind.lower() not in folder.name.lower())
        return Identified(source, kinds[0], f"it has s3prl's {S3PRL_FILE}", (kinds[1],))
    seen = ", ".join(sorted(path.name for path in folder.iterdir())[:8]) or "nothing"
    raise ModelError(
        f"{source} holds none of {', '.join(FILES)}, by which SpeechBrain, transformers, ESPnet and s3prl describe a "
        f"model; it holds {seen}"
    )


def _speechbrain(source: str, file: Path) -> Identified:
    """By the modules that the description has: those interfaces fit whose modules are all there, most of them first."""
    tree = read_document(file, trust=True).tree  # read, not run: what may be called is asked when it is loaded
    tree = tree if isinstance(tree, dict) else {}
    modules: Any = tree.get("modules")
    there = set(modules) if isinstance(modules, dict) else set()
    fitting = [name for name, each in SPEECHBRAIN.items() if there >= set(each.modules) and set(tree) >= set(each.keys)]
    fitting.sort(key=lambda name: -len(SPEECHBRAIN[name].modules))
    if "compute_stft" not in {str(name).lower() for name in tree}:  # the two interfaces for enhancement differ by it
        fitting.sort(key=lambda name: name == "SpectralMaskEnhancement")
    if not fitting:
        raise ModelError(
            f"{source}: its {SPEECHBRAIN_FILE} has the modules {', '.join(sorted(map(str, there))) or '(none)'}, which "
            f"fit none of the interfaces {', '.join(SPEECHBRAIN)}; set `type` yourself"
        )
    because = f"its {SPEECHBRAIN_FILE} has the modules {', '.join(SPEECHBRAIN[fitting[0]].modules)}"
    return Identified(source, fitting[0], because, tuple(fitting[1:]))


def _file(source: str, file: Path) -> Identified:
    if file.suffix in OTHER_FILES:
        raise ModelError(f"{source} is {OTHER_FILES[file.suffix]}")
    if file.suffix in EXPORTED:
        return _exported(source, file)
    if zipfile.is_zipfile(file):
        try:
            names = zipfile.ZipFile(file).namelist()
        except (OSError, ValueError, zipfile.BadZipFile):
            names = []
        if any("/code/" in name for name in names):
            return Identified(source, "TorchScript", "it is a TorchScript file")
        if any(name.endswith("/data.pkl") for name in names):
            raise ModelError(
                f"{source} is a file of weights, which do not say what model they are of: name the class "
                "(init my_models.Encoder) and set its `checkpoint` to this file; a checkpoint of s3prl has "
                "type: Mockingjay or TERA"
            )
    raise ModelError(
        f"{source} is no TorchScript file, and nothing else by which its model could be told; name a folder, a hub id "
        "or a class"
    )


def _exported(source: str, file: Path) -> Identified:
    """A file of an engine, by its name and its first bytes; what .pt2 holds is told by the names in it."""
    if file.suffix == ".pt2" and not _holds(file, "/data/aotinductor/"):
        raise ModelError(
            f"{source} is an exported program, or something else than a compiled package: compile it with "
            "torch._inductor.aoti_compile_and_package"
        )
    with file.open("rb") as content:
        begin = content.read(4096)
    if file.suffix == ".xml" and b"<net " not in begin:
        raise ModelError(f"{source} is XML, but no network of OpenVINO, which begins with <net")
    if file.suffix == ".pte" and begin[4:6] != b"ET":
        raise ModelError(f"{source} is no program of ExecuTorch, whose files have ET in their first bytes")
    return Identified(source, *EXPORTED[file.suffix])


def _holds(file: Path, part: str) -> bool:
    try:
        return any(part in name for name in zipfile.ZipFile(file).namelist())
    except (OSError, ValueError, zipfile.BadZipFile):
        return False


def _hub_folder(source: str) -> Path:
    """Where the description of a hub model is: in the cache, among the shipped ones, or on the hub, that file alone."""
    for name in FILES:
        if (cached := cached_folder(source, name)) is not None:
            return cached
    shipped = shipped_architecture(source.rsplit("/", 1)[-1])
    if shipped is not None:
        return shipped
    if hub_is_reachable():
        for name in FILES:
            if (fetched := fetch(source, name)) is not None:
                return fetched.parent
        raise ModelError(f"{source} is not on the hub, or has none of {', '.join(FILES)}")
    raise ModelError(
        f"{source} is not in the local cache and the hub cannot be reached, so that nothing can be looked at: name "
        "`type` yourself, or a folder"
    )


def found_type(model: Any, base: Path) -> tuple[Any, str]:
    """The section `pretrained_model` of a recipe with `type: auto` replaced, or the sentence why it cannot be."""
    if not isinstance(model, dict) or model.get("type") != "auto" or not isinstance(model.get("source"), str):
        return model, ""
    try:
        found = identify(model["source"], base)
    except (UserError, OSError) as error:
        return model, f"auto: {error}"
    return {**model, "type": found.type, "source": found.source}, ""
