"""TelemetrySettings: the standard variables of OpenTelemetry."""

import re
from typing import Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings

from app.platform.serialization.setting_forms import Listed
from app.platform.setting_groups.urls import HttpUrl

_PAIRS = re.compile(r"[^\s=,]+=[^,\r\n]*(,\s*[^\s=,]+=[^,\r\n]*)*")


class TelemetrySettings(BaseSettings):
    """Settings of what is sent to receivers of telemetry; part of `Settings`."""

    otel_endpoint: HttpUrl | None = Field(None, validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT")
    otel_traces_endpoint: HttpUrl | None = Field(None, validation_alias="OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    otel_metrics_endpoint: HttpUrl | None = Field(
        None, validation_alias="OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
    )
    otel_logs_endpoint: HttpUrl | None = Field(None, validation_alias="OTEL_EXPORTER_OTLP_LOGS_ENDPOINT")
    otel_headers: SecretStr | None = Field(None, validation_alias="OTEL_EXPORTER_OTLP_HEADERS")
    otel_traces_headers: SecretStr | None = Field(None, validation_alias="OTEL_EXPORTER_OTLP_TRACES_HEADERS")
    otel_metrics_headers: SecretStr | None = Field(
        None, validation_alias="OTEL_EXPORTER_OTLP_METRICS_HEADERS"
    )
    otel_logs_headers: SecretStr | None = Field(None, validation_alias="OTEL_EXPORTER_OTLP_LOGS_HEADERS")
    otel_protocol: str | None = Field(None, validation_alias="OTEL_EXPORTER_OTLP_PROTOCOL")
    otel_traces_protocol: str | None = Field(None, validation_alias="OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
    otel_metrics_protocol: str | None = Field(None, validation_alias="OTEL_EXPORTER_OTLP_METRICS_PROTOCOL")
    otel_logs_protocol: str | None = Field(None, validation_alias="OTEL_EXPORTER_OTLP_LOGS_PROTOCOL")
    otel_traces_exporter: str | None = Field(None, validation_alias="OTEL_TRACES_EXPORTER")
    otel_metrics_exporter: str | None = Field(None, validation_alias="OTEL_METRICS_EXPORTER")
    otel_logs_exporter: str | None = Field(None, validation_alias="OTEL_LOGS_EXPORTER")
    otel_sdk_disabled: bool = Field(default=False, validation_alias="OTEL_SDK_DISABLED")
    otel_service_name: str | None = Field(None, validation_alias="OTEL_SERVICE_NAME")
    otel_resource_attributes: str | None = Field(None, validation_alias="OTEL_RESOURCE_ATTRIBUTES")
    otel_capture_content: bool = Field(
        default=False, validation_alias="OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
    )
    telemetry_backends: Listed[Literal["langfuse", "openinference"]] = ()

    @field_validator("otel_traces_exporter", "otel_metrics_exporter", "otel_logs_exporter")
    @classmethod
    def _is_an_exporter(cls, value: str | None) -> str | None:
        if value not in {None, "otlp", "none"}:
            raise ValueError("must be otlp or none; send to a collector for anything else")
        return value

    @field_validator("otel_protocol", "otel_traces_protocol", "otel_metrics_protocol", "otel_logs_protocol")
    @classmethod
    def _is_http(cls, value: str | None) -> str | None:
        if value not in {None, "http/protobuf"}:
            message = "must be http/protobuf, which collectors receive on port 4318; grpc is not supported"
            raise ValueError(message)
        return value

    @field_validator("otel_headers", "otel_traces_headers", "otel_metrics_headers", "otel_logs_headers")
    @classmethod
    def _are_secret_pairs(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            cls._are_pairs(value.get_secret_value())
        return value

    @field_validator("otel_resource_attributes")
    @classmethod
    def _are_pairs(cls, value: str | None) -> str | None:
        if value is not None and not _PAIRS.fullmatch(value):
            raise ValueError("must be name=value, comma-separated; a comma in a value is written %2C")
        return value
