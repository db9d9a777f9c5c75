"""JSON of roots and keys."""

import base64
from typing import Annotated

from pydantic import Field

from app.billing.chain.records import ChainRoot
from app.billing.chain.sealing import root_hash
from app.http.response_model import Moment, ResponseModel


class RootResponse(ResponseModel):
    """A signed statement about the chains of all accounts."""

    number: int
    hash: Annotated[str, Field(description="SHA-256 of `statement`, hexadecimal.")]
    statement: Annotated[str, Field(description="The signed text: JSON, see docs/CHAIN.md.")]
    signature: Annotated[str, Field(description="Ed25519, base64.")]
    made_at: Moment

    @classmethod
    def of(cls, root: ChainRoot) -> "RootResponse":
        signature = base64.b64encode(root.signature).decode()
        return cls.built_from(root, hash=root_hash(root.statement), signature=signature)


class PublicKeyResponse(ResponseModel):
    """A key that signs roots, or did before."""

    id: str
    pem: str
