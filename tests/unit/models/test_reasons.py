"""Why a model cannot be loaded, in one line."""

from __future__ import annotations

import pytest
import yaml

from profiler.models.reasons import reason
from profiler.processes import explain


def test_a_tag_that_yaml_refuses_is_named() -> None:
    with pytest.raises(yaml.YAMLError) as error:
        yaml.safe_load("a: !!python/object/apply:os.system [x]")
    assert "could not determine a constructor for the tag" in reason(error.value)


def test_a_line_that_announces_others_is_not_cut_off() -> None:
    theirs = "It requires librosa. Install it with pip:\n```\npip install librosa\n```\nThen restart."
    assert reason(ImportError(theirs)) == "It requires librosa. Install it with pip: pip install librosa"
    assert explain(ImportError(theirs)) == f"ImportError: {reason(ImportError(theirs))}"
    assert reason(ValueError("one\ntwo")) == "one"
    assert explain(ValueError("")) == "ValueError"
