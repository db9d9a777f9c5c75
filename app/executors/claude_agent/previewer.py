"""ClaudeAgentPreviewer: shows what a run of the Claude Agent SDK would execute; needs neither CLI nor key."""

from dataclasses import dataclass
from pathlib import Path

from app.executors.claude_agent.graph_keys import needs_full_mode
from app.executors.claude_agent.options.preview import preview_options
from app.executors.claude_agent.options.sdk_options import build_options
from app.executors.claude_agent.prompt import content_blocks, system_prompt
from app.executors.claude_agent.tools.mcp_bridge import McpBridge
from app.executors.claude_agent.tools.sdk_hooks import SdkHooks
from app.executors.port import Preview, RunPlan
from app.requests.run_request import GraphRunRequest


@dataclass(frozen=True, slots=True)
class ClaudeAgentPreviewer:
    """Implements the `GraphPreviewer` port."""

    needs_full_mode: bool
    """Whether every run needs the CLI's full mode: those with the machine's own login do."""

    async def preview(self, request: GraphRunRequest, plan: RunPlan) -> Preview:
        full = self.needs_full_mode or needs_full_mode(plan.spec)
        bridge = McpBridge(plan)
        options = build_options(
            plan,
            launcher=Path(),
            system_prompt_file=Path(),
            work=Path(),
            server=bridge.server(),
            hooks=SdkHooks(bridge),
            full=full,
            with_login=self.needs_full_mode,
        )
        return Preview(
            system_prompt=system_prompt(plan.spec.system_prompt, request.messages),
            prompt=content_blocks(request.messages),
            options={**preview_options(options), "network": plan.spec.network},
        )
