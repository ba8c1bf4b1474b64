"""The only reader of the environment: every setting, its default, and its `CROPSEEK_…` variable."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import AliasChoices, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

_PACKAGE = Path(__file__).resolve().parent


def _packaged_repository() -> Path:
    """Return the model repository: inside the wheel, or beside `service/` in a checkout."""
    inside = _PACKAGE / "model_repository"
    return inside if inside.is_dir() else _PACKAGE.parent.parent / "model_repository"


class Settings(BaseSettings):
    """How a server runs; each field can be set as `CROPSEEK_<NAME>`."""

    model_config = SettingsConfigDict(
        env_prefix="CROPSEEK_", extra="forbid", frozen=True, populate_by_name=True
    )

    data_dir: Path = Field(Path(".cropseek"), description="catalog and run-time files")
    host: str = Field("127.0.0.1", description="address the gRPC service listens on")
    port: int = Field(50051, ge=0, le=65535, description="its port; 0 takes a free one")
    profile: str = Field("cpu", description="which configs/<profile>.pbtxt Triton reads")
    model_repository: Path = Field(default_factory=_packaged_repository)
    tritonserver: Path | None = Field(
        None,
        validation_alias=AliasChoices("CROPSEEK_TRITONSERVER", "TRITONSERVER"),
        description="the tritonserver to run; else the one in /opt/tritonserver, or the wheel's",
    )
    ready_timeout_s: float = Field(60.0, gt=0, description="how long Triton may take to start")
    max_in_flight: int = Field(
        64, ge=1, description="pictures in work or waiting; one more is RESOURCE_EXHAUSTED"
    )
    max_image_bytes: int = Field(32 * 2**20, ge=1, description="largest encoded picture")
    max_image_pixels: int = Field(100_000_000, ge=1, description="largest decoded picture")
    max_message_bytes: int = Field(64 * 2**20, ge=2**20, description="largest gRPC message")


def base_environment() -> dict[str, str]:
    """Return a copy of this process's environment, for a child process to build on."""
    return dict(os.environ)


def as_environment(settings: Settings) -> dict[str, str]:
    """Return the variables that make a child process read the same settings."""
    values = settings.model_dump(exclude_none=True)
    values["data_dir"] = settings.data_dir.resolve()
    return {f"CROPSEEK_{name.upper()}": str(value) for name, value in values.items()}
