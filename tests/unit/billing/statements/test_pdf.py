"""A statement with more parts than a page has lines, and with long names."""

import io
import json
from dataclasses import asdict
from datetime import UTC, datetime

from pypdf import PdfReader

from app.billing.statements.pdf import statement_pdf
from app.billing.statements.records import FORMAT, LateCharges, Statement, StatementPart, StoredStatement

KEYS = 120


def stored() -> StoredStatement:
    parts = [StatementPart(f"key-{number}", 1, -number) for number in range(KEYS)]
    content = Statement(
        format=FORMAT,
        account_id="0197",
        month="2026-10",
        opening=5,
        grants=10**12,
        adjustments=-1,
        expiries=-2,
        charges=-3,
        late_charges=[LateCharges("2026-09", -12_345_678)],
        closing=10**12 - 12_345_679,
        by_model=[StatementPart("a model of the \u4eba " + "m" * 150, 2, -3)],
        by_graph=[],
        by_key=parts,
        chain_position=7,
        chain_hash="ab" * 32,
        previous=None,
    )
    at = datetime(2026, 11, 1, 1, tzinfo=UTC)
    return StoredStatement("2026-10", json.dumps(asdict(content)), "5b0c", b"s" * 64, at)


def test_every_line_is_there_and_the_bytes_are_the_same_each_time() -> None:
    pdf = statement_pdf(stored())

    assert pdf == statement_pdf(stored())
    pages = PdfReader(io.BytesIO(pdf)).pages
    shown = "\n".join(page.extract_text() for page in pages)
    assert len(pages) == 3
    for number in range(KEYS):
        assert f"key-{number}: 1 messages" in shown
    assert shown.count("m" * 40) == 3
    for text in (
        "100000.0000000",
        "Late charges of 2026-09",
        "-1.2345678",
        "99998.7654321",
        "ab" * 32,
        "5b0c",
    ):
        assert text in shown
