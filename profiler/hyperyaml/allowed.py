"""What a recipe, an override or a model's folder may import and call without `--trust`: exact names, nothing else.

A class stands here only if building it, whatever its arguments are, cannot run them as code, import a name given as
text, unpickle, start a program or write a file. Left out for that reason, among others: torch.load, torch.hub and
`from_pretrained` (they unpickle, or run a model's own code); SpeechBrain's `foreign_class` and inference classes (they
run a folder's own code), Checkpointer and the SentencePiece trainer (they write), AddNoise and AddReverb (they fetch
and write), SBRNNBlock (it takes a class by its name), MERT, DiscreteSSL and fairseq (they run or unpickle what they
load). To add a name, read its constructor with that in mind; tests/integration/test_hostile_recipes.py asks that it
exists.
"""

from __future__ import annotations

import importlib
from typing import Any

from profiler.hyperyaml import values
from profiler.hyperyaml.values import Call

_SEARCHERS = (
    "S2SBeamSearcher S2SRNNBeamSearcher S2SRNNGreedySearcher S2STransformerBeamSearcher S2STransformerGreedySearcher "
    "S2SWhisperBeamSearcher S2SWhisperGreedySearcher"
)
_OLD_SEARCHERS = (
    "S2SRNNBeamSearch S2SRNNBeamSearchLM S2SRNNBeamSearchTransformerLM S2SRNNGreedySearch S2STransformerBeamSearch "
    "S2STransformerGreedySearch S2SWhisperBeamSearch S2SWhisperGreedySearch"
)
_SCORERS = "CTCScorer CoverageScorer LengthScorer RNNLMScorer ScorerBuilder TransformerLMScorer"
_CTC = "CTCBeamSearcher CTCPrefixBeamSearcher ctc_greedy_decode"
_BACKBONES = {"hubert": "HuBERT", "wav2vec2": "Wav2Vec2", "wavlm": "WavLM", "weighted_ssl": "WeightedSSLModel"}
_BACKBONES |= {"whisper": "Whisper"}
_SB = "speechbrain"

