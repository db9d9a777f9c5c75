"""JSON of models, as clients of OpenAI's API read them."""

from typing import Literal, Self

from pydantic import BaseModel

from app.graphs.spec import GraphSpec


class OpenAiModel(BaseModel):
    """A graph as a model."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "runtally"
    name: str
    """Its title; with `description` what the pages of clients show."""
    description: str

    @classmethod
    def of(cls, graph: GraphSpec) -> Self:
        return cls(id=graph.id, name=graph.shown_title, description=graph.description)


class OpenAiModels(BaseModel):
    """The graphs that the key may run."""

    object: Literal["list"] = "list"
    data: list[OpenAiModel]


class CachedTokens(BaseModel):
    """How many tokens of the prompts were read from a cache, and written to it."""

    cached_tokens: int
    cache_write_tokens: int


class ReasoningTokens(BaseModel):
    """0: the provider does not count them."""

    reasoning_tokens: int
