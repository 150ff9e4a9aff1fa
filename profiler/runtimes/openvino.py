"""OpenVINO, on the CPU: an .xml with its .bin, converted from torch's exported program.

By itself it computes in bfloat16 where the processor can, whatever the weights are: the precision is asked for, and
what each operator really ran in is read back from the compiled model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.errors import NotSupported
from profiler.runtimes.base import EngineCall, Node, Options, Settings, TensorInfo

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

SUFFIX = ".xml"
PACKAGES = ("openvino",)
DYNAMIC = True
PRECISIONS = ("float32", "bfloat16")
QUANTIZES = ()
PROFILE = ""
TIMELINE = "OpenVINO's counters tell how long each operator took, not when it began"
NAMES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "f64": "float64", "i64": "int64", "i32": "int32"}
NAMES |= {"boolean": "bool", "u8": "uint8", "i8": "int8"}
HEAVY = ("MatMul", "FullyConnected", "Convolution", "RNNSeq", "RNNCell")  # operators whose precision is the model's


def export(program: ExportedProgram, file: Path, options: Options) -> None:
    import openvino

    model = openvino.convert_model(program)
    openvino.save_model(model, file, compress_to_fp16=False)


def options(options: Options) -> str:
    return ""  # the precision is one of loading


def load(file: Path, options: Options) -> OpenVinoSession:
    return OpenVinoSession(file, options)


class OpenVinoSession:
    """A compiled model with one request."""

    def __init__(self, file: Path, options: Options) -> None:
        import openvino

        core = openvino.Core()
        if options.precision == "bfloat16" and "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
            raise NotSupported("this processor has no bfloat16 instructions, and OpenVINO does not emulate them")
        wanted = {
            "INFERENCE_PRECISION_HINT": "f32" if options.precision == "float32" else "bf16",
            "INFERENCE_NUM_THREADS": options.threads,
            "NUM_STREAMS": 1,
            "ENABLE_CPU_PINNING": False,  # as the other engines: the system chooses
            "ENABLE_HYPER_THREADING": True,
            "PERF_COUNT": options.profile,
        }
        self._compiled = core.compile_model(str(file), "CPU", wanted)
        self._request = self._compiled.create_infer_request()
        self.inputs = [_info(port, number) for number, port in enumerate(self._compiled.inputs)]
        self.outputs = [_info(port, number) for number, port in enumerate(self._compiled.outputs)]
        self._profiled: list[EngineCall] | None = [] if options.profile else None

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        import torch

        values = {number: tensor.detach().contiguous().numpy() for number, tensor in enumerate(tensors)}
        given = self._request.infer(values, share_inputs=True)
        if self._profiled is not None:
            self._profiled.append(_call(self._request.get_profiling_info()))
        # Copied, for the memory is the request's own and the next call writes there.
        return [torch.from_numpy(value.copy()) for value in given.to_tuple()]

    def describe(self) -> Settings:
        asked = NAMES.get(self._compiled.get_property("INFERENCE_PRECISION_HINT").to_string(), "another precision")
        ran = {_precision(node) for node in self._compiled.get_runtime_model().get_ops() if _kind(node) in HEAVY}
        lower = sorted(ran & {"bfloat16", "float16"}) if asked == "float32" else []
        return Settings(
            self._compiled.get_property("INFERENCE_NUM_THREADS"),
            lower[0] if lower else asked,
        )

    def calls(self) -> list[EngineCall]:
        return self._profiled or []


def _info(port: Any, number: int) -> TensorInfo:
    shape = tuple(None if size.is_dynamic else size.get_length() for size in port.partial_shape)
    kind = port.element_type.to_string()
    return TensorInfo(next(iter(port.names), str(number)), NAMES.get(kind, kind), shape)


def _kind(node: Any) -> str:
    return _told(node, "layerType")


def _precision(node: Any) -> str:
    found = _told(node, "runtimePrecision").lower()
    return NAMES.get(found, found)


def _told(node: Any, name: str) -> str:
    info = node.get_rt_info()
    return str(info[name].astype(str)) if name in info else ""


def _call(counters: list[Any]) -> EngineCall:
    nodes = [Node(one.node_type, one.real_time.total_seconds(), one.node_name) for one in counters]
    nodes = [node for node in nodes if node.seconds]
    return EngineCall(sum(node.seconds for node in nodes), nodes)
