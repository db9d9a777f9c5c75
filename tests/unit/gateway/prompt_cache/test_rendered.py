import json
from typing import Any

from app.gateway.prompt_cache.prompt import cached_prompt
from app.gateway.prompt_cache.rendered import PromptEvidence
from tests.unit.gateway.prompt_cache.prompts import a_request, text


def rendered(*requests: dict[str, Any], agents: str = "") -> list[dict[str, Any]]:
    evidence = PromptEvidence(lambda _: None)
    names = agents.split(",") if agents else [""] * len(requests)
    return [
        json.loads(evidence.render(request, cached_prompt(request), agent=agent))
        for request, agent in zip(requests, names, strict=True)
    ]


def test_a_request_is_rendered_with_what_the_one_before_had_not() -> None:
    first, second, third = rendered(a_request(1), a_request(2), a_request(3, system="other"))

    assert (first["firstMessage"], len(first["messages"])) == (0, 1)
    assert {"system", "tools"} <= first.keys()
    # The mark has moved, which changes nothing.
    assert (second["firstMessage"], [each["role"] for each in second["messages"]]) == (
        1,
        ["assistant", "user"],
    )
    assert not {"system", "tools"} & second.keys()
    assert (third["system"], third["firstMessage"]) == ("other", 3)
    assert "tools" not in third
    assert third["parameters"]["thinking"] == {"type": "disabled"}


def test_each_agent_has_its_own_prompts() -> None:
    main, sub, again = rendered(a_request(1), a_request(1), a_request(2), agents=",sub,")

    assert [each["agent"] for each in (main, sub, again)] == [None, "sub", None]
    assert (sub["firstMessage"], again["firstMessage"]) == (0, 1)


def test_attachments_are_sizes_and_hashes() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "A" * 1000}
    result = {"type": "tool_result", "content": [{"type": "image", "source": source}]}
    (found,) = rendered(a_request(messages=[{"role": "user", "content": [result, text("look")]}]))

    shown, words = found["messages"][0]["content"]
    assert "AAAA" not in json.dumps(found)
    assert shown["content"][0]["source"]["encodedBytes"] == 1000
    assert len(shown["content"][0]["source"]["encodedSha256"]) == 64
    assert words["text"] == "look"


def test_what_is_no_request_is_rendered_as_it_is() -> None:
    (found,) = rendered({"messages": "x\x00", "tools": 5, "system": [["\ud800"]], "deep": {"a": [None]}})

    assert (found["messages"], found["tools"]) == ([], 5)
    assert found["parameters"] == {"deep": {"a": [None]}}
