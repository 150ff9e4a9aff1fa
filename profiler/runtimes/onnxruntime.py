"""ONNX Runtime, on the CPU: an .onnx file by torch's exporter, int8 by its own dynamic quantisation of MatMul.

Matrix products alone are quantised, with a scale for each output channel: quantised convolutions are less exact and
not faster. Waiting threads sleep, which is not its default: spinning ones would take CPU time from whatever follows.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.runtimes.base import EngineCall, Node, Options, Settings, TensorInfo, precision_of

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

SUFFIX = ".onnx"
PACKAGES = ("onnxruntime", "onnx", "onnxscript")
DYNAMIC = True
PRECISIONS = ("float32",)
QUANTIZES = ("dynamic",)
PROFILE = TIMELINE = ""
SPINNING = ("session.intra_op.allow_spinning", "session.inter_op.allow_spinning")
DTYPES = {"float": "float32", "double": "float64"}  # ONNX's names that are not torch's
LARGEST = 1 << 31  # bytes of an ONNX file; beyond it weights lie beside it


def export(program: ExportedProgram, file: Path, options: Options) -> None:
    import torch

    drop_empty_squeezes(program)
    made: Any = torch.onnx.export(program, dynamo=True, verbose=False)
    if options.quantize is None:
        _save(made, file)
        return
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "float32.onnx"
        _save(made, whole)
        quantize_dynamic(whole, file, op_types_to_quantize=["MatMul"], per_channel=True, weight_type=QuantType.QInt8)


def drop_empty_squeezes(program: ExportedProgram) -> None:
    """torch leaves a dimension that is not 1 as it is where it is to be squeezed, as SpeechBrain's convolutions ask it
    to; ONNX refuses the file."""
    import torch

    for node in list(program.graph.nodes):
        if node.op == "call_function" and node.target is torch.ops.aten.squeeze.dim:
            size = node.args[0].meta["val"].shape[node.args[1]]
            if isinstance(size, int) and size != 1:
                node.replace_all_uses_with(node.args[0])
                program.graph.erase_node(node)


def _save(made: Any, file: Path) -> None:
    size = sum(value.const_value.nbytes for value in made.model.graph.initializers.values() if value.const_value)
    made.save(file, external_data=size > LARGEST)


def options(options: Options) -> str:
    return options.quantize or ""


def load(file: Path, options: Options) -> OnnxSession:
    return OnnxSession(file, options)


class OnnxSession:
    """An .onnx file, loaded."""

    def __init__(self, file: Path, options: Options) -> None:
        import onnxruntime

        wanted = onnxruntime.SessionOptions()
        wanted.intra_op_num_threads = options.threads
        wanted.inter_op_num_threads = 1
        wanted.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        wanted.log_severity_level = 3  # errors
        for name in SPINNING:
            wanted.add_session_config_entry(name, "0")
        if options.profile:
            self._folder = tempfile.TemporaryDirectory()
            wanted.enable_profiling = True
            wanted.profile_file_prefix = str(Path(self._folder.name) / "profile")
        self._session = onnxruntime.InferenceSession(str(file), wanted, providers=["CPUExecutionProvider"])
        self.inputs = [_info(value) for value in self._session.get_inputs()]
        self.outputs = [_info(value) for value in self._session.get_outputs()]
        self._names = [info.name for info in self.inputs]

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        import torch

        values = {name: tensor.detach().numpy() for name, tensor in zip(self._names, tensors, strict=True)}
        return [torch.from_numpy(value) for value in self._session.run(None, values)]

    def describe(self) -> Settings:
        taken = self._session.get_session_options()
        spins = [taken.get_session_config_entry(name) != "0" for name in SPINNING]
        return Settings(taken.intra_op_num_threads, precision_of((*self.inputs, *self.outputs)), any(spins))

    def calls(self) -> list[EngineCall]:
        events = json.loads(Path(self._session.end_profiling()).read_text(encoding="utf-8"))
        self._folder.cleanup()
        return read_profile(events)


def _info(value: Any) -> TensorInfo:
    kind = value.type.removeprefix("tensor(").removesuffix(")")
    shape = tuple(size if isinstance(size, int) else None for size in value.shape)
    return TensorInfo(value.name, DTYPES.get(kind, kind), shape)


def read_profile(events: list[dict[str, Any]]) -> list[EngineCall]:
    """Calls, and the operators in each of them, from events in microseconds."""
    runs = [event for event in events if event.get("cat") == "Session" and event["name"] == "model_run"]
    nodes = [event for event in events if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")]
    found = []
    for run in runs:
        begin, end = run["ts"], run["ts"] + run["dur"]
        inside = [event for event in nodes if begin <= event["ts"] <= end]
        found.append(EngineCall(run["dur"] / 1e6, [_node(event, begin) for event in inside]))
    return found


def _node(event: dict[str, Any], begin: float) -> Node:
    name = event["name"].removesuffix("_kernel_time")
    operator = event.get("args", {}).get("op_name", name)
    return Node(operator, event["dur"] / 1e6, name, (event["ts"] - begin) / 1e6, int(event.get("tid", 0)))
