"""The profiler's claims about measuring on a device, checked on yours: none was at hand where it was written.

    .venv/bin/python -m benchmarks.on_gpu                 # cuda, xpu or mps: what torch sees
    .venv/bin/python -m benchmarks.on_gpu --device cuda:1 > report.md

One table: what was checked, the figure, whether it is as claimed. Please send it back, whatever it says. Takes a few
minutes; the last checks are small real runs of a shipped recipe. Ends with status 1 where a claim does not hold. Energy
and the counters of an NVIDIA GPU take the extra `energy` (docs/costs.md).
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from profiler.conditions.gpu import gpu_between, nvml, read_gpu
from profiler.device import Device, check_device_name
from profiler.errors import ProfilerError, UserError
from profiler.measure.energy import Unavailable, find_sensor
from profiler.measure.latency import timed
from profiler.measure.passes.energy import measure_energy
from profiler.processes import explain
from profiler.report.table import Table
from profiler.units import bytes_text, seconds_text
from profiler.variants.graphed import Graphed

BLOCK = 256_000_000  # bytes
ROUNDED = 0.05  # of a block: allocators round up
APART = 0.2  # of a long call: how far wall time and device time may differ
RECIPE, ENCODER = "wav2vec2", "hubert"  # gives text; gives numbers, of which graphs can be made
VARIANTS = (
    {"name": "float16", "precision": "float16"},
    {"name": "bfloat16", "precision": "bfloat16"},
    {"name": "compiled", "compile": True},
    {"name": "graph", "cuda_graph": True},
)
CELLS = {
    "profiling_dimensions.audio_mockup_secs": [1, 2],
    "profiling_dimensions.batch_sizes": [1],
    "profiling_dimensions.export_logs": True,
    "measure.rounds": 2,
}

Checked = tuple[str, str, bool]  # what, the figure, whether it is as claimed
Hold = Callable[[int], Any]  # takes so many bytes of the device for as long as what it gives is held


def check_clock(device: Device, work: Callable[[Any], Any]) -> list[Checked]:
    """`work` gives the device something that takes it some 10 ms or more."""
    timed(work, None, device)
    device.synchronize()
    start = time.perf_counter()
    work(None)
    launched = time.perf_counter() - start
    call = timed(work, None, device)
    found = [
        (
            "a call is waited for",
            f"{seconds_text(call.wall)}; launching alone {seconds_text(launched)}",
            call.wall > 2 * launched,
        )
    ]
    if call.device is not None:
        same = abs(call.device - call.wall) <= APART * call.wall
        found.append(("events agree with the clock", f"device {seconds_text(call.device)}", same))
    return found


def check_memory(device: Device, hold: Hold) -> list[Checked]:
    device.start_clean()
    before = device.peak_bytes()
    if before is None:
        return [("peaks of memory", "torch keeps none on this device", True)]
    held = hold(BLOCK)
    grown = (device.peak_bytes() or 0) - before
    del held
    kept = (device.peak_bytes() or 0) - before
    device.start_clean()
    after = (device.peak_bytes() or 0) - before
    reserved = device.peak_reserved_bytes() or 0
    return [
        ("a block is in the peak", bytes_text(grown), BLOCK <= grown <= (1 + ROUNDED) * BLOCK),
        ("the peak stays when the block is gone", bytes_text(kept), kept == grown),
        ("the next cell starts without it", bytes_text(max(after, 0)), after <= ROUNDED * BLOCK),
        ("its memory is given back", f"{bytes_text(reserved)} reserved", reserved < before + BLOCK),
    ]


def check_out_of_memory(device: Device, hold: Hold) -> list[Checked]:
    memory = device.free_and_total_bytes()
    if memory is None:
        return []
    device.start_clean()
    before = device.peak_bytes() or 0
    try:
        hold(2 * memory[1])
    except Exception as error:  # the kind differs between devices
        said = explain(error)
    else:
        return [("out of memory is an error", "twice its memory was handed out", False)]
    device.start_clean()
    after = device.peak_bytes() or 0
    return [
        ("out of memory says so", said, said.startswith("out of memory") and any(c.isdigit() for c in said)),
        ("the next cell starts clean", bytes_text(max(after - before, 0)), after <= before + ROUNDED * BLOCK),
    ]


def check_copy(device: Device, given: Any) -> list[Checked]:
    """`given`: a prepared input with one tensor."""
    moved, count = device.moved((given, None))
    place = str(moved[0].device)
    return [("an input is copied to the device before the call", place, count == 1 and place.startswith(device.kind))]


def check_graph(device: Device, run: Callable[[Any], Any], inputs: list[Any]) -> list[Checked]:
    """`run` gives a tensor for one: many small operations, that the CPU launches one by one."""
    if not device.records:
        return [("graphs of the device", "torch records none on this kind of device", True)]
    graphed = Graphed(run, device)
    try:
        graphed.prepare(inputs)
        same = all(bool((graphed(value) == run(device.moved(value)[0])).all()) for value in inputs)
    except Exception as error:
        return [("a call is recorded as a graph", explain(error), False)]
    plain, replayed = (min(timed(call, inputs[0], device).wall for _ in range(10)) for call in (run, graphed))
    times = f"{seconds_text(replayed)}, without a graph {seconds_text(plain)}"
    return [
        ("a replayed call gives what the call gives", "same" if same else "other values", same),
        ("a replayed call is no slower", times, replayed <= plain),
    ]


def check_conditions(device: Device, work: Callable[[Any], Any]) -> list[Checked]:
    """What NVML tells of a second of work. Of devices of other vendors it knows nothing."""
    import os

    facts, library = device.facts(), nvml()
    if "cuda" not in device.flags():
        return [("clock, heat and other processes are watched", "on NVIDIA's GPUs alone", True)]
    if isinstance(library, str):
        return [("clock, heat and other processes are watched", library, False)]
    before = read_gpu(facts)
    end = time.perf_counter() + 1.0
    while time.perf_counter() < end:
        timed(work, None, device)
    found = gpu_between(facts, before, [os.getpid()])
    told = found.model_dump(exclude_none=True) if found else {}
    others = (
        f"{told['other_processes']} of others"
        if "other_processes" in told
        else "nothing is said: NVML does not name this process (a container has other numbers)"
    )
    text = ", ".join(f"{name} {value}" for name, value in told.items())
    return [
        ("NVML knows the device by its identity", str(facts), found is not None),
        ("clock and temperature are told", text, {"clock_mhz", "temperature_c"} <= set(told)),
        ("heat and power are told", text, "held_back" in told),
        ("other processes are told from ours, or nothing is said", others, True),
        ("the temperature of its slowdown is told", text, "slowdown_c" in told),
    ]


def check_energy(device: Device, work: Callable[[Any], Any]) -> list[Checked]:
    sensor = find_sensor(device.name)
    if isinstance(sensor, Unavailable):
        return [("energy", str(sensor), False)]
    found = measure_energy(work, None, device, sensor, 1.0)
    sensor.close()
    if isinstance(found, Unavailable):
        return [("energy", str(found), False)]
    updates = min(found.window_seconds) / (found.update_seconds or 1e-3)
    text = f"{found.mean_power_w:.0f} W, idle {found.idle_power_w or 0:.0f} W; {updates:.0f} updates in a window"
    apart = found.spread is not None and found.spread[1] <= 1.1 * found.spread[0]
    above = found.idle_power_w is None or found.mean_power_w > found.idle_power_w
    return [
        ("windows cover many updates of the sensor", text, updates >= 20),
        ("they agree within 10 %", text, apart and above),
    ]


def check_run(device: Device, folder: Path) -> list[Checked]:
    """A small run of a shipped recipe, with traces."""
    from profiler.api import profile_recipe

    try:
        run = profile_recipe(RECIPE, CELLS, logdir=folder, device=device.name)
    except ProfilerError as error:
        return [(f"a run of {RECIPE}", str(error), False)]
    found: list[Checked] = []
    for cell in run.results.cells:
        if cell.status != "ok" or cell.latency_s is None:
            found.append((f"cell {cell.place}", cell.reason or cell.status, False))
            continue
        on_device, peak, use = cell.device_time_s, cell.peak_memory_bytes, cell.gpu
        fits = on_device is None or on_device.median <= 1.05 * cell.latency_s.median
        times = seconds_text(cell.latency_s.median) + (
            f", device {seconds_text(on_device.median)}" if on_device else ""
        )
        found.append((f"cell {cell.place}: device time within wall time", times, fits))
        both = on_device is None or on_device.cpu_rtf is not None
        figures = f"{on_device.cpu_rtf or 0:.2E} + {on_device.rtf:.2E}" if on_device else "no clock of the device"
        found.append((f"cell {cell.place}: RTF as CPU + device", figures, both))
        region = cell.timed_region or ""
        found.append(
            (f"cell {cell.place}: the timed region names the copy", region, "copy to the device included" in region)
        )
        if peak is not None and peak.device is not None:
            size = run.results.models[0].size_bytes.total or 0
            figures = f"{bytes_text(peak.device)}, reserved {bytes_text(peak.device_reserved or 0)}"
            figures += f", weights {bytes_text(size)}"
            found.append((f"cell {cell.place}: peak holds the weights", figures, peak.device >= size))
        told = use is not None and 0 <= use.idle <= 1 and bool(use.kernels)
        figures = f"idle {use.idle:.1%}, {use.kernels[0].name}" if use is not None and use.kernels else "nothing"
        found.append((f"cell {cell.place}: the trace tells of kernels", figures, told or device.kind == "mps"))
    peak_flops = run.results.environment.reference
    figures = f"{peak_flops.gflops:,.0f} GFLOP/s, {peak_flops.gb_per_s:,.0f} GB/s" if peak_flops else "not measured"
    found.append(("the reference workload runs on the device", figures, peak_flops is not None))
    found += [("a note of the run", note, True) for note in run.results.run.notes]
    flags = ", ".join(f"{name} {value}" for name, value in run.results.models[0].flags.items())
    return [*found, ("flags are recorded", flags or "none", bool(flags) or device.kind != "cuda")]


def check_variants(device: Device, folder: Path) -> list[Checked]:
    """Precisions, torch.compile and graphs of an encoder, each in two cells."""
    from profiler.api import profile_recipe

    variants = [{"name": "float32"}, *VARIANTS]
    asked = {**CELLS, "profiling_dimensions.export_logs": False, "variants": variants}
    try:
        run = profile_recipe(ENCODER, asked, logdir=folder, device=device.name)
    except ProfilerError as error:
        return [("variants of an encoder", str(error), False)]
    found: list[Checked] = []
    for cell in run.results.cells:
        said = seconds_text(cell.latency_s.median) if cell.latency_s else cell.reason or cell.status
        holds = cell.latency_s is not None or (cell.variant == "graph" and not device.records)
        found.append((f"variant {cell.variant}, cell {cell.place}", said, holds))
    return found


def check_two(devices: str, folder: Path) -> list[Checked]:
    """Cells on two devices at the same time, or a sentence where they differ."""
    from profiler.api import profile_recipe

    try:
        run = profile_recipe(RECIPE, CELLS | {"profiling_dimensions.export_logs": False}, logdir=folder, device=devices)
    except ProfilerError as error:
        return [(f"cells on {devices}", str(error), "equal devices only" in str(error))]
    used = sorted({cell.device or "none" for cell in run.results.cells})
    return [(f"cells on {devices}", ", ".join(used), used == devices.split(","))]


def report(device: Device) -> bool:
    import torch

    from profiler.environment import read_gpus

    matrix = torch.randn(4096, 4096, device=device.name)

    def work(_: Any) -> None:
        for _ in range(20):
            matrix @ matrix

    def hold(size: int) -> Any:
        return torch.empty(size, dtype=torch.uint8, device=device.name)

    def many(value: Any) -> Any:
        for _ in range(200):
            value = value * 1.01 + 0.5
        return value

    inputs = [torch.full((64,), float(number)) for number in range(3)]
    checked = [*check_clock(device, work), *check_memory(device, hold), *check_out_of_memory(device, hold)]
    with torch.no_grad():
        checked += [
            *check_copy(device, inputs[0]),
            *check_graph(device, many, [device.moved(one)[0] for one in inputs]),
        ]
    checked += [*check_conditions(device, work), *check_energy(device, work)]
    with tempfile.TemporaryDirectory() as folder:
        checked += check_run(device, Path(folder))
        checked += check_variants(device, Path(folder))
    if device.kind != "mps" and torch.accelerator.device_count() > 1:
        with tempfile.TemporaryDirectory() as folder:
            checked += check_two(f"{device.kind}:0,{device.kind}:1", Path(folder))
    rows = [[what, figure, "yes" if holds else "NO"] for what, figure, holds in checked]
    memory = device.free_and_total_bytes()
    about = [f"torch {torch.__version__}, Python {platform.python_version()}, {platform.platform()}"]
    about += [f"{bytes_text(memory[0])} of {bytes_text(memory[1])} free"] if memory else []
    about += [str(gpu.model_dump(exclude={"uuid"})) for gpu in read_gpus()]
    print(Table(f"Measuring on {device.name}", ["claim", "figure", "holds"], rows, about).markdown())
    return all(holds for *_, holds in checked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="such as cuda:1 (default: what torch sees)")
    given = parser.parse_args()
    import torch

    there = torch.accelerator.current_accelerator(check_available=True)
    try:
        if given.device is None and there is None:
            raise UserError(f"torch {torch.__version__} sees no accelerator here: there is nothing to check.")
        device = Device(check_device_name(given.device or str(there)))
        device.require()
    except UserError as error:
        print(error, file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    raise SystemExit(0 if report(device) else 1)


if __name__ == "__main__":
    main()
