"""Short runs of the fuzzer; `python -m tests.fuzz.recipes` is the long one."""

from __future__ import annotations

from tests.fuzz import recipes


def test_mutated_recipes_are_accepted_or_refused_and_nothing_runs() -> None:
    findings = recipes.run(200, seed=3)
    assert findings.sound, findings.wrong[0]
    assert findings.counts["accepted"] > 5
    assert findings.counts["refused"] > 100


def test_mutated_overrides_are_accepted_or_refused_and_nothing_runs() -> None:
    findings = recipes.run(100, seed=3, overrides=True)
    assert findings.sound, findings.wrong[0]


def test_the_fuzzer_notices_code_that_runs() -> None:
    assert recipes.run(40, seed=3, trust=True).counts["code run"] > 0
