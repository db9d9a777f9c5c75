"""Who and what a run is for: the end user, tags and metadata that a request names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

from pydantic import Field, StrictBool, WithJsonSchema

from app.errors import Invalid
from app.requests.wire_models import InputModel

_FIXED: Final = "is fixed to another value by the API key or token"
MAX_LABEL_CHARS: Final = 128
MAX_TAGS: Final = 10
_PRINTABLE: Final = r"^[^\x00-\x1f\x7f]+$"
TAG_NAME: Final = "[A-Za-z][A-Za-z0-9_.-]{0,63}"
_TAG_NAME: Final = f"^{TAG_NAME}$"
_METADATA_PAIRS: Final = 16
_METADATA_CHARS: Final = 512
_NAME_CHARS: Final = 64
MAX_TAG_CHARS: Final = _NAME_CHARS + 1 + MAX_LABEL_CHARS
"""Of a name and a value with a colon between them."""


def _pairs(count: int, name: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object; the generated one does not say that other names are refused."""
    return {
        "type": "object",
        "maxProperties": count,
        "propertyNames": {"type": "string", "maxLength": _NAME_CHARS, **name},
        "additionalProperties": {"type": "string", **value},
    }


ERASED: Final = "~"
"""How the hash begins that stands for an end user who was erased; no name begins so."""

Label = Annotated[str, Field(min_length=1, max_length=MAX_LABEL_CHARS, pattern=_PRINTABLE)]
"""The value of a tag; also an end user, of whom only the hash may be left."""

EndUser = Annotated[
    str,
    Field(min_length=1, max_length=MAX_LABEL_CHARS, pattern=rf"^[^\x00-\x1f\x7f{ERASED}][^\x00-\x1f\x7f]*$"),
]

TagName = Annotated[str, Field(max_length=_NAME_CHARS, pattern=_TAG_NAME)]

Tags = Annotated[
    dict[TagName, Label],
    Field(max_length=MAX_TAGS),
    WithJsonSchema(
        _pairs(
            MAX_TAGS,
            {"pattern": _TAG_NAME},
            {"minLength": 1, "maxLength": MAX_LABEL_CHARS, "pattern": _PRINTABLE},
        )
    ),
]

Metadata = Annotated[
    dict[
        Annotated[str, Field(min_length=1, max_length=_NAME_CHARS, pattern=_PRINTABLE)],
        Annotated[str, Field(max_length=_METADATA_CHARS, pattern=r"^[^\x00]*$")],
    ],
    Field(max_length=_METADATA_PAIRS),
    WithJsonSchema(
        _pairs(
            _METADATA_PAIRS,
            {"minLength": 1, "pattern": _PRINTABLE},
            {"maxLength": _METADATA_CHARS, "pattern": r"^[^\x00]*$"},
        )
    ),
]


class Attributed(InputModel):
    """What every request that starts a run may say of whom and what it is for."""

    end_user: EndUser | None = None
    """The caller's own id of the person; on each receipt."""
    tags: Tags | None = None
    """Names and values by which usage is summed up; on each receipt."""
    metadata: Metadata | None = None
    """Kept with the run until its contents are deleted; not on receipts."""


Labelled = TypeVar("Labelled", bound=Attributed)


class KeyLabels(InputModel):
    """What the runs of a key are labelled with where their requests name nothing else."""

    end_user: EndUser | None = None
    tags: Tags | None = None
    fixed: StrictBool = False
    """Whether requests may name no other value."""

    def applied_to(self, given: Labelled) -> Labelled:
        """A request with these labels besides its own; raises `Invalid` naming the field."""
        own, named = self.tags or {}, given.tags or {}
        tags = {**own, **named}
        if self.fixed and self.end_user is not None and given.end_user not in {None, self.end_user}:
            raise Invalid.field("endUser", _FIXED)
        if changed := [name for name in own if self.fixed and tags[name] != own[name]]:
            raise Invalid.field(f"tags.{changed[0]}", _FIXED)
        if len(tags) > MAX_TAGS:
            raise Invalid.field("tags", f"has, with those of the API key, more than {MAX_TAGS} names")
        end_user = given.end_user or self.end_user
        return given.model_copy(update={"end_user": end_user, "tags": tags or None})

    def includes(self, other: "KeyLabels") -> bool:
        """Whether runs with these labels always have those of the other, which are fixed."""
        is_same = other.end_user in {None, self.end_user}
        return self.fixed and is_same and (self.tags or {}).items() >= (other.tags or {}).items()


def labels_in(given: Attributed) -> dict[str, Any]:
    """What a request says of them, by the names of their fields."""
    return {name: getattr(given, name) for name in Attributed.model_fields}


@dataclass(frozen=True, slots=True)
class RunLabels:
    """Whom and what a run is for, as its row has it."""

    end_user: str | None = None
    tags: Mapping[str, str] | None = None
    metadata: Mapping[str, str] | None = None

    @classmethod
    def of(cls, given: Attributed) -> "RunLabels":
        """What a request says; no tags and no metadata are None."""
        return cls(given.end_user, given.tags or None, given.metadata or None)


NO_LABELS = RunLabels()

TAG_PREFIX = "tag:"
END_USER_LABEL = "endUser"
"""How reports of usage name what they sum up by: this, or `tag:` and the name of a tag."""


def is_label(group: str | None) -> bool:
    """Whether a group of usage is one of these."""
    return group is not None and (group == END_USER_LABEL or group.startswith(TAG_PREFIX))


@dataclass(frozen=True, slots=True)
class LabelFilter:
    """Conditions on labels; None matches any."""

    end_user: str | None = None
    tag: tuple[str, str] | None = None
    """Name and value."""

    @property
    def named(self) -> dict[str, str]:
        """The values by the names that reports of usage have for them."""
        found = {} if self.end_user is None else {END_USER_LABEL: self.end_user}
        return found if self.tag is None else {**found, f"{TAG_PREFIX}{self.tag[0]}": self.tag[1]}


ANY_LABELS = LabelFilter()
