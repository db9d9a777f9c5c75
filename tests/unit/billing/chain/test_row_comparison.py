from uuid import UUID

import pytest

from app.billing.chain.records import ChainLink, LinkedRow
from app.billing.chain.row_comparison import as_it_is, changed_rows


def row(content: str, entry: str | None, receipt: str | None = None) -> LinkedRow:
    return LinkedRow(ChainLink(UUID(int=1), 7, content, b""), entry, receipt)


CONTENT = '{"entry":{"id":1,"note":null,"cost":0.50,"nested":{"a":1,"b":[true]}},"receipt":null}'


@pytest.mark.parametrize(
    "entry",
    [
        '{"id":1,"note":null,"cost":0.50,"nested":{"a":1,"b":[true]}}',
        '{"nested": {"b": [true], "a": 1.0}, "cost": 0.5000, "note": null, "id": 1}',
        '{"id":1,"note":null,"cost":0.50,"nested":{"a":1,"b":[true]},"added":null,"more":0,"less":{}}',
    ],
)
def test_another_way_to_write_the_same_values_is_no_change(entry: str) -> None:
    assert list(changed_rows(row(CONTENT, entry))) == []
    assert as_it_is(row(CONTENT, entry)) == CONTENT


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ('{"id":1,"note":"","cost":0.50,"nested":{"a":1,"b":[true]}}', "note"),
        ('{"id":1,"note":null,"cost":0.50000000000000000000000001,"nested":{"a":1,"b":[true]}}', "cost"),
        ('{"id":1,"note":null,"cost":"0.50","nested":{"a":1,"b":[true]}}', "cost"),
        ('{"id":1,"note":null,"cost":0.50,"nested":{"a":1,"b":[1]}}', "nested"),
        ('{"id":1,"note":null,"cost":0.50,"nested":{"a":1,"b":[true, true]}}', "nested"),
        ('{"id":1,"note":null,"cost":0.50,"nested":{"a":1,"b":[true],"c":null}}', "nested"),
        ('{"id":1,"cost":0.50,"nested":{"a":1,"b":[true]}}', "note"),
        ('{"id":1,"note":null,"cost":0.50,"nested":{"a":1,"b":[true]},"added":true}', "added"),
        ('{"id":1,"note":null,"cost":0.50,"nested":{"a":1,"b":[true]},"added":"x"}', "added"),
    ],
)
def test_a_changed_value_is_named(entry: str, name: str) -> None:
    (finding,) = changed_rows(row(CONTENT, entry))

    assert f"position 7: {name} of the entry 1 was " in finding
    assert as_it_is(row(CONTENT, entry)) == f'{{"entry":{entry},"receipt":null}}'


def test_rows_that_are_gone_or_new_are_named() -> None:
    with_receipt = '{"entry":{"id":1},"receipt":{"id":"r"}}'

    assert as_it_is(row(with_receipt, None)) is None
    assert "the entry 1 is missing" in str(list(changed_rows(row(with_receipt, None, '{"id":"r"}'))))
    assert "the receipt r is missing" in str(list(changed_rows(row(with_receipt, '{"id":1}'))))
    assert "the receipt r was added" in str(
        list(changed_rows(row('{"entry":{"id":1},"receipt":null}', '{"id":1}', '{"id":"r"}')))
    )
    assert "cannot be read" in str(list(changed_rows(row("[", '{"id":1}'))))
