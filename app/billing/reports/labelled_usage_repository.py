"""Usage by the values of a label: an end user, or a tag. The most charged are listed, the rest is one sum."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import func, select

from app.billing.reports import usage_repository
from app.billing.reports.records import GroupBy, UsageBreakdown, UsageFilter, UsageSums
from app.ids import AccountId
from app.platform.db import Reader
from app.platform.postgres.statements import is_one_of
from app.requests.attribution import ANY_LABELS


async def labelled_usage(
    reader: Reader,
    account_id: AccountId | None,
    label: str,
    *,
    by: GroupBy | None,
    top: int,
    filters: UsageFilter,
    time_zone: str,
) -> list[UsageBreakdown]:
    """Sums by group (`by`), each split by the `top` most charged values of a label.

    The part None has what else was charged: of other values, and without the label.
    """
    usage = usage_repository.matching_rows(account_id, filters, label)
    ranked = (
        select(usage.c.value)
        .group_by(usage.c.value)
        .order_by(func.sum(usage.c.charged_credits).desc(), usage.c.value)
        .limit(top)
    )
    values: Sequence[str] = (await reader.execute(ranked)).scalars().all()
    group = usage_repository.group_of(usage.c, by, time_zone)
    statement = (
        select(group.label("group"), usage.c.value, *usage_repository.summed(usage))
        .where(is_one_of(usage.c.value, values))
        .group_by(group, usage.c.value)
        .order_by(group, usage.c.value)
    )
    found = [
        UsageBreakdown(row["group"], usage_repository.sums_of(row), row["value"])
        for row in (await reader.execute(statement)).mappings()
    ]
    if label in filters.labels.named:
        return found
    everything = await usage_repository.grouped_usage(
        reader, account_id, by, filters=replace(filters, labels=ANY_LABELS), time_zone=time_zone
    )
    return _with_rest(everything, found)


def _with_rest(everything: list[UsageBreakdown], listed: list[UsageBreakdown]) -> list[UsageBreakdown]:
    parts: defaultdict[str | None, list[UsageBreakdown]] = defaultdict(list)
    for each in listed:
        parts[each.group].append(each)
    result: list[UsageBreakdown] = []
    for whole in everything:
        own, rest = parts[whole.group], whole.sums
        for each in own:
            rest = rest.minus(each.sums)
        result += own
        if rest != UsageSums():
            result.append(replace(whole, sums=rest))
    return result
