"""A real Ray cluster in this machine: a head without CPUs, and two nodes that can be killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CLUSTER = """
import sys
import time
from ray.cluster_utils import Cluster

import ray

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
nodes = [cluster.add_node(num_cpus=1), cluster.add_node(num_cpus=1)]
print("address", cluster.address, flush=True)
ray.init(address=cluster.address, log_to_driver=False)
use = ray.remote(num_cpus=1)(lambda: time.sleep(600))
tasks = []
for line in sys.stdin:
    word = line.strip()
    if word == "use":
        tasks = [use.remote() for node in nodes]
        while ray.available_resources().get("CPU"):
            time.sleep(0.1)
    elif word == "leave":
        for task in tasks:
            ray.cancel(task, force=True)
        while ray.available_resources().get("CPU") != len(nodes):
            time.sleep(0.1)
    else:
        node = next(node for node in nodes if node.node_id.startswith(word))
        cluster.remove_node(node, allow_graceful=False)
        nodes.remove(node)
    print("done", flush=True)
"""


class RayCluster:
    def __init__(self, folder: Path) -> None:
        script = folder / "cluster.py"
        script.write_text(CLUSTER)
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, str(script)], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )
        self.address = self._line("address").split()[1]

    def _line(self, begins: str) -> str:
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith(begins):
                return line
        raise AssertionError("the cluster did not start")

    def _tell(self, word: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        self._line("done")

    def kill(self, node: str) -> None:
        self._tell(node)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Somebody else has all CPUs of all nodes."""
        self._tell("use")
        try:
            yield
        finally:
            self._tell("leave")

    def stop(self) -> None:
        self.process.communicate()


@contextmanager
def running(folder: Path) -> Iterator[RayCluster]:
    cluster = RayCluster(folder)
    try:
        yield cluster
    finally:
        cluster.stop()
