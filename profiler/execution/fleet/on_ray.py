"""Ray as an engine: one actor for each job, which holds a whole node or a whole GPU, and our program beside it.

An actor lives in a process with many threads and settings of Ray's, so nothing is measured in it: it starts our program
and hands over its files. Ray lets an actor that finds no room wait for ever without a word; it is asked why.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections import Counter
from collections.abc import Collection
from typing import Any

from profiler.errors import UserError
from profiler.execution.fleet.engine import NotThere, Placed, State, require
from profiler.execution.fleet.job import EngineOptions, Machine
from profiler.execution.fleet.node import Files, Look, Program, Seen, Spec, changed, describe, free_cpus
from profiler.temporary import TemporaryFolder

ANSWER_SECONDS = 30.0  # for a node to describe itself: it imports the profiler
CONNECT_SECONDS = 5.0
LOOK_SECONDS = 10.0
SILENT_SECONDS = 60.0  # Ray tells within some ten seconds that a node died
MOST_NAMED = 3  # machines in a reason
ROUNDING = 1e-3  # of shares of a CPU


START = "Start one with `ray start --head`, or name one with --address HOST:PORT."


def _known_address(ray: Any) -> str | None:
    """Where Ray would look: RAY_ADDRESS, or the cluster that was here last, which may be gone."""
    with contextlib.suppress(Exception):  # not of its public interface
        found: str | None = ray._private.services.canonicalize_bootstrap_address("auto")
        return found
    return None


def _require_answer(address: str) -> None:
    """Ray itself tries for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, ValueError, OverflowError) as error:
        raise UserError(f"--on ray: no Ray cluster answers at {address} ({error}). {START}") from None


class OnNode:
    """The actor."""

    def __init__(self, spec: Spec, earlier: Files) -> None:
        self.folder = TemporaryFolder()  # a killed actor leaves it to the next one
        self.spool = self.folder.path
        self.program = Program(spec, self.spool, earlier, free_cpus())

    def look(self) -> Look:
        return self.program.look()

    def changed(self, seen: Seen, results_only: bool) -> tuple[Files, Seen]:
        return changed(self.spool, seen, results_only)

    def stop(self) -> None:
        self.program.stop()

    def forget(self) -> None:
        self.program.stop()
        self.program.wait()
        self.folder.remove()


class RayEngine:
    def __init__(self, device: str, options: EngineOptions) -> None:
        require("ray", "ray")
        import ray

        self.ray = ray
        if address := options.address or _known_address(ray):
            _require_answer(address)
        try:
            ray.init(address=options.address or "auto", log_to_driver=False, logging_level="ERROR")
        except ConnectionError:
            raise UserError(f"--on ray: no Ray cluster is known on this machine. {START}") from None
        except RuntimeError as error:  # another version of Ray or of Python than the cluster's
            raise UserError(f"--on ray: {' '.join(str(error).split())}") from None
        self.gpu = device != "cpu"
        self.names: dict[str, str] = {}  # of nodes by their ids: a name stays when other nodes come and go
        self.taken: dict[str, list[RayJob]] = {}  # of each node

    def _nodes(self) -> dict[str, dict[str, Any]]:
        """name -> node, of those that have something to give. Nodes of one host are told apart by their ids."""
        wanted = "GPU" if self.gpu else "CPU"  # a head node often has none to give
        alive = [node for node in self.ray.nodes() if node["Alive"] and node["Resources"].get(wanted)]
        hosts = Counter(node["NodeManagerHostname"] for node in alive)
        for node in alive:
            host, identity = node["NodeManagerHostname"], node["NodeID"]
            alone = hosts[host] == 1 and host not in self.names.values()
            self.names.setdefault(identity, host if alone else f"{host}-{identity[:6]}")
        return {self.names[node["NodeID"]]: node for node in alive}

    def _on(self, node: dict[str, Any], **resources: Any) -> dict[str, Any]:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node["NodeID"], soft=False), **resources}

    def machines(self, recipes: Collection[tuple[str, str]], alone: Collection[str] = ()) -> list[Machine]:
        nodes = self._nodes()
        ask = self.ray.remote(describe)
        asked = {name: ask.options(**self._on(node, num_cpus=0)).remote(list(recipes)) for name, node in nodes.items()}
        self.ray.wait(list(asked.values()), num_returns=len(asked), timeout=ANSWER_SECONDS)
        found = []
        for name, answer in asked.items():
            try:
                machine = self.ray.get(answer, timeout=0)
            except self.ray.exceptions.GetTimeoutError:
                machine = Machine(name, problem=f"gave no answer within {ANSWER_SECONDS:g} s")
            except self.ray.exceptions.RayError as error:
                machine = Machine(name, problem=f"cannot run the profiler: {_last_line(error)}")
            machine.name = name
            found.append(machine)
        return found

    def alive(self) -> set[str]:
        return set(self._nodes())

    def place(self, name: str, spec: Spec, earlier: Files, allowed: Collection[str] | None) -> Placed | str:
        nodes = {name: node for name, node in self._nodes().items() if allowed is None or name in allowed}
        if not nodes:
            return f"none of the machines that it may run on is there: {', '.join(allowed or ['no node is alive'])}"
        used = []  # by others: an actor there would wait, while other nodes may have room
        for machine, node in nodes.items():
            slots = int(node["Resources"].get("GPU", 0)) if self.gpu else 1
            mine = self.taken.setdefault(machine, [])
            mine[:] = [job for job in mine if not job.gone]
            if len(mine) < slots:
                share = {"CPU": node["Resources"].get("CPU", 0.0) / slots, **({"GPU": 1.0} if self.gpu else {})}
                if why := self.lacks(machine, node["NodeID"], share):
                    used.append(why)
                    continue
                resources = {"num_cpus": share["CPU"], "num_gpus": share.get("GPU", 0)}
                actor = self.ray.remote(OnNode).options(**self._on(node, **resources)).remote(spec, earlier)
                mine.append(RayJob(self, actor, machine, node["NodeID"], share))
                return mine[-1]
        return "; ".join(used[:MOST_NAMED]) or "all machines are taken by other jobs of this fleet"

    def attach(self, handle: str) -> Placed | None:
        return None  # actors end with the driver

    def lacks(self, machine: str, node_id: str, share: dict[str, float]) -> str:
        """Why Ray has no room for such a share of a node; nothing where it has, or does not tell."""
        with contextlib.suppress(Exception):  # not of its public interface
            free = self.ray._private.state.available_resources_per_node()[node_id]
            for name, wanted in share.items():
                there = free.get(name, 0.0)
                if there < wanted - ROUNDING:
                    return f"{machine} has {there:g} {name} free of the {wanted:g} that a job takes"
        return ""

    def close(self) -> None:
        for jobs in self.taken.values():
            for job in jobs:
                job.forget()
        self.ray.shutdown()


