"""How an account pays."""

from typing import Literal, TypeAlias

PaymentMode: TypeAlias = Literal["prepaid", "postpaid"]
"""Prepaid accounts stop when their credit is used up; for postpaid accounts usage is only counted."""
