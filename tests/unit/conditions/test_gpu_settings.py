"""What a GPU and torch are set to: said at the start of a run, and where two runs differ. Made up: no GPU is here."""

from __future__ import annotations

import re
from typing import Any

import pytest

from profiler.conditions.differences import find_differences
from profiler.conditions.gpu_settings import remarks_on_torch, used_gpus
from profiler.device import CONVOLUTIONS, PRODUCTS, RECURRENT
from profiler.execution.record import gpu_identities, warnings_at_end, warnings_at_start, warnings_on_settings
from profiler.recipe.schema import Recipe
from profiler.results.types import (
    Condition,
    DeviceFacts,
    Environment,
    Gpu,
    GpuCondition,
    ModelResult,
    Results,
    WorkerSettings,
)
from tests.helpers.synthetic import Made, make

FIRST = Gpu(name="A100", driver="550.1", memory="80 GiB", uuid="GPU-a", clock="210 MHz", temperature="31")
SECOND = FIRST.model_copy(update={"uuid": "GPU-b", "processes": 1, "mig": "Enabled"})
HERE = DeviceFacts(place="cuda:1", name="A100", uuid="GPU-b", compute="8.0")
DEFAULT = {"cuda": "12.8", "cudnn": "91002", CONVOLUTIONS: "tf32", RECURRENT: "ieee", PRODUCTS: "none"}


def recipe() -> Recipe:
    grid: Any = {"audio_mockup_secs": [1], "batch_sizes": [1], "example_audio": "a.wav"}
    return Recipe.model_validate({"pretrained_model": {"source": "a", "type": "b"}, "profiling_dimensions": grid})


def test_a_run_says_what_disturbs_its_own_gpu_and_not_what_disturbs_another() -> None:
    environment = Environment(gpu=[FIRST, SECOND])
    told = "\n".join(warnings_at_start(environment, "cuda:1", recipe(), [HERE]))
    assert "A100: 1 other process(es) use it." in told
    assert "A100: It is cut into parts" in told
    other = HERE.model_copy(update={"uuid": "GPU-a"})
    assert "A100:" not in "\n".join(warnings_at_start(environment, "cuda:0", recipe(), [other]))
    assert used_gpus(environment, ["GPU-of-a-part"]) == [FIRST, SECOND]


@pytest.mark.parametrize(
    ("flags", "compute", "variables", "float32", "said"),
    [
        (
            DEFAULT,
            "8.0",
            {},
            True,
            f"float32 is TF32 in convolutions on this GPU: 10 bits .* \\({CONVOLUTIONS} tf32\\)",
        ),
        (DEFAULT | {PRODUCTS: "tf32"}, "9.0", {}, True, "TF32 in convolutions, matrix products"),
        (DEFAULT, "7.0", {}, True, None),
        (DEFAULT, "8.0", {"NVIDIA_TF32_OVERRIDE": "0"}, True, None),
        (DEFAULT, "8.0", {}, False, None),  # the variant is bfloat16
        ({"hip": "6.4", "cudnn": "3", CONVOLUTIONS: "tf32"}, "9.4", {}, True, None),
        ({"cudnn.benchmark": "True"}, None, {}, True, "cudnn.benchmark is on: its kernels are chosen by a trial"),
        ({"cudnn.deterministic": "True"}, None, {}, True, "repeat their results to the bit"),
        ({}, None, {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, True, "PYTORCH_NO_CUDA_MEMORY_CACHING=1: every tensor"),
    ],
)
def test_settings_of_torch_are_judged(
    flags: dict[str, str], compute: str | None, variables: dict[str, str], float32: bool, said: str | None
) -> None:
    remarks = remarks_on_torch(flags, compute, variables, float32)
    assert len(remarks) == (said is not None)
    if said:
        assert re.search(said, remarks[0].found)


def test_a_run_judges_the_flags_of_each_model_it_loads_on_a_device() -> None:
    about: Any = {"variant": "float32", "source": "a", "type": "b", "flags": DEFAULT}
    on_cpu = ModelResult(**about)
    here = ModelResult(**about, device=HERE)
    assert warnings_on_settings(on_cpu, recipe(), {}) == []
    (said,) = warnings_on_settings(here, recipe(), {})
    assert said.startswith("A100: Float32 is TF32 in convolutions on this GPU")


def test_stable_cells_on_a_gpu_that_was_held_back_are_named_at_the_end() -> None:
    held_back = [Condition(gpu=GpuCondition(held_back=share, clock_mhz=1200)) for share in (0.9, 1.0)]
    quiet = [Condition(gpu=GpuCondition(held_back=0.0, clock_mhz=1410)), Condition()]
    assert warnings_at_end([held_back, quiet]) == [
        "1 stable cell: the GPU's clock was lowered by heat or its power limit in up to 100% of a round."
    ]


def test_where_shapes_change_the_search_for_kernels_is_in_the_times() -> None:
    (found,) = remarks_on_torch({"cudnn.benchmark": "True"}, None, {}, new_shapes=True)
    assert "batches of a data set have one each: the trials are in their times" in found.found


def on_gpu(seed: int, after_rounds: int, **settings: Any) -> Results:
    made = make(Made(seed, id=str(seed)))
    made.environment.device, made.environment.gpu = "cuda:0", [FIRST.model_copy(update=settings)]
    for cell in made.cells:
        cell.conditions = [Condition(gpu=GpuCondition(clock_mhz=after_rounds))]
    return made


def test_runs_that_differ_in_settings_of_the_gpu_say_so() -> None:
    slow = on_gpu(2, 1200, power_limit="200.00 W", driver="560.2", temperature="80", clock="1410 MHz")
    slow.environment.settings = {"float32": WorkerSettings(threads=2, environment={"CUDA_LAUNCH_BLOCKING": "1"})}
    found = find_differences(on_gpu(1, 1410, power_limit="250.00 W"), slow, [("float32", "float32")])
    told = {each.name: (each.before, each.after) for each in found if each.kind == "machine"}
    assert told == {
        "power limit of the GPU": ("250.00 W", "200.00 W"),
        "driver of the GPU": ("550.1", "560.2"),
        "clock of the GPU after rounds, median": ("1410 MHz", "1200 MHz"),
        "CUDA_LAUNCH_BLOCKING": (None, "1"),
    }


def test_a_run_may_be_resumed_on_a_gpu_that_became_warm() -> None:
    warm = FIRST.model_copy(update={"temperature": "70", "clock": "1410 MHz", "processes": 1})
    assert gpu_identities([FIRST]) == gpu_identities([warm])
    assert gpu_identities([FIRST]) != gpu_identities([SECOND])
