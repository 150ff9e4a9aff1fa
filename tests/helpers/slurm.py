"""A real SLURM of two nodes in this machine, in a folder of its own: munged, slurmctld and two slurmd from Debian."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch")
MISSING = "needs SLURM and munge: apt-get install slurm-wlm munge, as root"
START_SECONDS = 60.0


def installed() -> bool:
    return os.getuid() == 0 and all(_find(name) for name in NEEDED)


def _find(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def _port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdTimeout=10
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerParameters=sched_interval=2
KillWait=5
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={one} CPUs={cpus} RealMemory=1000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={two} CPUs={cpus} RealMemory=1000
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=60 State=UP OverSubscribe=YES
"""


class Slurm:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}

    def start(self) -> None:
        folder = self.folder
        shutil.chown(folder, "munge", "munge")
        munge = folder / "munge"
        munge.mkdir()
        (munge / "key").write_bytes(os.urandom(128))
        (munge / "key").chmod(0o400)
        for path in (munge, munge / "key"):
            shutil.chown(path, "munge", "munge")
        munge.chmod(0o755)
        (folder / "state").mkdir()
        (folder / "slurm.conf").write_text(
            CONF.format(
                folder=folder,
                host=socket.gethostname(),
                cpus=os.cpu_count(),
                controller=_port(),
                one=_port(),
                two=_port(),
            )
        )
        options = [f"--{name}-file={munge / name}" for name in ("key", "log", "pid", "seed")]
        self._run("munged", "--foreground", "--force", f"--socket={munge / 'socket'}", *options, user="munge")
        self._until(lambda: (munge / "socket").exists(), "munged")
        self._run("slurmctld", "-D")
        for node in ("n1", "n2"):
            self._run("slurmd", "-D", "-N", node, name=node)
        self._until(lambda: self.ask("sinfo", "-h", "-o", "%t %D").split() == ["idle", "2"], "slurmctld and slurmd")

    def _run(self, program: str, *arguments: str, name: str = "", user: str | None = None) -> None:
        found = _find(program)
        assert found
        log = (self.folder / f"{name or program}.out").open("wb")
        self.processes[name or program] = subprocess.Popen(
            [found, *arguments], env=os.environ | self.environment, stdout=log, stderr=log, user=user, group=user
        )

    def ask(self, *command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | self.environment, timeout=30)
        return done.stdout

    def _until(self, true: object, what: str) -> None:
        assert callable(true)
        deadline = time.monotonic() + START_SECONDS
        while not true():
            logs = "\n".join(file.read_text(errors="replace")[-600:] for file in self.folder.glob("*.out"))
            assert time.monotonic() < deadline, f"{what} did not start:\n{logs}"
            time.sleep(0.1)

    def kill(self, node: str) -> None:
        """As when a machine loses its power: the daemon and all that runs there."""
        self.processes[node].kill()
        for pid in _of_node(node):
            end_process(pid)

    def stop(self) -> None:
        for name in reversed(list(self.processes)):
            self.processes[name].terminate()
        for process in self.processes.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _of_node(node: str) -> list[int]:
    """Processes of jobs on a node."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                environment = (folder / "environ").read_bytes()
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if f"SLURMD_NODENAME={node}".encode() in environment or "slurmstepd" in command.decode(errors="replace"):
                found.append(int(folder.name))
    return found


def end_process(pid: int) -> None:
    with suppress(OSError):
        os.kill(pid, 9)


@contextmanager
def running(folder: Path) -> Iterator[Slurm]:
    folder = folder.resolve()
    for above in (folder, *folder.parents[:3]):  # munged runs as a user of its own
        above.chmod(above.stat().st_mode | 0o055)
    slurm = Slurm(folder)
    try:
        slurm.start()
        yield slurm
    finally:
        slurm.stop()