# Module -> names in it.
ALLOWED = {
    # Python's own, of numbers and lists; none that makes much of little, as a product of a text and a number does
    "builtins": "len max min round slice sorted",
    "dict": "fromkeys",
    "math": "ceil floor log2 sqrt",
    "operator": "floordiv getitem sub truediv",
    "sentencepiece": "SentencePieceProcessor",
    "profiler.doctor.encoder": "TrialEncoder",
    "profiler.models.placeholder_tokens": "PlaceholderTokens",
    # torch
    "torch": "device hamming_window hann_window manual_seed ones zeros",
    "torch.nn": (
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveMaxPool1d AdaptiveMaxPool2d AlphaDropout AvgPool1d AvgPool2d "
        "BCELoss BCEWithLogitsLoss BatchNorm1d BatchNorm2d Bilinear CELU CTCLoss ConstantPad1d ConstantPad2d "
        "Conv1d Conv2d ConvTranspose1d ConvTranspose2d CosineSimilarity CrossEntropyLoss Dropout Dropout1d "
        "Dropout2d ELU Embedding EmbeddingBag Flatten Fold GELU GLU GRU GRUCell GroupNorm Hardshrink Hardsigmoid "
        "Hardswish Hardtanh HuberLoss Identity InstanceNorm1d InstanceNorm2d KLDivLoss L1Loss LPPool1d LPPool2d "
        "LSTM LSTMCell LayerNorm LeakyReLU Linear LogSigmoid LogSoftmax MSELoss MaxPool1d MaxPool2d Mish "
        "ModuleDict ModuleList MultiheadAttention NLLLoss PReLU ParameterDict ParameterList PixelShuffle "
        "PixelUnshuffle RMSNorm RNN RNNCell RReLU ReLU ReLU6 ReflectionPad1d ReflectionPad2d ReplicationPad1d "
        "ReplicationPad2d SELU Sequential SiLU Sigmoid SmoothL1Loss Softmax Softmax2d Softmin Softplus Softshrink "
        "Softsign Tanh Tanhshrink Threshold Transformer TransformerDecoder TransformerDecoderLayer "
        "TransformerEncoder TransformerEncoderLayer Unflatten Unfold Upsample ZeroPad1d ZeroPad2d"
    ),
    "torch.nn.functional": "elu gelu leaky_relu log_softmax relu selu sigmoid silu softmax softplus tanh",
    "torch.optim": "ASGD Adadelta Adagrad Adam AdamW Adamax NAdam RAdam RMSprop SGD",
    "torchaudio.models": (
        "Conformer ConvTasNet DeepSpeech Emformer HDemucs RNNT SquimObjective SquimSubjective Tacotron2 Wav2Letter "
        "Wav2Vec2Model WaveRNN conv_tasnet_base emformer_rnnt_base hubert_base hubert_large hubert_xlarge "
        "wav2vec2_base wav2vec2_large wav2vec2_large_lv60k wav2vec2_model wav2vec2_xlsr_300m wavlm_base "
        "wavlm_large wavlm_model"
    ),
    "torchaudio.transforms": (
        "AmplitudeToDB ComputeDeltas FrequencyMasking GriffinLim InverseMelScale InverseSpectrogram LFCC MFCC "
        "MelScale MelSpectrogram MuLawDecoding MuLawEncoding Resample SlidingWindowCmn SpectralCentroid "
        "Spectrogram TimeMasking TimeStretch Vad Vol"
    ),
    "transformers": (
        "HubertConfig HubertForCTC HubertModel Wav2Vec2Config Wav2Vec2FeatureExtractor Wav2Vec2ForCTC "
        "Wav2Vec2Model WavLMConfig WavLMForCTC WavLMModel WhisperConfig WhisperModel"
    ),
    "transformers.models.hubert": "HubertConfig HubertForCTC HubertModel",
    "transformers.models.wav2vec2": "Wav2Vec2Config Wav2Vec2FeatureExtractor Wav2Vec2ForCTC Wav2Vec2Model",
    "transformers.models.wavlm": "WavLMConfig WavLMForCTC WavLMModel",
    "transformers.models.whisper": "WhisperConfig WhisperModel",
    # SpeechBrain: layers
    f"{_SB}.nnet.CNN": (
        "Conv1d Conv2d ConvTranspose1d DepthwiseSeparableConv1d DepthwiseSeparableConv2d GaborConv1d SincConv"
    ),
    f"{_SB}.nnet.RNN": "AttentionalRNNDecoder GRU GRUCell LSTM LSTMCell LiGRU QuasiRNN RNN RNNCell SLiGRU",
    f"{_SB}.nnet.activations": "GumbelSoftmax Softmax Swish",
    f"{_SB}.nnet.attention": (
        "ContentBasedAttention KeyValueAttention LocationAwareAttention MultiheadAttention "
        "PositionalwiseFeedForward RelPosEncXL RelPosMHAXL"
    ),
    f"{_SB}.nnet.containers": "ConnectBlocks LengthsCapableSequential ModuleList Sequential",
    f"{_SB}.nnet.dropout": "Dropout2d",
    f"{_SB}.nnet.embedding": "Embedding",
    f"{_SB}.nnet.linear": "Linear",
    f"{_SB}.nnet.losses": (
        "AdditiveAngularMargin AngularMargin LogSoftmaxWrapper PitWrapper bce_loss classification_error ctc_loss "
        "get_si_snr_with_pitwrapper kldiv_loss l1_loss mse_loss nll_loss transducer_loss"
    ),
    f"{_SB}.nnet.loss.guidedattn_loss": "GuidedAttentionLoss",
    f"{_SB}.nnet.loss.si_snr_loss": "si_snr_loss",
    f"{_SB}.nnet.loss.stoi_loss": "stoi_loss",
    f"{_SB}.nnet.normalization": (
        "BatchNorm1d BatchNorm2d ExponentialMovingAverage GroupNorm InstanceNorm1d InstanceNorm2d LayerNorm PCEN"
    ),
    f"{_SB}.nnet.pooling": "AdaptivePool AttentionPooling GaussianLowpassPooling Pooling1d Pooling2d StatisticsPooling",
    f"{_SB}.nnet.schedulers": (
        "CyclicCosineScheduler CyclicLRScheduler IntervalScheduler LinearScheduler LinearWarmupScheduler "
        "NewBobScheduler NoamScheduler ReduceLROnPlateau StepScheduler WarmAndExpDecayLRSchedule"
    ),
    f"{_SB}.nnet.transducer.transducer_joint": "Transducer_joint",
    # SpeechBrain: features and signals
    f"{_SB}.dataio.encoder": "CTCTextEncoder CategoricalEncoder TextEncoder",
    f"{_SB}.dataio.preprocess": "AudioNormalizer",
    f"{_SB}.lobes.beamform_multimic": "DelaySum_Beamformer",
    f"{_SB}.lobes.downsampling": ("Conv1DDownsampler Downsampler PoolingDownsampler SignalDownsampler"),
    f"{_SB}.lobes.features": "Fbank Leaf MFCC StreamingFeatureWrapper",
    f"{_SB}.processing.features": (
        "ContextWindow DCT Deltas DynamicRangeCompression Filterbank GlobalNorm ISTFT InputNormalization "
        "InputNormalization._load_statistics_dict MinLevelNorm STFT spectral_magnitude"
    ),
    f"{_SB}.processing.signal_processing": "mean_std_norm resynthesize",
    f"{_SB}.augment.augmenter": "Augmenter",
    f"{_SB}.augment.freq_domain": "RandomShift SpectrogramDrop Warping",
    f"{_SB}.augment.time_domain": "DoClip DropChunk DropFreq RandAmp Resample SpeedPerturb",
    f"{_SB}.utils.dynamic_chunk_training": "DynChunkTrainConfig DynChunkTrainConfigRandomSampler",
    f"{_SB}.utils.epoch_loop": "EpochCounter",
    f"{_SB}.utils.filter_analysis": "FilterProperties stack_filter_properties",
    f"{_SB}.utils.metric_stats": "ErrorRateStats",
    f"{_SB}.utils.parameter_transfer": "Pretrainer",
    f"{_SB}.tokenizers.SentencePiece": "SentencePieceDecoderStreamingContext spm_decode_preserve_leading_space",
    # SpeechBrain: models
    f"{_SB}.lobes.models.CRDNN": "CNN_Block CRDNN DNN_Block",
    f"{_SB}.lobes.models.Cnn14": "Cnn14",
    f"{_SB}.lobes.models.ContextNet": "ContextNet",
    f"{_SB}.lobes.models.ECAPA_TDNN": "Classifier ECAPA_TDNN",
    f"{_SB}.lobes.models.ESPnetVGG": "ESPnetVGG",
    f"{_SB}.lobes.models.EnhanceResnet": "EnhanceResnet",
    f"{_SB}.lobes.models.FastSpeech2": "DurationPredictor EncoderPreNet FastSpeech2 PostNet SPNPredictor",
    f"{_SB}.lobes.models.HifiGAN": "HifiganGenerator UnitHifiganGenerator",
    f"{_SB}.lobes.models.MetricGAN": "EnhancementGenerator Learnable_sigmoid",
    f"{_SB}.lobes.models.MetricGAN_U": "EnhancementGenerator",
    f"{_SB}.lobes.models.RNNLM": "RNNLM",
    f"{_SB}.lobes.models.ResNet": "Classifier ResNet",
    f"{_SB}.lobes.models.Tacotron2": "Tacotron2",
    f"{_SB}.lobes.models.VanillaNN": "VanillaNN",
    f"{_SB}.lobes.models.Xvector": "Classifier Discriminator Xvector",
    f"{_SB}.lobes.models.conv_tasnet": "Decoder Encoder MaskNet",
    f"{_SB}.lobes.models.convolution": "ConvBlock ConvolutionFrontEnd",
    f"{_SB}.lobes.models.dual_path": (
        "DPTNetBlock Decoder Dual_Computation_Block Dual_Path_Model Encoder IdentityBlock PytorchTransformerBlock "
        "SBConformerEncoderBlock SBTransformerBlock SepformerWrapper"
    ),
    f"{_SB}.lobes.models.g2p.model": "AttentionSeq2Seq TransformerG2P",
    f"{_SB}.lobes.models.resepformer": (
        "ResourceEfficientSeparationPipeline ResourceEfficientSeparator SBTransformerBlock_wnormandskip"
    ),
    f"{_SB}.lobes.models.segan_model": "Generator",
    f"{_SB}.lobes.models.transformer.Branchformer": "BranchformerEncoder",
    f"{_SB}.lobes.models.transformer.Conformer": "ConformerEncoder",
    f"{_SB}.lobes.models.transformer.Transformer": "NormalizedEmbedding TransformerDecoder TransformerEncoder",
    f"{_SB}.lobes.models.transformer.TransformerASR": "EncoderWrapper TransformerASR",
    f"{_SB}.lobes.models.transformer.TransformerLM": "TransformerLM",
    f"{_SB}.lobes.models.transformer.TransformerSE": "CNNTransformerSE",
    f"{_SB}.lobes.models.transformer.TransformerST": "TransformerST",
    f"{_SB}.lobes.models.wav2vec": "EncoderWrapper W2VLatentExtractor W2VTargetQuantiser",
    # SpeechBrain: searches
    f"{_SB}.decoders": f"{_SEARCHERS} {_SCORERS} {_CTC} TransducerBeamSearcher",
    f"{_SB}.decoders.ctc": _CTC,
    f"{_SB}.decoders.scorer": _SCORERS,
    f"{_SB}.decoders.seq2seq": _SEARCHERS,
    f"{_SB}.decoders.transducer": "TransducerBeamSearcher",
    # SpeechBrain: backbones of transformers, which load weights as weights only
    **{f"{_SB}.lobes.models.huggingface_transformers.{file}": name for file, name in _BACKBONES.items()},
}

