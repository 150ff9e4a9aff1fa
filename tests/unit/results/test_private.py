"""What is private is taken out wherever it hides; what only looks like it stays."""

from __future__ import annotations

import pytest

from profiler.results.export.private import Scrubber, without_private
from profiler.results.types import Gpu
from tests.unit.report.test_tables import ok, results

SCRUBBER = Scrubber(["heart-of-gold"], ["zaphod", "root"], ["/srv/my models/big one/model.pt", "/home/zaphod"])


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("/home/zaphod/logs/run.yaml", "run.yaml"),
        ("cannot read '/data/set 1/a.wav'", "cannot read 'set 1/a.wav'"),
        ("see /srv/my models/big one/model.pt, line 3", "see model.pt, line 3"),
        ("/srv/my models/notes.txt is missing", "notes.txt is missing"),
        ("a=/x/y.so:/x/z.so", "a=y.so:z.so"),
        (r"C:\Users\zaphod\models\a.pt was read", "a.pt was read"),
        ("heart-of-gold_1s_x1.17.pt.trace.json.gz", "host_1s_x1.17.pt.trace.json.gz"),
        ("Zaphod's run on HEART-OF-GOLD", "user's run on host"),
        ("~/models/a.pt and ../zaphod/b.pt", "a.pt and ../user/b.pt"),
    ],
)
def test_names_and_paths_are_taken_out(text: str, clean: str) -> None:
    assert SCRUBBER.text(text) == clean
    assert not SCRUBBER.left_in(clean)


@pytest.mark.parametrize(
    "text",
    [
        "RTF = wall seconds / (batch size x seconds of audio)",
        "20 GFLOP/s and/or 6 GB/s",
        "facebook/wav2vec2-base-960h",
        "https://example.org/a/b.html",
        "give the group read permission on /sys/class/powercap/intel-rapl:0/energy_uj",
        "../samples/speech.flac",
        "(root)",
        "aten::mm",
    ],
)
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert SCRUBBER.text(text) == text


def test_keys_and_nested_values_are_cleaned_too() -> None:
    assert SCRUBBER.value({"/data/zaphod/a.wav": ["/b/c.wav", {"n": 1, "x": None}]}) == {
        "a.wav": ["c.wav", {"n": 1, "x": None}]
    }


def test_a_scrubber_learns_from_the_run() -> None:
    made = results(ok(1, 1, 0.1))
    made.environment.host, made.environment.gpu = "magrathea", [Gpu(name="A100", uuid="GPU-1234")]
    made.run.recipe = "/home/slartibartfast/fjords/norway.yaml"
    made.run.command = "profile.py '/home/slartibartfast/fjords/norway.yaml' --logdir='/data/my logs'"
    made.cells[0].reason = "magrathea: slartibartfast may not read /data/my logs/x"
    scrubber = Scrubber.of(made)
    clean = without_private(made, scrubber)
    assert clean.run.recipe == "norway.yaml"
    assert clean.run.command == "profile.py norway.yaml '--logdir=my logs'"
    assert clean.cells[0].reason is not None
    assert clean.cells[0].reason.startswith("host: user may not read ")
    assert clean.environment.gpu == [Gpu(name="A100")]
    assert clean.environment.host is None
    assert clean.cells[0].latency_s == made.cells[0].latency_s
    assert scrubber.left_in(clean.model_dump_json()) == []
    assert made.environment.host == "magrathea", "the run itself is left as it is"
