"""MessagesPreviewer: shows the first request that a run would send to the Messages API; needs no key."""

import json
from dataclasses import dataclass

from app.executors.messages_api.output_format import load_output_format
from app.executors.messages_api.request import AgentRequest, posted_messages
from app.executors.port import Preview, RunPlan
from app.requests.run_request import GraphRunRequest


@dataclass(frozen=True, slots=True)
class MessagesPreviewer:
    """Implements the `GraphPreviewer` port."""

    cache_ttl: str
    """How long the provider keeps prompts in its cache."""

    async def preview(self, request: GraphRunRequest, plan: RunPlan) -> Preview:
        """See the port."""
        await load_output_format(plan)
        agent = AgentRequest.of(plan, request.messages, ttl=self.cache_ttl)
        messages = posted_messages(request.messages)
        body = agent.body(messages, marked={len(messages) - 1})
        options = {name: value for name, value in body.items() if name not in ("system", "messages")}
        return Preview(
            system_prompt=agent.system,
            prompt=messages[-1]["content"],
            options={
                **options,
                "tools": [json.loads(tool)["name"] for tool in agent.tools],
                "cache_control": dict(agent.cache_control),
            },
        )
