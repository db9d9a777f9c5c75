"""Each parameter of the newest official client may have the values that ask for nothing but its default."""

from typing import Any, Final

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from pydantic import ValidationError

from app.http.openai.chat.input import ChatCompletionRequest
from app.http.openai.posted import PostedChat
from app.http.openai.responses.input import ResponseRequest

_BOTH: Final[dict[str, list[Any]]] = {
    "metadata": [{}],
    "moderation": [],
    "parallel_tool_calls": [True],
    "prompt_cache_key": [""],
    "prompt_cache_options": [{}],
    "prompt_cache_retention": ["in_memory"],
    "safety_identifier": [],
    "service_tier": ["auto", "default"],
    "store": [True, False],
    "stream_options": [{"include_obfuscation": True}],
    "temperature": [1, 1.0],
    "tool_choice": ["auto", "none"],
    "tools": [[]],
    "top_logprobs": [0],
    "top_p": [1],
    "user": [],
}
_CHAT: Final[dict[str, list[Any]]] = {
    "audio": [],
    "frequency_penalty": [0],
    "function_call": ["auto", "none"],
    "functions": [[]],
    "logit_bias": [{}],
    "logprobs": [False],
    "max_completion_tokens": [],
    "max_tokens": [],
    "modalities": [["text"]],
    "n": [1],
    "prediction": [],
    "presence_penalty": [0],
    "reasoning_effort": ["medium"],
    "response_format": [{"type": "text"}],
    "seed": [],
    "stop": [[]],
    "verbosity": ["medium"],
    "web_search_options": [],
}
_RESPONSE: Final[dict[str, list[Any]]] = {
    "access_programs": [[]],
    "background": [False],
    "background_options": [],
    "context_management": [[]],
    "conversation": [],
    "image": [],
    "include": [[]],
    "instructions": [""],
    "max_output_tokens": [],
    "max_tool_calls": [],
    "previous_response_id": [],
    "prompt": [],
    "reasoning": [{}, {"effort": "medium", "summary": None}],
    "text": [{}, {"format": {"type": "text"}, "verbosity": "medium"}],
    "truncation": ["disabled"],
}
REQUESTS: Final[dict[str, tuple[type[PostedChat], type[Any], dict[str, Any], dict[str, list[Any]]]]] = {
    "chat": (
        ChatCompletionRequest,
        CompletionCreateParamsBase,
        {"model": "m:a", "messages": [{"role": "user", "content": "hi"}]},
        _BOTH | _CHAT,
    ),
    "responses": (
        ResponseRequest,
        ResponseCreateParamsBase,
        {"model": "m:a", "input": "hi"},
        _BOTH | _RESPONSE,
    ),
}
REFUSED: Final[dict[str, dict[str, list[Any]]]] = {
    "chat": {
        "top_logprobs": [1, True, "0"],
        "logprobs": [True],
        "audio": [{"voice": "x"}],
        "functions": [[{"name": "x"}]],
        "function_call": [{"name": "x"}],
        "modalities": [["audio"]],
        "n": [2, 0],
        "tool_choice": ["required"],
    },
    "responses": {"top_logprobs": [1, True, "0"], "prompt": [{"id": "x"}], "tool_choice": ["required"]},
}


@pytest.mark.parametrize("name", REQUESTS)
def test_every_parameter_may_have_its_neutral_values(name: str) -> None:
    request, parameters, needed, values = REQUESTS[name]

    assert set(values) == set(parameters.__annotations__) - set(needed)
    for parameter, neutral in values.items():
        for value in (None, *neutral):
            request.model_validate({**needed, parameter: value})


@pytest.mark.parametrize("name", REQUESTS)
def test_a_value_that_asks_for_what_is_not_served_is_refused(name: str) -> None:
    request, _, needed, _ = REQUESTS[name]

    for parameter, wrong in REFUSED[name].items():
        for value in wrong:
            with pytest.raises(ValidationError) as refused:
                request.model_validate({**needed, parameter: value})
            assert {each["loc"][0] for each in refused.value.errors()} == {parameter}, value
