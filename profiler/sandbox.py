"""What a worker may do without `--trust`: read, compute, write in a few folders, connect while it downloads weights.

    before the model is loaded    files, devices, signals, capabilities; the network too, if nothing is to be downloaded
    after it                      files once more, without the folders of downloads; the network

It is the second line of defence, behind the list of what a recipe may name. Three mechanisms of Linux, each a few
system calls, none of which needs rights of its own or can be undone: Landlock (files, TCP, signals, ptrace), seccomp
(all sockets, leaving the process group), and for root giving up capabilities. Forks and programs that are started
inherit all of it. Reading is not restricted, nor are permissions and times of the user's files: Landlock cannot.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import platform
import stat
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from profiler.results.types import SandboxState

LIBC = ctypes.CDLL(None, use_errno=True)
# The same numbers on every architecture (asm-generic/unistd.h).
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
ASK_VERSION = 1
PATH_BENEATH, NET_PORT = 1, 2

# linux/landlock.h: bits of what may be done with files. Reading and executing are left out on purpose.
WRITE_FILE, REMOVE_DIR, REMOVE_FILE = 1 << 1, 1 << 4, 1 << 5
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << bit for bit in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
SINCE = {REFER: 2, TRUNCATE: 3, IOCTL_DEV: 5}  # version of Landlock
ALL = (1 << 16) - 1 - (1 << 0) - (1 << 2) - (1 << 3)
ON_FILES = WRITE_FILE | TRUNCATE | IOCTL_DEV  # the bits that a rule for a file, not a folder, may have
# No links in the folder of a run: the parent, which is not restricted, writes there too and would follow them.
IN_RUN = WRITE_FILE | TRUNCATE | MAKE_REG | MAKE_DIR | REMOVE_FILE | REMOVE_DIR
IN_OWN = IN_RUN | MAKE_SYM | MAKE_SOCK | MAKE_FIFO | REFER
CONNECT_TCP = (1 << 0) | (1 << 1)  # and bind; version 4
CONNECT = 1 << 1
SCOPES = (1 << 0) | (1 << 1)  # abstract unix sockets and signals of processes outside; version 6

DEVICES = ("null", "zero", "full", "random", "urandom", *("kfd", "dri", "nvidia*", "dxg", "nvmap", "nvhost*"))  # GPUs

# seccomp, linux/seccomp.h and linux/filter.h
SET_FILTER, ALL_THREADS = 1, 1
LOAD, JUMP_EQUAL, JUMP_GREATER, RETURN = 0x20, 0x15, 0x35, 0x06
NUMBER_AT, ARCHITECTURE_AT = 0, 4  # in struct seccomp_data
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EACCES
OTHER_ABI = 0x40000000  # numbers from here on are those of x32


@dataclass(frozen=True)
class SystemCalls:
    """Numbers of system calls."""

    architecture: int
    seccomp: int
    groups: tuple[int, ...]  # setpgid and setsid, by which a process would outlive the end of its worker's group
    sockets: tuple[int, ...]  # socket, and io_uring_setup, which opens sockets by another road


CALLS = {
    "x86_64": SystemCalls(0xC000003E, 317, (109, 112), (41, 425)),
    "aarch64": SystemCalls(0xC00000B7, 277, (154, 157), (198, 425)),
}

NO_NEW_PRIVILEGES, DROP_CAPABILITY = 38, 24  # prctl
CAPABILITIES = 0x20080522  # version 3 of capset
# Kept by root: reading and writing files of others (as far as Landlock lets it), priorities, locking memory, perf.
KEPT = {1, 2, 14, 23, 24, 38}


TRUST = "--trust"


@dataclass(frozen=True)
class Places:
    """Where an untrusted worker may write."""

    run: Path  # the folder of its variant
    temporary: Path
    cache: Path  # of untrusted workers alone: what they leave there no other program loads


@functools.cache
def version() -> int:
    """Of the Landlock that this kernel has; 0: none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(LIBC.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(ASK_VERSION))))


def state(trust: bool) -> SandboxState:
    """What is in force for the workers of a run."""
    found = version()
    if trust:
        return SandboxState(in_force=False, reason=TRUST)
    if not found:
        return SandboxState(in_force=False, reason="this system has no Landlock (Linux 5.13 and newer have it)")
    network = "network" if platform.machine() in CALLS else "TCP" if found >= 4 else None
    restricts = ["files", network, "signals" if found >= 6 else None]
    return SandboxState(in_force=True, landlock=found, restricts=[name for name in restricts if name])


_in_force = False


def in_force() -> bool:
    """Whether this process is restricted."""
    return _in_force


