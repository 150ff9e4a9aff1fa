"""Recipes, overrides and model folders that try to run code: without --trust none of it runs.

Every payload makes a file, the canary. The same payloads are run with trust, where nothing is on guard: there most of
the canaries appear, which shows that the payloads work and that it is the allow list that stops them.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import pickle
import shutil
import signal
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from profiler.errors import UserError
from profiler.hyperyaml import allowed
from profiler.models.load import load_model
from profiler.models.model import model_request
from profiler.models.torchaudio.on_cpu import ensure_torchaudio
from profiler.recipe.load import load_recipe
from profiler.yaml_values import parse_override
from tests.helpers.tiny import ARCHITECTURES

pytestmark = pytest.mark.slow

TOUCH = "'touch {canary}'"
GRID = "profiling_dimensions: {{audio_mockup_secs: [1], batch_sizes: {batches} }}\n"
PLAIN = "pretrained_model: {source: log-mel, type: LogMel}\n"
SPEECHBRAIN = """\
sample_rate: 16000
enhance_model: !new:torch.nn.Identity
modules: {enhance_model: !ref <enhance_model> }
pretrainer: !new:speechbrain.utils.parameter_transfer.Pretrainer
    loadables: {enhance_model: !ref <enhance_model> }
"""
EVIL_PY = """\
import os
os.system('touch {canary}')
from transformers import PretrainedConfig, PreTrainedModel
class EvilConfig(PretrainedConfig):
    model_type = 'evil'
class EvilModel(PreTrainedModel):
    config_class = EvilConfig
class CustomInterface:
    pass
"""


@dataclass(frozen=True)
class Case:
    """A hostile input: a recipe, the command line's overrides, files beside the recipe. `{canary}` is filled in."""

    name: str
    recipe: str
    overrides: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    prepare: Callable[[Path, Path], None] | None = None
    with_trust: bool = True  # whether it is --trust that would let it run


def in_value(name: str, payload: str, top: str = "", with_trust: bool = True, **more: Any) -> Case:
    """A payload in the place of a plain value, which is read while the recipe is loaded."""
    return Case(name, f"{top}{PLAIN}{GRID.format(batches=payload)}", with_trust=with_trust, **more)


def in_overrides(name: str, payload: str, top: str = "", **more: Any) -> Case:
    """A payload among the arguments of a class, which are evaluated in the worker."""
    model = f"pretrained_model:\n  source: torch.nn.Identity\n  type: Module\n  overrides:\n    x: {payload}\n"
    return Case(name, f"{top}{model}{GRID.format(batches='[1]')}", **more)


def in_folder(name: str, line: str, files: tuple[tuple[str, str], ...] = (), **more: Any) -> Case:
    """A payload in the hyperparams.yaml of a SpeechBrain folder."""
    model = "{source: ./model, type: WaveformEnhancement}"
    recipe = f"pretrained_model: {more.pop('model', model)}\n{GRID.format(batches='[1]')}"
    return Case(name, recipe, files=(("model/hyperparams.yaml", f"{SPEECHBRAIN}{line}\n"), *files), **more)


def of_type(name: str, model: str, **more: Any) -> Case:
    return Case(name, f"pretrained_model: {model}\n{GRID.format(batches='[1]')}", **more)


