"""core__calculate: arithmetic without rounding errors, safe to offer to a model.

The expression is parsed, never evaluated as Python: only numbers, operators and parentheses are
allowed. Length, digits, exponents and magnitude are bounded, so no expression can block the server.
"""

import ast
import re
from collections.abc import Callable
from decimal import (
    Context,
    Decimal,
    DecimalException,
    DivisionByZero,
    Inexact,
    InvalidOperation,
    Overflow,
    Underflow,
)
from typing import NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator

from runtally import ToolContext, ToolOutput, tool

MAX_LENGTH = 300
MAX_DEPTH = 60
MAX_EXPONENT = 1000
"""Limit of the exponent of a power, and of the power of ten of any intermediate number."""
WORKING_DIGITS = 100
ROUNDED_DIGITS = 30
"""Shown digits of a result that is not exact; the other digits absorb rounding errors."""

_ALPHABET = re.compile(r"[0-9eE_.+\-*/%() \t]*")
_NUMBER = re.compile(r"(\d[\d_]*(\.[\d_]*)?|\.\d[\d_]*)([eE][+-]?\d+)?")
_PLAIN_ZEROS = 40
"""Numbers with more zeros than this are written with an exponent."""
_BY_ZERO = "divides by zero"


class NotCalculable(ValueError):
    """The expression has no value; the text is the reason and is shown to the model."""


class Calculated(NamedTuple):
    """A value, and whether it is exact."""

    value: Decimal
    exact: bool


_Operation: TypeAlias = Callable[[Context, Decimal, Decimal], Decimal]


def calculate(expression: str) -> Calculated:
    """The value of an expression; raises `NotCalculable` and nothing else.

    `//` truncates toward zero and `%` takes the sign of the dividend, as in `decimal`.
    """
    context = _new_context()
    node = _parsed(expression)
    try:
        value = _value(node, expression.strip(), context, depth=0)
        if context.flags[Inexact]:
            context.prec = ROUNDED_DIGITS
        return Calculated(context.plus(value), exact=not context.flags[Inexact])
    except (Overflow, Underflow) as error:
        raise NotCalculable("has a part that is too large or too small") from error
    except DecimalException as error:
        raise NotCalculable(f"has a part that is undefined or longer than {WORKING_DIGITS} digits") from error


def format_decimal(value: Decimal) -> str:
    """The shortest way to write a number: without superfluous zeros or exponent."""
    if not value:
        return "0"
    sign, digits, _ = value.as_tuple()
    plain = "".join(map(str, digits)).rstrip("0")
    exponent = value.adjusted() - len(plain) + 1
    shortest = Decimal((sign, tuple(map(int, plain)), exponent))
    if -_PLAIN_ZEROS <= exponent <= _PLAIN_ZEROS:
        return format(shortest, "f")
    return format(shortest, "E")


def _new_context() -> Context:
    return Context(
        prec=WORKING_DIGITS,
        Emin=-MAX_EXPONENT,
        Emax=MAX_EXPONENT,
        traps=[DivisionByZero, InvalidOperation, Overflow, Underflow],
    )


def _parsed(expression: str) -> ast.expr:
    if len(expression) > MAX_LENGTH:
        raise NotCalculable(f"is longer than {MAX_LENGTH} characters")
    # Checked first: the parser accepts, or warns about, much that is no arithmetic.
    if not _ALPHABET.fullmatch(expression):
        raise NotCalculable("may hold only numbers, + - * / // % ** and parentheses")
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise NotCalculable("is not an arithmetic expression") from error


def _value(node: ast.expr, source: str, context: Context, *, depth: int) -> Decimal:
    if depth > MAX_DEPTH:
        raise NotCalculable(f"is nested more than {MAX_DEPTH} levels deep")
    match node:
        case ast.Constant():
            return _number(source[node.col_offset : node.end_col_offset], context)
        case ast.UnaryOp(op=ast.UAdd() | ast.USub() as sign, operand=operand):
            value = _value(operand, source, context, depth=depth + 1)
            return value.copy_negate() if isinstance(sign, ast.USub) else value
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATIONS:
            operands = [_value(side, source, context, depth=depth + 1) for side in (left, right)]
            return _OPERATIONS[type(operator)](context, *operands)
    raise NotCalculable("is not an arithmetic expression")


def _number(text: str, context: Context) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise NotCalculable(f"holds {text!r}, which is not a decimal number")
    # From the text: the parser's own value of 0.1 is a binary fraction.
    return context.create_decimal(text.replace("_", ""))


def _divisible(operation: _Operation) -> _Operation:
    def divide(context: Context, left: Decimal, right: Decimal) -> Decimal:
        if not right:
            raise NotCalculable(_BY_ZERO)
        return operation(context, left, right)

    return divide


def _power(context: Context, left: Decimal, right: Decimal) -> Decimal:
    if abs(right) > MAX_EXPONENT:
        raise NotCalculable(f"has an exponent beyond {MAX_EXPONENT}")
    if not left and right < 0:
        raise NotCalculable(_BY_ZERO)
    return context.power(left, right)


_OPERATIONS: dict[type[ast.operator], _Operation] = {
    ast.Add: Context.add,
    ast.Sub: Context.subtract,
    ast.Mult: Context.multiply,
    ast.Div: _divisible(Context.divide),
    ast.FloorDiv: _divisible(Context.divide_int),
    ast.Mod: _divisible(Context.remainder),
    ast.Pow: _power,
}


class CalculateArgs(BaseModel):
    """What to calculate."""

    model_config = ConfigDict(extra="forbid")

    expression: str = Field(
        description=(
            "Decimal numbers with + - * / // % ** and parentheses, for example "
            "(19.99 * 3 - 5) / 1.19. // truncates toward zero; % takes the sign of the dividend."
        ),
    )

    @field_validator("expression")
    @classmethod
    def _has_a_value(cls, expression: str) -> str:
        calculate(expression)
        return expression


class Calculation(BaseModel):
    """An expression and its value, as a decimal string."""

    expression: str
    result: str
    exact: bool
    """False when the value had to be rounded, as that of 1/3."""


@tool(
    id="core__calculate",
    description=(
        "Calculates an arithmetic expression in decimal numbers, exactly where the value can be "
        f"written with {WORKING_DIGITS} digits, else rounded to {ROUNDED_DIGITS}. Use it for every "
        "calculation whose result matters."
    ),
    effect="read_only",
    redact=("expression", "result", "exact"),
    timeout_s=5.0,
)
async def calculate_expression(
    args: CalculateArgs,
    _context: ToolContext,
) -> ToolOutput[Calculation]:
    """Calculate the expression."""
    value, exact = calculate(args.expression)
    calculation = Calculation(expression=args.expression, result=format_decimal(value), exact=exact)
    relation = "=" if exact else "≈"
    return ToolOutput(
        markdown=f"{calculation.expression} {relation} {calculation.result}", structured=calculation
    )
