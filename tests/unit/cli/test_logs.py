"""No text of others forges a line of the log or controls a terminal, in either format."""

import json
import logging
import sys
import threading
import warnings
from typing import Any

import pytest
import structlog

from app.cli.logs import LogFormat
from tests.log_lines import written_log
from tests.unit.cli.test_terminal import STEERING, steers

log = structlog.get_logger(__name__)
HOSTILE = f'{STEERING}\n{{"event": "forged"}}\r\n2026-01-01 [info] forged \u2028 \x85 \ud800 \x1b]8;;http://evil\x1b\\'
FORGED = {"forged", "forged.event"}


class Hostile:
    def __repr__(self) -> str:
        return HOSTILE


class Broken:
    def __repr__(self) -> str:
        raise ValueError(HOSTILE)


def write_everything() -> int:
    """Write hostile text in every way there is; returns how many lines that are."""
    fields: Any = {HOSTILE: HOSTILE, "run_id=forged level": 1, "nested": {HOSTILE: [HOSTILE, {"x": HOSTILE}]}}
    log.info("test.fields", **fields, value=Hostile(), broken=Broken(), blob=b"\x1b\n", number=float("nan"))
    log.warning(HOSTILE)
    library = logging.getLogger(HOSTILE)
    library.warning("%s", HOSTILE)
    library.error("%d %s", HOSTILE)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning(UserWarning(HOSTILE), UserWarning, __file__, 1)
    try:
        int(f"{HOSTILE}")
    except ValueError as error:
        log.exception("test.exception")
        library.exception(HOSTILE)
        sys.excepthook(type(error), error, error.__traceback__)
        thread = threading.Thread(target=int, args=(HOSTILE,))
        thread.start()
        thread.join()
    return 9


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_no_source_forges_a_line_or_controls_a_terminal(log_format: LogFormat) -> None:
    with written_log(log_format) as written:
        expected = write_everything()

    text = written.getvalue()
    assert not steers(text)
    assert not set(text) & set("\r\x85\u2028\u202e\x1b")
    text.encode()
    lines = [line for line in text.split("\n") if line and not line.startswith("  ")]
    assert len(lines) == expected, text
    if log_format == "console":
        assert all(line.startswith("20") and "T" in line.split(" ")[0] for line in lines)
    else:
        entries = [json.loads(line) for line in lines]
        shown = json.dumps(entries, ensure_ascii=False)
        shown.encode()
        assert not steers(shown)
        assert FORGED.isdisjoint(entry["event"] for entry in entries)
        assert {"event", "level", "timestamp"} <= set.intersection(*(set(entry) for entry in entries))
        assert all(name.isascii() and name.isprintable() for entry in entries for name in entry)


def test_a_value_does_not_look_like_several_fields() -> None:
    with written_log("console") as written:
        log.info("test.value", reason='x" level=error run_id=forged', plain="a/b:c", empty="")

    assert """reason='x" level=error run_id=forged'""" in written.getvalue()
    assert "plain=a/b:c" in written.getvalue()


def test_a_level_hides_what_is_below_it() -> None:
    with written_log(level="warning") as written:
        log.info("test.hidden")
        log.warning("test.shown")
        logging.getLogger("library").warning("shown")
    with written_log(level="debug") as more:
        log.debug("test.shown")
        logging.getLogger("library").info("hidden: it may contain a request")

    assert [line["event"] for line in written.lines()] == ["test.shown", "shown"]
    assert [line["event"] for line in more.lines()] == ["test.shown"]


def test_a_huge_value_is_cut() -> None:
    with written_log() as written:
        log.info("test.huge", text="x" * 1_000_000)

    (line,) = written.lines()
    assert line["text"].endswith("… (737856 more characters)")