def restrict(places: Places, network: bool, port: int | None = None) -> None:
    """Restrict this process and all that it starts; with `network` connections are still allowed, with `port` TCP
    connections to that port alone (where Landlock knows ports, from version 4 on).

    Raises OSError where that fails; does nothing where the system has no Landlock.
    """
    global _in_force
    if not version():
        return
    if not _in_force and len(list(Path("/proc/self/task").iterdir())) > 1:
        raise OSError(errno.EBUSY, "the sandbox cannot be made: Landlock would leave out threads that run already")
    _drop_capabilities()
    rules = {places.run: IN_RUN, places.temporary: IN_OWN, places.cache: IN_OWN}
    rules |= {path: ON_FILES for name in DEVICES for path in Path("/dev").glob(name)}
    _landlock(rules | (dict.fromkeys(_downloads(), IN_OWN) if network else {}), network, port)
    calls = CALLS.get(platform.machine())
    if calls is not None:
        _refuse(calls, calls.groups if network or port is not None else calls.groups + calls.sockets)
    _in_force = True


def environment(places: Places) -> dict[str, str]:
    """What libraries are told so that they write in those folders."""
    folders = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "NUMBA_CACHE_DIR": "numba", "MPLCONFIGDIR": "matplotlib"}
    folders |= {"TRITON_CACHE_DIR": "triton", "CUDA_CACHE_PATH": "cuda"}  # kernels made on a GPU
    folders |= {"MIOPEN_USER_DB_PATH": "", "MIOPEN_CUSTOM_CACHE_DIR": ""}  # which must be there
    return {name: str(places.cache / folder) for name, folder in folders.items()} | {"TMPDIR": str(places.temporary)}


def _downloads() -> Iterator[Path]:
    """Where hub models and torchaudio's bundles are put; made where they are missing, for a rule needs a folder."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    hub = Path(os.environ.get("HF_HOME") or home / "huggingface")
    torch = Path(os.environ.get("TORCH_HOME") or home / "torch") / "hub"
    given = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    for folder in (Path(given) if given else hub / "hub", hub / "xet", torch / "checkpoints", torch / "torchaudio"):
        with contextlib.suppress(OSError, RuntimeError):
            made = folder.expanduser()
            made.mkdir(parents=True, exist_ok=True)
            yield made


def _landlock(rules: dict[Path, int], network: bool, port: int | None) -> None:
    found = version()
    handled = ALL
    for bit, since in SINCE.items():
        handled &= ~bit if found < since else -1
    connections = CONNECT_TCP if found >= 4 and not network else 0
    attributes = struct.pack("QQQ", handled, connections, SCOPES if found >= 6 else 0)
    attributes = attributes[: 8 if found < 4 else 16 if found < 6 else 24]
    ruleset = _call(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0))
    try:
        for path, allowed in rules.items():
            _allow(ruleset, path, allowed & handled)
        if port is not None and connections:
            rule = struct.pack("=QQ", CONNECT, port)
            _call(ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(NET_PORT), rule, ctypes.c_uint(0))
        _checked(LIBC.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _call(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: Path, allowed: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            allowed &= ON_FILES
        rule = struct.pack("=Qi", allowed, place)
        _call(ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(PATH_BENEATH), rule, ctypes.c_uint(0))
    finally:
        os.close(place)


def _refuse(calls: SystemCalls, numbers: tuple[int, ...]) -> None:
    """System calls that fail from here on, in all threads.

    Without `socket` there is no new one of any kind: TCP, UDP, the unix sockets of Docker, D-Bus or an SSH agent.
    """
    refused = len(numbers)
    program = [
        (LOAD, 0, 0, ARCHITECTURE_AT),
        (JUMP_EQUAL, 0, refused + 3, calls.architecture),  # 32-bit calls have other numbers: all refused
        (LOAD, 0, 0, NUMBER_AT),
        (JUMP_GREATER, refused + 1, 0, OTHER_ABI),
        *((JUMP_EQUAL, refused - place, 0, number) for place, number in enumerate(numbers)),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, REFUSE),
    ]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(filters))
    _call(calls.seccomp, ctypes.c_uint(SET_FILTER), ctypes.c_uint(ALL_THREADS), header)


def _drop_capabilities() -> None:
    """Root keeps none by which it could get around the rest: loading kernel modules, mounting, tracing, raw devices."""
    for number in range(64):
        if number not in KEPT:
            LIBC.prctl(DROP_CAPABILITY, number, 0, 0, 0)  # fails for who has none, and for numbers that do not exist
    wanted = sum(1 << number for number in KEPT)
    data = ctypes.create_string_buffer(24)
    _checked(LIBC.capget(struct.pack("Ii", CAPABILITIES, 0), data))
    _, low, _, _, high, _ = struct.unpack("6I", data.raw)  # effective, permitted, inheritable
    kept = (low | high << 32) & wanted
    halves = [half for part in (kept & 0xFFFFFFFF, kept >> 32) for half in (part, part, 0)]
    _checked(LIBC.capset(struct.pack("Ii", CAPABILITIES, 0), struct.pack("6I", *halves)))


def _call(number: int, *arguments: object) -> int:
    return _checked(LIBC.syscall(ctypes.c_long(number), *arguments))


def _checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the sandbox cannot be made: {os.strerror(number)}")
    return answer
