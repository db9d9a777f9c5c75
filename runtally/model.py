"""Model: the base of what the server sends, camelCase in JSON and snake_case in Python."""

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from runtally.errors import InvalidResponse


class Model(BaseModel):
    """Base of everything that is read. Fields of a newer server are kept in `model_extra`."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        extra="allow",
        frozen=True,
        # `model` is a field here, and `model_name` may be one of a newer server.
        protected_namespaces=(),
    )


ModelT = TypeVar("ModelT", bound=Model)


def read(model: type[ModelT], document: object) -> ModelT:
    """Read a JSON value as this model; raises `InvalidResponse`."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        message = f"The server's {model.__name__} is not valid: {place}: {first['msg']}."
        raise InvalidResponse(message) from error
