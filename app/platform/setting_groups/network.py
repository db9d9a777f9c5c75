"""NetworkSettings: the settings of the way to other machines."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings

from app.platform.network import (
    Network,
    NoProxy,
    Proxy,
    check_authorities,
    check_key,
    check_no_proxy,
    check_proxy,
)
from app.platform.serialization.setting_forms import Listed


class NetworkSettings(BaseSettings):
    """Settings of what calls other machines; part of `Settings`."""

    https_proxy: Annotated[SecretStr, AfterValidator(check_proxy)] | None = None
    no_proxy: Annotated[Listed[str], AfterValidator(check_no_proxy)] = ()
    ca_file: Annotated[Path, AfterValidator(check_authorities)] | None = None
    client_cert_file: Path | None = None
    client_key_file: Path | None = None

    @field_validator("client_key_file")
    @classmethod
    def _belongs_to_the_certificate(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        return check_key(value, info.data.get("client_cert_file"))

    @property
    def network(self) -> Network:
        """The way to other machines."""
        proxy = None if self.https_proxy is None else Proxy.read(self.https_proxy.get_secret_value())
        return Network(proxy, NoProxy.read(self.no_proxy), self.ca_file)

    @property
    def provider_network(self) -> Network:
        """The way to the provider, which gets our certificate if it asks for one."""
        if self.client_cert_file is None or self.client_key_file is None:
            return self.network
        return replace(self.network, certificate=(self.client_cert_file, self.client_key_file))
