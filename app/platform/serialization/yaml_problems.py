"""What PyYAML has found to be wrong with a text, in words for those who do not know its grammar."""

import re

import yaml

_UNKNOWN = "this cannot be read as YAML"
_FOUND = "…"
"""In a sentence: what the first group of its pattern has found."""
_SENTENCES: tuple[tuple[str, str], ...] = (
    # What PyYAML's problem begins with, and what to write instead.
    (r"found character '\\t'", "this is indented with a tab; use spaces"),
    (r"found character ('.')", "a text cannot begin with …; put it in quotes"),
    (
        "mapping values are not allowed",
        "a colon before a space ends a key; put a text that has one in quotes, or correct the indentation",
    ),
    ("sequence entries are not allowed", "a list begins on a line of its own, each item with -"),
    ("mapping keys are not allowed", "a text cannot begin with ?; put it in quotes"),
    (
        "could not find expected ':'",
        "the line before has no key with a colon and a space; correct it, or its indentation",
    ),
    (
        "expected <block end>",
        "this line does not continue what is before it; correct its indentation, or put the text in quotes",
    ),
    ("expected '<document start>'", "this line is not indented like those before it"),
    (r"expected ',' or '\]'", "a list in [ ] is not closed, or a comma is missing before this"),
    (r"expected ',' or '\}'", "an object in { } is not closed, or a comma is missing before this"),
    ("expected the node content", "a value is missing here, or a text that belongs in quotes"),
    ("found unexpected (end of stream|document separator)", "a text in quotes is not closed before this"),
    ("found unknown escape character", r"in double quotes a backslash is written \\; or use single quotes"),
    ("expected escape sequence", r"in double quotes a backslash is written \\; or use single quotes"),
    ("expected alphabetic or numeric character", "a text cannot begin with * or &; put it in quotes"),
    (r"found undefined alias '?(.*?)'?$", "*… refers to nothing; put a text that begins with * in quotes"),
    ("second occurrence", "there is another anchor of this name"),
    ("but found another document", "a second document begins here; a file has one"),
    ("found unhashable key", "a key must be a text; put { } and [ ] that belong to it in quotes"),
    ("expected a mapping (or list of mappings )?for merging", "what << merges must be keys and values"),
    ("could not determine a constructor|found undefined tag", "put a text that begins with ! in quotes"),
    ("expected (chomping|a comment|indentation)", "after | or > the text begins on the next line"),
    ("special characters are not allowed", "a control character is not allowed"),
    ("(duplicate key .*|there is no such date or number as .*)", "…"),
)


def sentence_of(error: yaml.YAMLError) -> str:
    """What to correct."""
    if isinstance(error, yaml.MarkedYAMLError):
        text = str(error.problem or error.context)
    else:
        text = str(getattr(error, "reason", ""))
    for pattern, sentence in _SENTENCES:
        if found := re.match(pattern, text):
            return sentence.replace(_FOUND, found[1]) if _FOUND in sentence else sentence
    return _UNKNOWN