# The same parts by the names that other versions of SpeechBrain have for them; there or not, as installed.
OF_OTHER_VERSIONS = {
    **{f"{_SB}.integrations.huggingface.{file}": name for file, name in _BACKBONES.items()},
    f"{_SB}.integrations.huggingface.w2v_bert": "W2VBert",
    f"{_SB}.lobes.models.huggingface_wav2vec": "HuggingFaceWav2Vec2",
    f"{_SB}.lobes.models.huggingface_whisper": "HuggingFaceWhisper",
    f"{_SB}.lobes.models.huggingface_transformers.huggingface_wav2vec": "HuggingFaceWav2Vec2",
    f"{_SB}.lobes.augment": "SpecAugment TimeDomainSpecAugment",
    f"{_SB}.processing.speech_augmentation": "DoClip DropChunk DropFreq Resample SpeedPerturb",
    f"{_SB}.decoders": _OLD_SEARCHERS,
    f"{_SB}.decoders.seq2seq": _OLD_SEARCHERS,
    f"{_SB}.utils.seed": "seed_everything",
    f"{_SB}.nnet.loss.transducer_loss": "TransducerLoss",
}

NAMES = frozenset(
    f"{module}.{name}"
    for listed in (ALLOWED, OF_OTHER_VERSIONS)
    for module, names in listed.items()
    for name in names.split()
)
# Functions and types of Python itself may be written without `builtins.`; these alone are run while a recipe is read.
PURE = frozenset(ALLOWED["builtins"].split()) | {
    name for name in NAMES if name.startswith(("builtins.", "dict.", "math.", "operator."))
}

