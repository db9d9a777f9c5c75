import logging

from structlog.testing import capture_logs

from app.platform.logs.dependency import DependencyLog
from tests.unit.clock import Clock


def test_an_outage_has_two_lines_however_many_tasks_notice_it() -> None:
    clock = Clock()
    dependency = DependencyLog(unavailable="x.away", available="x.back", quiet_s=1.0, now=clock)
    with capture_logs() as logs:
        dependency.worked()
        for _ in range(50):
            dependency.failed("refused")
            clock.now += 0.1
        assert dependency
        # A call that began before the outage ends in between.
        dependency.worked()
        dependency.failed("timeout")
        clock.now += 1.0
        dependency.worked()
        dependency.worked()

    assert not dependency
    assert logs == [
        {"event": "x.away", "log_level": "warning", "reason": "refused"},
        {"event": "x.back", "log_level": "info", "away_s": 6.0},
    ]


def test_new_reasons_are_logged_once_where_they_matter() -> None:
    dependency = DependencyLog(
        unavailable="x.away", available="x.back", level=logging.ERROR, each_reason=True, now=Clock()
    )
    with capture_logs() as logs:
        for reason in ("full", "full", "locked", "full"):
            dependency.failed(reason, receipts=1)
        dependency.worked()
        dependency.failed("full", receipts=2)

    assert [(line["event"], line.get("reason"), line["log_level"]) for line in logs] == [
        ("x.away", "full", "error"),
        ("x.away", "locked", "error"),
        ("x.back", None, "info"),
        ("x.away", "full", "error"),
    ]
