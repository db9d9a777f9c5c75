"""How an account pays."""

from typing import Literal, TypeAlias

PaymentMode: TypeAlias = Literal["prepaid", "postpaid"]
"""Prepaid stops when the credit is used up; postpaid goes on and counts."""