class RayJob:
    def __init__(self, engine: RayEngine, actor: Any, machine: str, node_id: str, share: dict[str, float]) -> None:
        self.engine, self.actor, self.machine, self.node_id, self.share = engine, actor, machine, node_id, share
        self.handle, self.gone, self.silent_since = "", False, 0.0
        self.asked = actor.look.remote()

    def state(self) -> State:
        ray = self.engine.ray
        ready, _ = ray.wait([self.asked], timeout=0)
        if not ready:
            why = self.engine.lacks(self.machine, self.node_id, self.share)
            return State("waiting", why or f"Ray starts it on {self.machine}", self.machine)
        try:
            look = ray.get(self.asked)
        except ray.exceptions.ActorUnavailableError as error:  # it may come back, and must not be there twice
            self.silent_since = self.silent_since or time.monotonic()
            if time.monotonic() - self.silent_since < SILENT_SECONDS:
                self.asked = self.actor.look.remote()
                return State("running", "", self.machine)
            ray.kill(self.actor)
            return self._lost(f"{self.machine} has not answered for {SILENT_SECONDS:g} s: {_last_line(error)}")
        except ray.exceptions.RayActorError as error:
            return self._lost(f"{self.machine} or its worker is gone: {_last_line(error)}")
        except ray.exceptions.RayError as error:
            return self._lost(_last_line(error))
        self.silent_since = 0.0
        if look.ended is None:
            self.asked = self.actor.look.remote()
        return State("running" if look.ended is None else "ended", "", self.machine, look)

    def _lost(self, why: str) -> State:
        self.gone = True
        return State("lost", why, self.machine)

    def changed(self, seen: Seen, results_only: bool) -> tuple[Files, Seen]:
        try:
            found: tuple[Files, Seen] = self.engine.ray.get(self.actor.changed.remote(seen, results_only))
        except self.engine.ray.exceptions.RayError as error:
            raise NotThere(_last_line(error)) from None
        return found

    def stop(self) -> None:
        self.actor.stop.remote()

    def forget(self) -> None:
        if not self.gone:
            with contextlib.suppress(Exception):  # the node may be gone meanwhile
                self.engine.ray.get(self.actor.forget.remote(), timeout=LOOK_SECONDS)
            self.engine.ray.kill(self.actor)
        self.gone = True


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
