"""Names of kernels, which are C++ and hundreds of characters long -> what a reader tells them apart by.

void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, at::detail::Array<char*, 3> >(int, ...)
-> vectorized_elementwise_kernel<4, AddFunctor<float>>
"""

from __future__ import annotations

import re

LONGEST = 72  # characters
_TENSOR_CORES = re.compile(
    r"[hsic](?:884|1688|8816|16816)|16816|hmma|imma|[hq]gmma|wgmma|tensorop|tensor\d+x\d+x\d+|xmma_(?:sparse_)?gemm"
    r"|xmma_\w*implicit_gemm|xmma_sparse_conv|dgrad_1x1_stride_2x2|first_layer_wgrad_kernel|conv1x1|conv2d_c1_k1"
    r"|direct_group|flash_(?:fwd|bwd)|fmha_|_MI\d+x\d+x\d+"  # the last: matrix instructions of AMD
)
_COMMUNICATION = re.compile(r"(?:void )?[nr]ccl", re.IGNORECASE)
_SCOPE = re.compile(r"(?:\w+::)+(?=[\w~{(])")
_UNNAMED = re.compile(r"\(anonymous namespace\)::|<unnamed>::|::\{lambda[^}]*\}|::operator\s*\(\)|\[clone [^\]]*\]")
_NOISE = re.compile(r"(?:Array|\w*OffsetCalculator|LoadWithoutCast|StoreWithoutCast)(?:<.*>)?$")


def uses_tensor_cores(name: str) -> bool:
    """Whether the name has a mark of a kernel that runs on tensor cores, or on the matrix units of another maker."""
    return _TENSOR_CORES.search(name) is not None


def is_communication(name: str) -> bool:
    return _COMMUNICATION.match(name) is not None


def short_name(name: str) -> str:
    """Without return type, parameters, name spaces and lambdas; not longer than LONGEST. What is no C++ stays."""
    text = _unmangled(name)
    if re.search(r"[<(]|::", text):
        text = _UNNAMED.sub("", text)
        text = re.sub(r"\s+const\b", "", _without_parameters(text)).strip()
        head, arguments = _split(_without_type(text))
        kept = [one for one in (_SCOPE.sub("", each).strip() for each in arguments) if one and not _NOISE.match(one)]
        text = _SCOPE.sub("", head).strip() + (f"<{', '.join(kept)}>" if kept else "")
        text = text.replace(" >", ">") or name
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _unmangled(name: str) -> str:
    """_ZN2at6native6kernelIfEEvi -> at::native::kernel: the name alone, which is all that is shown of it."""
    if not name.startswith("_Z"):
        return name
    place, parts = 3 if name.startswith("_ZN") else 2, []
    while found := re.compile(r"\d+").match(name, place):
        begin = found.end()
        place = begin + int(found[0][:6])
        parts.append(name[begin:place])
    named = [part for part in parts if not part.startswith("_GLOBAL__N_")]
    return "::".join(named) or name


def _without_parameters(text: str) -> str:
    """Lists in round brackets are left out, at whatever depth."""
    kept: list[str] = []
    depth = 0
    for character in text:
        depth += character == "("
        if not depth:
            kept.append(character)
        depth -= character == ")" and depth > 0
    return "".join(kept)


def _without_type(text: str) -> str:
    """void kernel<int, float> -> kernel<int, float>: what follows the last space outside of brackets."""
    depth = begin = 0
    for place, character in enumerate(text):
        depth += (character == "<") - (character == ">")
        if character == " " and depth == 0:
            begin = place + 1
    return text[begin:]


def _split(text: str) -> tuple[str, list[str]]:
    """name<a, b<c, d>> -> name, [a, b<c, d>]; what stands after it is left out."""
    head, bracket, inner = text.partition("<")
    arguments, depth = [""], 1
    for character in inner if bracket else "":
        depth += (character == "<") - (character == ">")
        if depth == 0:
            break
        if character == "," and depth == 1:
            arguments.append("")
        else:
            arguments[-1] += character
    return head, arguments
