"""The requests for one answer to one prompt."""

import pytest
from pydantic import ValidationError

from app.runs.requests.generate import GenerateObjectRequest, GenerateTextRequest


def test_a_role_selects_the_model() -> None:
    assert GenerateTextRequest.model_validate({"prompt": "hi", "role": "fast"}).model is None
    with pytest.raises(ValidationError, match="either role or model"):
        GenerateTextRequest.model_validate({"prompt": "hi", "model": "haiku", "role": "fast"})


@pytest.mark.parametrize("change", [{"prompt": ""}, {"schema": None}, {"stream": True}])
def test_an_object_needs_a_prompt_and_a_schema_and_nothing_else(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        GenerateObjectRequest.model_validate({"prompt": "hi", "schema": {}, **change})
