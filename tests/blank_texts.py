"""Texts that a person sees nothing of, as keyboards, templates and other programs make them."""

_CHARACTERS = {
    "space": " ",
    "tab": "\t",
    "newline": "\n",
    "line of Windows": "\r\n",
    "no-break space": "\u00a0",
    "ideographic space": "\u3000",
    "line separator": "\u2028",
    "paragraph separator": "\u2029",
    "zero-width space": "\u200b",
    "zero-width joiner": "\u200d",
    "word joiner": "\u2060",
    "byte order mark": "\ufeff",
    "right-to-left mark": "\u200f",
    "soft hyphen": "\u00ad",
    "unit separator": "\u001f",
}
BLANK_TEXTS = [*(text * 3 for text in _CHARACTERS.values()), "".join(_CHARACTERS.values())]
