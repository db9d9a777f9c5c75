"""ScheduledRequests: checks the request of a schedule's runs as starting one would, and encodes it."""

import hashlib
import json
from dataclasses import dataclass, fields

from app.errors import Invalid
from app.requests.principal import Principal
from app.requests.run_request import GraphRunRequest
from app.runs.preview import RunPreviewer
from app.runs.requests.codec import RequestCodec
from app.schedules.records import RequestSummary, ScheduleTerms, StoredRequest

QUESTION_CHARS = 1000


@dataclass(frozen=True, slots=True)
class ScheduledRequests:
    """Stores nothing."""

    previewer: RunPreviewer
    codec: RequestCodec

    async def check(self, caller: Principal, text: str) -> None:
        """Check that the caller could start a run with a stored request; raises as `prepare` does."""
        await self.previewer.plan(caller, await self.codec.decode(text))

    async def prepare(
        self, owner: Principal, request: GraphRunRequest, *, caller: Principal | None = None
    ) -> StoredRequest:
        """Encode a request that a run of this key, and of the caller's, could be started with now.

        Raises `GraphNotAllowed`, `ModelNotAllowed`, `GraphNotFound`, or `Invalid` naming the field below
        `run`.
        """
        if request.fork_from is not None:
            raise Invalid.field("run.forkFrom", "cannot be used: each run would discard the one before")
        turns = [message for message in request.messages if message.role != "system"]
        if request.state_key is not None and len(turns) > 1:
            # The conversation grows with each run, and would soon contradict them.
            raise Invalid.field("run.messages", "must be one message, as there is a stateKey")
        try:
            # As an erasure of the end user finds it.
            request = owner.labelled(request)
            for each in {owner, caller or owner}:
                await self.previewer.plan(each, request)
        except Invalid as error:
            raise error.below("run") from error
        summary = RequestSummary(
            graph_id=request.graph_id,
            model=request.model,
            state_key=request.state_key,
            question=request.messages[-1].text[:QUESTION_CHARS],
        )
        return StoredRequest(summary, await self.codec.encode_with_files(request))

    async def fingerprint(self, terms: ScheduleTerms, request: GraphRunRequest, *, paused: bool) -> bytes:
        """A hash that is equal for equal requests to create a schedule."""
        timing = terms.timing
        plain = {each.name: str(getattr(timing, each.name)) for each in fields(timing)}
        plain |= {"overlap": terms.overlap, "catch_up_s": str(terms.catch_up_s), "paused": str(paused)}
        plain["run"] = (await self.codec.fingerprint(request)).hex()
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).digest()
