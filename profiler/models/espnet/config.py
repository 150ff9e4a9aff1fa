"""The config.yaml that ESPnet writes in training, with a recipe's overrides: read and checked without ESPnet.

`PARTS` lists the parts that are served by the names ESPnet gives them. ESPnet's own builder imports every part it has,
and with them a dozen packages that inference does not need.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.errors import ModelError, UserError, did_you_mean
from profiler.hyperyaml.read import read_text
from profiler.models.model import refuse_unknown
from profiler.models.reasons import reason
from profiler.yaml_values import nest

FILE = "config.yaml"
LARGEST = 5_000_000  # bytes of it; vocabularies are long

_ENCODERS, _DECODERS = "espnet2.asr.encoder", "espnet2.asr.decoder.transformer_decoder"
PARTS = {
    "frontend": {
        "default": "espnet2.asr.frontend.default.DefaultFrontend",
        "wav2vec_cnn": "espnet2.asr.frontend.cnn.CNNFrontend",
    },
    "normalize": {
        "global_mvn": "espnet2.layers.global_mvn.GlobalMVN",
        "utterance_mvn": "espnet2.layers.utterance_mvn.UtteranceMVN",
    },
    "preencoder": {
        "linear": "espnet2.asr.preencoder.linear.LinearProjection",
        "sinc": "espnet2.asr.preencoder.sinc.LightweightSincConvs",
    },
    "encoder": {
        "branchformer": f"{_ENCODERS}.branchformer_encoder.BranchformerEncoder",
        "conformer": f"{_ENCODERS}.conformer_encoder.ConformerEncoder",
        "e_branchformer": f"{_ENCODERS}.e_branchformer_encoder.EBranchformerEncoder",
        "rnn": f"{_ENCODERS}.rnn_encoder.RNNEncoder",
        "transformer": f"{_ENCODERS}.transformer_encoder.TransformerEncoder",
        "vgg_rnn": f"{_ENCODERS}.vgg_rnn_encoder.VGGRNNEncoder",
    },
    "postencoder": {
        "length_adaptor": "espnet2.asr.postencoder.length_adaptor_postencoder.LengthAdaptorPostEncoder",
    },
    "decoder": {
        "dynamic_conv": f"{_DECODERS}.DynamicConvolutionTransformerDecoder",
        "lightweight_conv": f"{_DECODERS}.LightweightConvolutionTransformerDecoder",
        "rnn": "espnet2.asr.decoder.rnn_decoder.RNNDecoder",
        "transformer": f"{_DECODERS}.TransformerDecoder",
    },
    "model": {"espnet": "espnet2.asr.espnet_model.ESPnetASRModel"},
    "lm": {
        "seq_rnn": "espnet2.lm.seq_rnn_lm.SequentialRNNLM",
        "transformer": "espnet2.lm.transformer_lm.TransformerLM",
    },
}
# What ESPnet takes where config.yaml names none; no part where nothing stands here.
DEFAULTS = {"frontend": "default", "normalize": "utterance_mvn", "encoder": "rnn", "model": "espnet"}

# Keys of the search, as ESPnet's Speech2Text names them, with its defaults; a language model is there only when asked
# for, where Speech2Text takes one that it is given with the weight 1.
SEARCH = {
    "beam_size": 20,
    "ctc_weight": 0.5,
    "lm_weight": 0.0,
    "maxlenratio": 0.0,
    "minlenratio": 0.0,
    "penalty": 0.0,
}
FURTHER_KEYS = (
    "bpemodel",
    "ctc_conf",
    "init",
    "lm_file",
    "lm_train_config",
    "token_list",
    "token_type",
    "vocabulary_size",
)


@dataclass(frozen=True)
class Description:
    """A model as its folder and the recipe describe it."""

    folder: Path
    config: dict[str, Any]
    search: dict[str, float]  # the keys of SEARCH; ctc_weight only where it was given
    tokens: list[str]

    def part(self, kind: str) -> str | None:
        """The name of a part, or None where the model has none."""
        name = self.config.get(kind, DEFAULTS.get(kind))
        return None if name is None else str(name)

    def arguments(self, kind: str) -> dict[str, object]:
        """What config.yaml gives to a part."""
        return dict(self.config.get(f"{kind}_conf") or {})

    def file(self, name: str) -> Path | None:
        """A file that config.yaml names: beside it, or relative to the folder from where training was started."""
        places = (self.folder / Path(name).name, *(parent / name for parent in (self.folder, *self.folder.parents)))
        return next((place for place in places if place.is_file()), None)


def describe(folder: Path, overrides: dict[str, object]) -> Description:
    """Read config.yaml, put the overrides in and check the names of all parts. Imports no model library."""
    config = read_config(folder / FILE)
    changes = _nested(overrides)
    known = {*config, *SEARCH, *FURTHER_KEYS, *PARTS, *(f"{kind}_conf" for kind in PARTS)}
    refuse_unknown(changes, sorted(known), str(folder / FILE))
    given = {key: _number(key, changes.pop(key)) for key in SEARCH if key in changes}
    search = {key: value for key, value in SEARCH.items() if key not in ("beam_size", "ctc_weight")} | given
    for kind in PARTS:  # another part does not take the arguments of the one that it replaces
        if kind in changes and changes[kind] != config.get(kind):
            config.pop(f"{kind}_conf", None)
    config = _merged(config, changes)
    description = Description(folder, config, search, [])
    _check_parts(description)
    description.tokens.extend(_tokens(description))
    _put_beam(description)
    return description


def read_config(path: Path) -> dict[str, Any]:
    """A YAML file that ESPnet wrote, as plain values."""
    import yaml  # type: ignore[import-untyped]  # what ESPnet writes it with

    try:
        config = yaml.safe_load(read_text(path, LARGEST))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ModelError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(config, dict):
        raise ModelError(f"{path} describes no model: expected keys such as encoder and encoder_conf")
    return config


def _nested(overrides: dict[str, object]) -> dict[str, object]:
    """Overrides may be written `encoder_conf.num_blocks: 1` as well."""
    try:
        dotted = nest({key: value for key, value in overrides.items() if "." in key})
    except UserError as error:
        raise ModelError(f"pretrained_model.overrides: {reason(error)}") from None
    return _merged({key: value for key, value in overrides.items() if "." not in key}, dotted)


def _merged(base: dict[str, object], changes: dict[str, object]) -> dict[str, object]:
    merged = dict(base)
    for key, value in changes.items():
        inner = merged.get(key)
        merged[key] = _merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return merged


def _number(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ModelError(f"pretrained_model.overrides: {key} must be a number, not {value!r}")
    if key == "ctc_weight" and not 0 <= value <= 1:
        raise ModelError(f"pretrained_model.overrides: ctc_weight lies between 0 and 1, not at {value:g}")
    if key == "lm_weight" and value < 0:
        raise ModelError(f"pretrained_model.overrides: lm_weight is 0 (no language model) or more, not {value:g}")
    if key == "beam_size" and (not isinstance(value, int) or value < 1):
        raise ModelError(f"pretrained_model.overrides: beam_size is a whole number from 1 on, not {value:g}")
    return value


def _check_parts(description: Description) -> None:
    path = description.folder / FILE
    if description.config.get("input_size") is not None:
        raise ModelError(f"{path} has input_size: this model takes features, and only waveforms are served")
    for kind, served in PARTS.items():
        name = description.part(kind)
        if name is not None and name not in served:
            hint = did_you_mean(name, sorted(served))
            hint = hint if "Did you mean" in hint else ""
            raise ModelError(
                f"{path}: the {kind} `{name}` is not served here.{hint} Served are: {', '.join(sorted(served))}."
            )
        if not isinstance(description.config.get(f"{kind}_conf") or {}, dict):
            raise ModelError(f"{path}: {kind}_conf is a section of keys, not a value")


def _tokens(description: Description) -> list[str]:
    """The vocabulary: as a list, a file, or numbered pieces where only its size is given."""
    path, config = description.folder / FILE, description.config
    size, tokens = config.get("vocabulary_size"), config.get("token_list")
    if size is not None:
        if isinstance(size, bool) or not isinstance(size, int) or size < 3:
            raise ModelError(f"{path}: vocabulary_size is a whole number from 3 on, not {size!r}")
        return ["<blank>", *(f"t{number}" for number in range(1, size - 1)), "<sos/eos>"]
    if isinstance(tokens, str):
        file = description.file(tokens)
        if file is None:
            raise ModelError(f"{path}: its token_list is the file {tokens}, which is not there; put it beside {FILE}")
        tokens = file.read_text(encoding="utf-8").splitlines()
    if not isinstance(tokens, list) or not tokens:
        raise ModelError(f"{path} has no vocabulary: expected token_list (a list or a file)")
    return [str(token).rstrip() for token in tokens]


def _put_beam(description: Description) -> None:
    """ESPnet takes the best `beam_size` tokens of the first step, so that there must be so many."""
    beam = description.search.setdefault("beam_size", min(SEARCH["beam_size"], len(description.tokens)))
    if beam > len(description.tokens):
        raise ModelError(
            f"beam_size {beam:g} is larger than the vocabulary of {len(description.tokens)} tokens, which ESPnet's "
            "search does not take; set pretrained_model.overrides.beam_size"
        )