# Settings by which a library is told to run a model's own code, to unpickle, or to take native code from a hub.
REFUSED_SETTINGS = {
    *("allow_all_kernels", "allow_pickle", "auto_map", "code_revision", "custom_generate", "custom_pipeline"),
    *("foreign_class", "kernel_config", "pymodule_file", "trust_remote_code", "use_kernels"),
}
KERNELS = ("attn_implementation", "_attn_implementation", "experts_implementation")


def is_allowed(target: str) -> bool:
    """True for a dotted name that may be imported and called without `--trust`."""
    return target in NAMES or target in PURE


def may_call(call: Call) -> bool:
    """Whether a described call may be run without `--trust`."""
    if call.kind == values.PLACEHOLDER:
        return True
    if call.kind == values.ATTRIBUTE:
        return call.target.isidentifier() and not call.target.startswith("_")
    return call.kind in (values.NEW, values.NAME, values.APPLY, values.APPLYREF) and is_allowed(call.target)


def is_pure(value: Any) -> bool:
    """Whether all calls in a value are of Python's own functions."""
    if isinstance(value, Call) and not (value.kind in (values.APPLY, values.APPLYREF) and value.target in PURE):
        return False
    return all(is_pure(inner) for inner in values.inner_values(value))


def find(target: str) -> Any:
    """What an allowed name stands for; None where it is not installed, or is another package's after all."""
    if not is_allowed(target):
        raise PermissionError(target)  # never reached: whoever calls has asked
    target = target if "." in target else f"builtins.{target}"
    modules = sorted({*ALLOWED, *OF_OTHER_VERSIONS}, key=len, reverse=True)
    module = next(name for name in modules if target.startswith(f"{name}."))
    try:
        found: Any = dict if module == "dict" else importlib.import_module(module)
        for part in target[len(module) + 1 :].split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    home = (getattr(found, "__module__", None) or module).split(".")[0].lstrip("_")
    return found if home in (module.split(".")[0], "builtins") else None


def unsafe_settings(value: Any, key: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], str]]:
    """The keys at any depth that would make a library run code of a model's own, with a sentence each."""
    found = []
    value = value.arguments if isinstance(value, Call) else value
    if isinstance(value, dict):
        for name, inner in value.items():
            if _is_unsafe(name, inner):
                sentence = "would let code of the model's own run; if you trust it, add --trust"
                found.append(
                    ((*key, str(name)), f"`{name}: {inner if isinstance(inner, (bool, str)) else '...'}` {sentence}")
                )
            found += unsafe_settings(inner, (*key, str(name)))
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            found += unsafe_settings(inner, (*key, index))
    return found


def _is_unsafe(name: Any, value: Any) -> bool:
    last = str(name).rsplit(".", 1)[-1]  # `wav2vec2.trust_remote_code: true` in a recipe's overrides
    if last in REFUSED_SETTINGS:
        return value is not False and value is not None
    if last == "weights_only":
        return value is not True
    return last in KERNELS and "/" in str(value)
