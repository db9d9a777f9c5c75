"""A second public list of the provider's prices, to hold ours against: dollars per million tokens.

Rows up to claude-opus-5 are those of LiteLLM's `model_prices_and_context_window.json` of July 2026, except
the one-hour writes of the Claude 3 models, where that list repeats a number of Sonnet. The later rows are
those of the provider's model pages and of the price table of the Claude Code CLI 2.1.332.
"""

from typing import NamedTuple


class PublicPrice(NamedTuple):
    """The prices of a model."""

    input: str
    output: str
    cache_read: str
    cache_write_5m: str
    cache_write_1h: str | None
    us: str | None = None
    fast: str | None = None


PUBLIC_PRICES = {
    "claude-3-haiku-20240307": PublicPrice("0.25", "1.25", "0.03", "0.3", None),
    "claude-3-opus-20240229": PublicPrice("15", "75", "1.5", "18.75", None),
    "claude-3-7-sonnet-20250219": PublicPrice("3", "15", "0.3", "3.75", "6"),
    "claude-4-opus-20250514": PublicPrice("15", "75", "1.5", "18.75", "30"),
    "claude-4-sonnet-20250514": PublicPrice("3", "15", "0.3", "3.75", "6"),
    "claude-opus-4-20250514": PublicPrice("15", "75", "1.5", "18.75", "30"),
    "claude-opus-4-1": PublicPrice("15", "75", "1.5", "18.75", "30"),
    "claude-opus-4-1-20250805": PublicPrice("15", "75", "1.5", "18.75", "30"),
    "claude-sonnet-4-20250514": PublicPrice("3", "15", "0.3", "3.75", "6"),
    "claude-sonnet-4-5": PublicPrice("3", "15", "0.3", "3.75", "6"),
    "claude-sonnet-4-5-20250929": PublicPrice("3", "15", "0.3", "3.75", "6"),
    "claude-haiku-4-5": PublicPrice("1", "5", "0.1", "1.25", "2"),
    "claude-haiku-4-5-20251001": PublicPrice("1", "5", "0.1", "1.25", "2"),
    "claude-opus-4-5": PublicPrice("5", "25", "0.5", "6.25", "10"),
    "claude-opus-4-5-20251101": PublicPrice("5", "25", "0.5", "6.25", "10"),
    "claude-opus-4-6": PublicPrice("5", "25", "0.5", "6.25", "10", us="1.1", fast="6"),
    "claude-opus-4-6-20260205": PublicPrice("5", "25", "0.5", "6.25", "10", us="1.1", fast="6"),
    "claude-sonnet-4-6": PublicPrice("3", "15", "0.3", "3.75", "6", us="1.1"),
    "claude-opus-4-7": PublicPrice("5", "25", "0.5", "6.25", "10", us="1.1", fast="6"),
    "claude-opus-4-8": PublicPrice("5", "25", "0.5", "6.25", "10", us="1.1", fast="2"),
    "claude-sonnet-5": PublicPrice("2", "10", "0.2", "2.5", "4", us="1.1"),
    "claude-fable-5": PublicPrice("10", "50", "1", "12.5", "20", us="1.1"),
    "claude-opus-5": PublicPrice("5", "25", "0.5", "6.25", "10", us="1.1", fast="2"),
    "claude-fable-5-1": PublicPrice("10", "50", "0.25", "12.5", "20", us="1.1"),
    "claude-fable-5-2": PublicPrice("8", "40", "0.2", "10", "16", us="1.1", fast="2"),
    "claude-mythos-5-2": PublicPrice("8", "40", "0.2", "10", "16", us="1.1", fast="2"),
    "claude-opus-5-5": PublicPrice("4", "20", "0.2", "5", "8", us="1.1", fast="2"),
    "claude-sonnet-5-5": PublicPrice("2", "10", "0.1", "2.5", "4", us="1.1"),
    "claude-haiku-5-5": PublicPrice("0.1", "0.5", "0.01", "0.125", "0.2", us="1.1"),
}
