"""What the other stories measure with measures something."""

import time

from tests.e2e.stories import a_request
from tests.security.conftest import OpenTarget
from tests.security.server import Target


async def test_a_healthy_server_answers_at_once_and_a_stopped_one_is_noticed(
    open_target: OpenTarget, model_url: str
) -> None:
    async with open_target(model_url) as target, target.watched() as watched:
        target.process.suspend()
        time.sleep(0.3)  # noqa: ASYNC251
        target.process.resume()

    assert 0.2 < watched.worst_s < 5
    assert watched.median_s < watched.worst_s
    assert watched.peak_bytes > 10_000_000


async def test_a_tenant_runs_and_is_answered(target: Target) -> None:
    key = await target.new_key("obedience")

    async with target.good_client(key) as http:
        answer = await http.post("/v1/runs/wait", json=a_request("say words 3"))

    assert answer.json()["content"].split() == ["word"] * 3
