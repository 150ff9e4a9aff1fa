"""The machine in results.json: what it is, how it was at the start, in each round and at the end, what it can do.

`Environment` is its section of the file; a cell has a `Condition` for each round, a model the device that it was on.
"""

from __future__ import annotations

from pydantic import ConfigDict, Field

from profiler.results.types.record import Record


class DeviceFacts(Record):
    """An accelerator, as torch names it."""

    model_config = ConfigDict(frozen=True)

    place: str  # cuda:0
    name: str | None = None
    memory_bytes: int | None = None
    uuid: str | None = None
    compute: str | None = None  # capability of a CUDA device, such as 8.0


class Gpu(Record):
    name: str | None = None
    driver: str | None = None
    memory: str | None = None
    uuid: str | None = None
    processes: int = 0  # of others
    clock: str | None = None  # of its SMs, at the start of the run
    highest_clock: str | None = None
    power_limit: str | None = None
    default_power_limit: str | None = None
    temperature: str | None = None
    slowdown_temperature: float | None = None  # °C at which it lowers its clock, as NVML tells
    persistence: str | None = None
    throttle_reasons: str | None = None  # bits, as nvidia-smi gives them
    mig: str | None = None  # whether it is cut into several


class GpuCondition(Record):
    """How the GPU was in one round, by NVML's counters; null: it does not tell."""

    held_back: float | None = None  # share of the round in which heat or the power limit lowered its clock
    other_processes: int | None = None  # that compute on it
    other_use: float | None = None  # share of its time that the busiest of them had
    clock_mhz: int | None = None  # of its SMs, right after the round
    temperature_c: int | None = None
    slowdown_c: int | None = None  # the temperature at which it lowers its clock


class Condition(Record):
    """How the machine was in one round. CPUs: 1.0 is one CPU all the time."""

    round: int | None = None
    wall_s: float | None = None
    other_cpus: float = 0.0  # taken by other processes
    stolen_cpus: float = 0.0  # by the hypervisor
    throttled: int = 0
    handoff_s: float | None = None  # that one thread takes to hand work to another
    gpu: GpuCondition | None = None


class Reference(Record):
    """What the reference workload gave: a matrix product bounds arithmetic, a copy bounds memory."""

    gflops: float
    gb_per_s: float
    threads: int | None = None


class NoiseFloor(Record):
    """How far two equal runs on this machine differ by chance, as `doctor` measured it."""

    value: float
    threads: int | None = None
    measured: str | None = None


class Commit(Record):
    """Of a git repository, and whether files differed from it."""

    version: str | None = None
    commit: str | None = None
    committed: str | None = None
    modified: bool | None = None


class WorkerSettings(Record):
    """How the workers of a variant run."""

    threads: int
    affinity: list[int] = Field(default_factory=list)
    environment: dict[str, str] = Field(default_factory=dict)


class MachineState(Record):
    """What changes while a run goes on. What cannot be read is null."""

    load: tuple[float, float, float] | None = None
    governor: str | None = None
    frequency_mhz: float | None = None
    temperature_c: float | None = None
    steal_s: float | None = None


class SandboxState(Record):
    """What workers were kept from while the run was made: writing outside its folder, connections, signals."""

    in_force: bool
    reason: str | None = None  # why it was not
    landlock: int | None = None  # version of the kernel's interface
    restricts: list[str] = Field(default_factory=list)  # files, network (or TCP alone), signals


class Environment(MachineState):
    """The machine of a run at its start, what is installed, how workers run, and what the machine can do."""

    host: str | None = None
    cpu: str | None = None
    cores: int | None = None
    physical_cores: int | None = None
    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    memory_limit_bytes: int | None = None
    gpu: list[Gpu] = Field(default_factory=list)
    os: str | None = None
    python: str | None = None
    packages: dict[str, str] = Field(default_factory=dict)
    profiler: Commit | None = None
    repository: Commit | None = None  # that the recipe lies in
    threads: int | None = None  # of the first variant
    device: str | None = None
    sandbox: SandboxState | None = None
    settings: dict[str, WorkerSettings] = Field(default_factory=dict)  # of each variant
    noise_floor: NoiseFloor | None = None
    reference: Reference | None = None
    reference_at_end: Reference | None = None
    references: dict[str, Reference] = Field(default_factory=dict)  # the best, by number of threads
    at_end: MachineState | None = None

    @property
    def commit(self) -> str | None:
        """Of the repository that the recipe lies in, else of the profiler's own."""
        about = self.repository or self.profiler
        return about.commit if about else None