class Payload:
    """Runs a command when it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> Any:
        return os.system, (self.command,)


def torch_pickle(name: str) -> Callable[[Path, Path], None]:
    def write(folder: Path, canary: Path) -> None:
        import torch

        (folder / name).parent.mkdir(exist_ok=True)
        torch.save({"model": Payload(f"touch {canary}")}, folder / name)

    return write


def raw_pickle(name: str) -> Callable[[Path, Path], None]:
    def write(folder: Path, canary: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(pickle.dumps(Payload(f"touch {canary}"), protocol=2))

    return write


def espnet_with(weights: Callable[[Path, Path], None] | None, line: str = "") -> Callable[[Path, Path], None]:
    def write(folder: Path, canary: Path) -> None:
        shutil.copytree(ARCHITECTURES / "lstm-hybrid-ctc-attention", folder / "model")
        with (folder / "model" / "config.yaml").open("a") as file:
            file.write(line.format(canary=canary))
        if weights is not None:
            weights(folder, canary)

    return write


APPLY = f"!apply:os.system [{TOUCH}]"
PYTHON = f"!!python/object/apply:os.system [{TOUCH}]"
NAMED = f"!name:os.system {{command: {TOUCH}}}"
EXEC = "!apply:builtins.exec [\"open('{canary}', 'w')\"]"
NOTHING = "modules: {}\npretrainer: !new:speechbrain.utils.parameter_transfer.Pretrainer\n"
EVIL = (("evil/custom.py", EVIL_PY), ("evil/hyperparams.yaml", NOTHING))
AUTO_MAP = {"model_type": "evil", "auto_map": {"AutoConfig": "evil.EvilConfig", "AutoModel": "evil.EvilModel"}}
REMOTE = (("model/config.json", json.dumps(AUTO_MAP)), ("model/evil.py", EVIL_PY), ("model/pytorch_model.bin", "x"))
WAV2VEC2 = {"model_type": "wav2vec2", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
WAV2VEC2 |= {
    "intermediate_size": 16,
    "conv_dim": [8] * 7,
    "num_conv_pos_embeddings": 4,
    "auto_map": AUTO_MAP["auto_map"],
}
WAV2VEC2 |= {"num_conv_pos_embedding_groups": 2}
TOKENIZER = {"tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": ["evil.CustomInterface", None]}}
EXTRACTOR = {"feature_extractor_type": "Evil", "auto_map": {"AutoFeatureExtractor": "evil.CustomInterface"}}
BACKBONE = (
    "backbone: !new:speechbrain.lobes.models.huggingface_transformers.wav2vec2.Wav2Vec2 "
    "{source: BASE/backbone, save_path: BASE/backbone, trust_remote_code: true}"
)
REFERENCES = "a: '(!!python/object/apply:os.system '\nb: '[\"touch {canary}\"])'\n"

CASES = [
    # -- tags in a recipe, in every way of writing one
    in_value("apply", APPLY),
    in_value("applyref", f"!applyref:os.system [{TOUCH}]"),
    in_value("new", "!new:subprocess.Popen [[touch, {canary}]]"),
    in_value("exec", EXEC),
    in_value("eval", "!apply:builtins.eval [\"__import__('os').system('touch {canary}')\"]"),
    in_value("python tag", PYTHON),
    in_value("python tag, new", "!!python/object/new:subprocess.Popen [[touch, {canary}]]"),
    in_value("verbatim tag", f"!<!apply:os.system> [{TOUCH}]"),
    in_value("verbatim python tag", f"!<tag:yaml.org,2002:python/object/apply:os.system> [{TOUCH}]"),
    in_value("tag directive", f"!e!os.system [{TOUCH}]", top="%TAG !e! !apply:\n---\n"),
    in_value(
        "python tag directive",
        f"!e!os.system [{TOUCH}]",
        top="%TAG !e! tag:yaml.org,2002:python/object/apply:\n---\n",
    ),
    in_value("escaped tag", f"!apply:os%2Esystem [{TOUCH}]"),
    in_value("through a module's imports", f"!apply:torch.nn.parallel.distributed.os.system [{TOUCH}]"),
    in_value("through a class", f"!apply:torch.nn.Identity.__init__.__globals__.os.system [{TOUCH}]", with_trust=False),
    in_value("in a list", f"[1, {APPLY}]"),
    in_value("in a mapping", f"{{a: {APPLY}}}"),
    in_value("anchor", "*x", top=f"v: &x {APPLY}\nw: !ref <v>\n"),
    in_value("merge key", "!ref '<w[a]>'", top=f"v: &x {{a: {APPLY}}}\nw: {{<<: *x}}\n"),
    in_value("copy", "!copy <v>", top=f"v: {APPLY}\n"),
    in_value("text of a call", "!ref <v>-<v>", top=f"v: {APPLY}\n"),
    in_value("key", f"{{? {APPLY}\n : 1}}", with_trust=False),
    in_value("second document", f"[1]}}\n---\na: {APPLY}\n#", with_trust=False),
    in_value("quoted key", f"{{'!apply:os.system': [{TOUCH}]}}", with_trust=False),
    in_value("quoted python tag", f"{{'!!python/object/apply:os.system': [{TOUCH}]}}", with_trust=False),
    in_value("include", "!include:more.yaml", files=(("more.yaml", f"a: {APPLY}\n"),)),
    in_value(
        "include of an include",
        "!include:one.yaml",
        files=(("one.yaml", "a: !include:two.yaml\n"), ("two.yaml", f"a: {PYTHON}\n")),
    ),
    in_value("argument of an include", f"!include:more.yaml {{a: {APPLY}}}", files=(("more.yaml", "a: 1\n"),)),
    Case(
        "set of a variant",
        f"{PLAIN}{GRID.format(batches='[1]')}variants: [{{name: a, set: {{measure.seed: {APPLY}}}}}]\n",
    ),
    # -- what loads code, of libraries that are served
    in_value(
        "dynamic module",
        "!apply:transformers.dynamic_module_utils.get_class_from_dynamic_module "
        "{class_reference: custom.CustomInterface, pretrained_model_name_or_path: BASE/evil}",
        files=EVIL,
    ),
    in_value(
        "foreign class",
        "!apply:speechbrain.inference.interfaces.foreign_class {source: BASE/evil, savedir: BASE/saved}",
        files=EVIL,
    ),
    in_value(
        "torch.hub",
        "!apply:torch.hub.load {repo_or_dir: BASE/evil, model: x, source: local}",
        files=(("evil/hubconf.py", "import os; os.system('touch {canary}')"),),
    ),
    in_value(
        "torch.load",
        "!apply:torch.load {f: BASE/evil.pt, weights_only: false}",
        prepare=torch_pickle("evil.pt"),
    ),
    in_value("run_shell", f"!apply:speechbrain.utils.superpowers.run_shell [{TOUCH}]"),
    # -- arguments of a class
    in_overrides("argument", APPLY),
    in_overrides("argument, python tag", PYTHON),
    in_overrides("argument, quoted key", f"{{'!apply:os.system': [{TOUCH}]}}", with_trust=False),
    in_overrides("argument, tuple", f'"(!!python/object/apply:os.system [{TOUCH}])"', with_trust=False),
    in_overrides("argument, tuple of references", "!ref <a><b>", top=REFERENCES, with_trust=False),
    in_overrides(
        "argument, foreign class",
        "!apply:speechbrain.inference.interfaces.foreign_class {source: BASE/evil, savedir: BASE/saved}",
        files=EVIL,
    ),
    in_overrides(
        "a function that a container calls",
        f"!new:speechbrain.nnet.containers.Sequential {{input_shape: [1, 2, 3], a: {NAMED}}}",
        with_trust=False,
    ),
    in_overrides(
        "private attributes",
        "!ref <c.os>",
        top="a: !name:torch.nn.Identity\nb: !ref <a.__init__>\nc: !ref <b.__globals__>\n",
        with_trust=False,
    ),
    of_type("class as source", "{source: subprocess.Popen, type: Module, overrides: {args: [touch, {canary}]}}"),
    of_type("function as source", f"{{source: os.system, type: Module, overrides: {{command: {TOUCH}}}}}"),
    of_type("tag as source", "\n  source: !new:subprocess.Popen {args: [touch, {canary}]}"),
    of_type(
        "code beside the recipe",
        "{source: mine.Model, type: Module}",
        files=(("mine.py", "import os; os.system('touch {canary}')\nimport torch\nModel = torch.nn.Identity"),),
    ),
    Case(
        "interpreter of a variant",
        f"{PLAIN}{GRID.format(batches='[1]')}variants: [{{name: a, python: ./evil.sh}}]\n",
        files=(("evil.sh", "#!/bin/sh\ntouch {canary}\n"),),
        with_trust=False,  # started by a run, not by loading
    ),
    # -- the command line
    in_value(
        "override, quoted key", "[1]", overrides=(f"measure={{'!apply:os.system': [{TOUCH}]}}",), with_trust=False
    ),
    in_value("override, tag", "[1]", overrides=(f"measure.seed={APPLY}",), with_trust=False),
    in_value("override, python tag", "[1]", overrides=(f"measure.seed={PYTHON}",), with_trust=False),
    in_value("override, reference", "[1]", overrides=("measure.seed=!ref <a>",), with_trust=False),
    # -- SpeechBrain
    in_folder("hyperparams.yaml", f"boom: {APPLY}"),
    in_folder(
        "hyperparams.yaml, random weights",
        f"boom: {APPLY}",
        model="{source: ./model, type: WaveformEnhancement, weights: random}",
    ),
    in_folder(
        "architecture",
        f"boom: {APPLY}",
        model="{source: a/b, architecture: ./model, type: WaveformEnhancement, weights: random}",
    ),
    in_folder("hyperparams.yaml, weights beside it", f"boom: {APPLY}", files=(("model/enhance_model.ckpt", "x"),)),
    in_folder("hyperparams.yaml, include", "boom: !include:more.yaml", files=(("model/more.yaml", f"a: {APPLY}\n"),)),
    in_folder("hyperparams.yaml, exec", f"boom: {EXEC}"),
    in_folder("hyperparams.yaml, python tag", f"boom: {PYTHON}"),
    in_folder("hyperparams.yaml, applyref", f"boom: !applyref:os.system [{TOUCH}]"),
    in_folder("hyperparams.yaml, tuple", f"boom: (!!python/object/apply:os.system [{TOUCH}])", with_trust=False),
    in_folder("hyperparams.yaml, tuple of references", f"{REFERENCES}boom: !ref <a><b>", with_trust=False),
    in_folder(
        "hyperparams.yaml, foreign class",
        "boom: !apply:speechbrain.inference.interfaces.foreign_class {source: BASE/evil, savedir: BASE/saved}",
        files=EVIL,
    ),
    in_folder(
        "hyperparams.yaml, the folder's own class",
        "boom: !new:custom.CustomInterface",
        files=(("model/custom.py", EVIL_PY),),
        with_trust=False,
    ),
    in_folder(
        "hyperparams.yaml, hook",
        f"hooked: !new:speechbrain.utils.parameter_transfer.Pretrainer {{custom_hooks: {{a: {NAMED}}}}}",
        with_trust=False,
    ),
    in_folder(
        "hyperparams.yaml, statement of trust",
        BACKBONE,
        files=tuple((name.replace("model/", "backbone/"), text) for name, text in REMOTE),
    ),
    in_folder("SpeechBrain pickle", "", prepare=torch_pickle("model/enhance_model.ckpt"), with_trust=False),
    in_folder("SpeechBrain raw pickle", "", prepare=raw_pickle("model/enhance_model.ckpt"), with_trust=False),
    # -- transformers
    of_type("auto_map", "{source: ./model, type: AutoModel}", files=REMOTE),
    of_type("auto_map, random weights", "{source: ./model, type: AutoModel, weights: random}", files=REMOTE),
    of_type(
        "trust in the overrides",
        "{source: ./model, type: AutoModel, overrides: {trust_remote_code: true}}",
        files=REMOTE,
    ),
    of_type(
        "trust on the command line",
        "{source: ./model, type: AutoModel}",
        overrides=("pretrained_model.overrides.trust_remote_code=true",),
        files=REMOTE,
    ),
    of_type(
        "auto_map of the tokenizer",
        "{source: ./model, type: AutoModelForCTC, weights: random}",
        files=(
            ("model/config.json", json.dumps(WAV2VEC2)),
            ("model/tokenizer_config.json", json.dumps(TOKENIZER)),
            ("model/evil.py", EVIL_PY),
        ),
    ),
    of_type(
        "auto_map of the feature extractor",
        "{source: ./model, type: AutoModel, weights: random}",
        files=(
            ("model/config.json", json.dumps(WAV2VEC2)),
            ("model/preprocessor_config.json", json.dumps(EXTRACTOR)),
            ("model/evil.py", EVIL_PY),
        ),
    ),
    of_type(
        "transformers pickle",
        "{source: ./model, type: AutoModel}",
        files=(("model/config.json", json.dumps(WAV2VEC2)), ("model/evil.py", EVIL_PY)),
        prepare=torch_pickle("model/pytorch_model.bin"),
        with_trust=False,
    ),
    # -- ESPnet, s3prl, torchaudio, files
    of_type(
        "ESPnet python tag",
        "{source: ./model, type: ESPnetASRModel}",
        prepare=espnet_with(None, f"boom: {PYTHON}\n"),
        with_trust=False,
    ),
    of_type(
        "ESPnet pickle",
        "{source: ./model, type: ESPnetASRModel}",
        prepare=espnet_with(torch_pickle("model/valid.acc.best.pth")),
        with_trust=False,
    ),
    of_type(
        "s3prl python tag",
        "{source: a/b, architecture: ./model, type: TERA}",
        files=(("model/config_model.yaml", f"a: {PYTHON}\n"),),
        with_trust=False,
    ),
    of_type(
        "s3prl pickle", "{source: ./states.ckpt, type: TERA}", prepare=torch_pickle("states.ckpt"), with_trust=False
    ),
    of_type(
        "torchaudio argument",
        f"\n  source: torchaudio:HUBERT_BASE\n  type: Bundle\n  weights: random\n  overrides: {{a: {APPLY}}}",
        with_trust=False,
    ),
    of_type(
        "TorchScript pickle",
        "{source: ./model.pt, type: TorchScript}",
        prepare=torch_pickle("model.pt"),
        with_trust=False,
    ),
    of_type(
        "TorchScript raw pickle",
        "{source: ./model.pt, type: TorchScript}",
        prepare=raw_pickle("model.pt"),
        with_trust=False,
    ),
    of_type(
        "checkpoint pickle",
        "{source: torch.nn.Identity, type: Module, checkpoint: c.pt}",
        prepare=torch_pickle("c.pt"),
        with_trust=False,
    ),
    of_type(
        "checkpoint raw pickle",
        "{source: torch.nn.Identity, type: Module, checkpoint: c.pt}",
        prepare=raw_pickle("c.pt"),
        with_trust=False,
    ),
]


def attempt(case: Case, folder: Path, canary: Path, trust: bool) -> None:
    """Load the recipe, and the model of each of its variants, as a run does."""

    def filled(text: str) -> str:
        return text.replace("{canary}", str(canary)).replace("BASE", str(folder))

    for name, text in case.files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(filled(text))
        (folder / name).chmod(0o755)
    if case.prepare is not None:
        case.prepare(folder, canary)
    path = folder / "recipe.yaml"
    path.write_text(filled(case.recipe))
    overrides = dict(parse_override(filled(given)) for given in case.overrides)
    loaded = load_recipe(path, overrides, trust, read_audio=False)
    for recipe in loaded.by_variant.values():
        load_model(model_request(recipe, folder, trust=trust))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_runs_without_trust(case: Case, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    (tmp_path / "in").mkdir()
    with contextlib.suppress(UserError):
        attempt(case, tmp_path / "in", canary, trust=False)
    assert not canary.exists()


@pytest.mark.parametrize(
    "case",
    [in_value("plain", "[1]"), in_overrides("class", "!new:torch.nn.ReLU"), in_folder("folder", "x: (3, 4)")],
    ids=lambda case: case.name,
)
def test_the_same_without_a_payload_loads(case: Case, tmp_path: Path) -> None:
    """So that none of the above is refused for another reason."""
    attempt(case, tmp_path, tmp_path / "canary", trust=False)


def test_a_refusal_names_line_and_call_and_the_way_out(tmp_path: Path) -> None:
    case = in_folder("", f"boom: {APPLY}\nmore: !new:os.popen ['x']")
    with pytest.raises(UserError) as refused:
        attempt(case, tmp_path, tmp_path / "canary", trust=False)
    for part in ("hyperparams.yaml:6: `!apply:os.system`", "hyperparams.yaml:7: `!new:os.popen`", "--trust"):
        assert part in str(refused.value)


def test_with_trust_the_payloads_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In forks, because they do as they please."""
    ensure_torchaudio()
    import torch
    from transformers import dynamic_module_utils

    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    silent = []
    cases = [case for case in CASES if case.with_trust]
    for number, case in enumerate(cases):
        folder, canary = tmp_path / f"in{number}", tmp_path / f"canary{number}"
        folder.mkdir()
        child = os.fork()
        if child == 0:
            torch.set_num_threads(1)  # threads of this process that other tests have started are not in a fork
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # pytest-timeout has a handler of its own
            signal.alarm(150)
            os.environ.pop("TORCH_FORCE_WEIGHTS_ONLY_LOAD", None)  # as a process has it that was told to trust
            with contextlib.suppress(BaseException):
                attempt(case, folder, canary, trust=True)
            os._exit(0)
        os.waitpid(child, 0)
        silent += [] if canary.exists() else [case.name]
    assert len(cases) >= 40
    assert silent == []


