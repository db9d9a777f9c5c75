"""A statement as PDF: the same bytes each time."""

import base64
import io
from collections.abc import Iterable, Sequence
from datetime import UTC
from decimal import Decimal
from textwrap import wrap

from app.billing.credit.ledger import usd
from app.billing.statements.records import Statement, StatementPart, StoredStatement, content_of

_TOP, _BOTTOM, _LEFT, _RIGHT, _LEADING = 790.0, 60.0, 56.0, 539.0, 14.0
_LONGEST = 62
"""Characters of a name on a line."""


def statement_pdf(stored: StoredStatement) -> bytes:
    """A4 pages with all numbers of a statement, in dollars, and its signature."""
    # Imported here: it takes longer than anything else that a server imports, and most never need it.
    from reportlab.lib.pagesizes import A4
    from reportlab.pdfgen.canvas import Canvas

    written = io.BytesIO()
    canvas = Canvas(written, pagesize=A4, invariant=1)
    canvas.setTitle(f"Statement {stored.month}")
    y = _TOP
    for text, amount, is_title in _lines(stored, content_of(stored)):
        if y < _BOTTOM:
            canvas.showPage()
            y = _TOP
        canvas.setFont("Helvetica-Bold" if is_title else "Helvetica", 10)
        canvas.drawString(_LEFT, y, _printable(text))
        canvas.drawRightString(_RIGHT, y, amount)
        y -= _LEADING
    canvas.showPage()
    canvas.save()
    return written.getvalue()


def _lines(stored: StoredStatement, content: Statement) -> Iterable[tuple[str, str, bool]]:
    """Text, amount, and whether it is a title."""
    yield f"Statement {content.month} (UTC)", "USD", True
    yield f"Account {content.account_id}", "", False
    yield f"Made at {stored.made_at.astimezone(UTC).isoformat(timespec='seconds')}", "", False
    yield "", "", False
    yield "Opening balance", _dollars(content.opening), True
    yield "Grants", _dollars(content.grants), False
    yield "Adjustments", _dollars(content.adjustments), False
    yield "Expired grants", _dollars(content.expiries), False
    yield "Charges", _dollars(content.charges), False
    for late in content.late_charges:
        yield f"Late charges of {late.month}", _dollars(late.credits), False
    yield "Closing balance", _dollars(content.closing), True
    yield from _parts("Charges by model", content.by_model)
    yield from _parts("Charges by graph", content.by_graph)
    yield from _parts("Charges by API key", content.by_key)
    yield "", "", False
    yield "What is signed", "", True
    signature = "unsigned" if stored.signature is None else base64.b64encode(stored.signature).decode()
    for line in wrap(f"Key {stored.key}: {signature}" if stored.key else signature, 90):
        yield line, "", False
    yield f"Entries until then: {content.chain_position}, the newest with the hash", "", False
    yield content.chain_hash, "", False


def _parts(title: str, parts: Sequence[StatementPart]) -> Iterable[tuple[str, str, bool]]:
    yield "", "", False
    yield title, "", True
    for part in parts:
        *above, last = wrap(part.name, _LONGEST) or [""]
        for line in above:
            yield line, "", False
        yield f"{last}: {part.messages} messages", _dollars(part.credits), False


def _dollars(credits_: int) -> str:
    amount: Decimal = usd(credits_)
    return f"{amount:.7f}"


def _printable(text: str) -> str:
    """The font has no other characters."""
    return text.encode("latin-1", "replace").decode("latin-1")
