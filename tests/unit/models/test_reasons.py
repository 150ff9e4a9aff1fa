"""Why a model cannot be loaded, in one line."""

from __future__ import annotations

import pytest
import yaml

from profiler.models.reasons import reason


def test_a_tag_that_yaml_refuses_is_named() -> None:
    with pytest.raises(yaml.YAMLError) as error:
        yaml.safe_load("a: !!python/object/apply:os.system [x]")
    assert "could not determine a constructor for the tag" in reason(error.value)
