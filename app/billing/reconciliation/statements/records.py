"""Sums of reconciled hours: of one account, and of the whole organization."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from app.billing.reconciliation.records import Difference, PriceDifference, ReconciledModel


@dataclass(frozen=True, slots=True)
class AccountStatement:
    """How much of an account's cost the provider's reports confirm."""

    cost_usd: Decimal
    confirmed_usd: Decimal
    """In hours whose reports and receipts differ by nothing unexplained, for its models."""
    unconfirmed_usd: Decimal
    """In hours and models with an unexplained difference, of this account or another."""
    pending_usd: Decimal
    """Not compared yet."""


@dataclass(frozen=True, slots=True)
class RunStatement:
    """How much of a run's cost the provider's reports confirm."""

    compared_until: datetime | None
    """None if nothing was ever compared."""
    run: AccountStatement
    """The sums of the run alone."""
    differences: Sequence[Difference]
    """The newest that are about its account, and in whose time and model it has receipts."""


@dataclass(frozen=True, slots=True)
class OrganizationStatement:
    """The comparison of everything, for operators."""

    models: Sequence[ReconciledModel]
    unexplained: Sequence[Difference]
    """The newest."""
    prices: Sequence[PriceDifference]
    problem: str | None
    """Why the latest comparison failed."""


@dataclass(frozen=True, slots=True)
class OperatorStatement:
    """What metrics show of a period."""

    compared_until: datetime | None
    """None if nothing was ever compared."""
    organization: OrganizationStatement


@dataclass(frozen=True, slots=True)
class ReconciliationStatement:
    """What the caller may see of a period."""

    compared_until: datetime | None
    """None if nothing was ever compared."""
    account: AccountStatement
    differences: Sequence[Difference]
    """The newest that are about the account."""
    organization: OrganizationStatement | None
    """Only for operators: it shows what other accounts used."""