def test_the_pickles_work_where_anything_is_unpickled(tmp_path: Path) -> None:
    import torch

    torch_pickle("a.pt")(tmp_path, tmp_path / "a.canary")
    raw_pickle("b.pt")(tmp_path, tmp_path / "b.canary")
    child = os.fork()
    if child == 0:
        os.environ.pop("TORCH_FORCE_WEIGHTS_ONLY_LOAD", None)
        with contextlib.suppress(BaseException):
            torch.load(tmp_path / "a.pt", weights_only=False)
            pickle.loads((tmp_path / "b.pt").read_bytes())
        os._exit(0)
    os.waitpid(child, 0)
    assert (tmp_path / "a.canary").exists()
    assert (tmp_path / "b.canary").exists()


def test_every_file_is_evaluated_in_one_place() -> None:
    """SpeechBrain's own loading evaluates a folder unchecked: nothing of ours may call it, or HyperPyYAML's."""
    package = Path(__file__).resolve().parents[2] / "profiler"
    forbidden = (
        "load_hyperpyyaml",
        "import hyperpyyaml",
        "from_hparams(",
        "foreign_class(",
        "pydoc.locate",
        "yaml.load(",
    )
    found = [
        f"{path.relative_to(package)}: {word}"
        for path in sorted(package.rglob("*.py"))
        for word in forbidden
        if word in path.read_text(encoding="utf-8")
    ]
    assert found == ["hyperyaml/evaluate.py: load_hyperpyyaml", "hyperyaml/evaluate.py: pydoc.locate"]


def test_every_name_on_the_list_is_a_class_or_a_function_of_its_library() -> None:
    ensure_torchaudio()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of old names of SpeechBrain's
        found = {
            f"{module}.{name}": allowed.find(f"{module}.{name}")
            for module, names in allowed.ALLOWED.items()
            for name in names.split()
        }
        elsewhere = {
            f"{module}.{name}": allowed.find(f"{module}.{name}")
            for module, names in allowed.OF_OTHER_VERSIONS.items()
            for name in names.split()
        }
    missing = [name for name, thing in found.items() if thing is None]
    assert missing == []
    found |= {name: thing for name, thing in elsewhere.items() if thing is not None}
    assert [name for name, thing in found.items() if not (inspect.isclass(thing) or inspect.isroutine(thing))] == []
