"""ReportingSimulator: a simulator whose Admin API reports what it sent."""

from dataclasses import dataclass, field

from app.platform.server.loopback import Receive, Scope, Send
from app.simulator.script import ApiRequest, HttpError
from app.simulator.server import RecordedMessage, Simulator, send_error, send_json
from tests.provider.admin_reports import ADMIN_PATH, AdminReports, AnsweredCall

PROFILE_HEADER = "anthropic-user-profile-id"


@dataclass
class ReportingSimulator(Simulator):
    """The Messages API of the simulator, and the reports of the Admin API."""

    reports: AdminReports = field(default_factory=AdminReports)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; those of the Admin API with a report."""
        if ADMIN_PATH not in scope["path"]:
            await super().handle(scope, receive, send)
            return
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        report = self.reports.answer(scope["path"], headers, scope["query_string"])
        if isinstance(report, HttpError):
            await send_error(send, report)
        else:
            await send_json(send, 200, report)

    def record(self, request: ApiRequest, message: RecordedMessage) -> None:
        """Note what is sent, for the reports as well."""
        super().record(request, message)
        key, profile_id = request.headers.get("x-api-key", ""), request.headers.get(PROFILE_HEADER)
        self.reports.calls.append(AnsweredCall(message, key, profile_id))
