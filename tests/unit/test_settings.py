"""Settings: defaults, the environment, and the way to a child process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from cropseek.settings import Settings, as_environment, base_environment


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the developer's own settings."""
    for name in base_environment():
        if name.startswith("CROPSEEK_") or name == "TRITONSERVER":
            monkeypatch.delenv(name)


def test_the_defaults_serve_a_developer() -> None:
    """On loopback, with the repository that lies in the checkout or the wheel."""
    settings = Settings()
    assert (settings.host, settings.port, settings.profile) == ("127.0.0.1", 50051, "cpu")
    assert settings.tritonserver is None
    assert (settings.model_repository / "models.toml").is_file()


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("CROPSEEK_DATA_DIR", "/srv/cropseek", "data_dir", Path("/srv/cropseek")),
        ("CROPSEEK_HOST", "0.0.0.0", "host", "0.0.0.0"),
        ("CROPSEEK_PORT", "0", "port", 0),
        ("CROPSEEK_PROFILE", "t4", "profile", "t4"),
        ("CROPSEEK_MODEL_REPOSITORY", "/models", "model_repository", Path("/models")),
        ("CROPSEEK_TRITONSERVER", "/a/tritonserver", "tritonserver", Path("/a/tritonserver")),
        ("TRITONSERVER", "/b/tritonserver", "tritonserver", Path("/b/tritonserver")),
        ("CROPSEEK_READY_TIMEOUT_S", "0.5", "ready_timeout_s", 0.5),
        ("CROPSEEK_MAX_IN_FLIGHT", "1", "max_in_flight", 1),
        ("CROPSEEK_MAX_IMAGE_BYTES", "1", "max_image_bytes", 1),
        ("CROPSEEK_MAX_IMAGE_PIXELS", "1", "max_image_pixels", 1),
        ("CROPSEEK_MAX_MESSAGE_BYTES", "1048576", "max_message_bytes", 2**20),
    ],
)
def test_the_environment_sets_a_field(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, field: str, value: object
) -> None:
    """Every one, by its name."""
    monkeypatch.setenv(variable, text)
    assert getattr(Settings(), field) == value


def test_every_field_has_a_row_above() -> None:
    """A new setting is tested too."""
    marks = test_the_environment_sets_a_field.pytestmark  # type: ignore[attr-defined]
    assert {row[2] for row in marks[0].args[1]} == set(Settings.model_fields)


def test_our_own_variable_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """TRITONSERVER may be somebody else's."""
    monkeypatch.setenv("TRITONSERVER", "/theirs")
    monkeypatch.setenv("CROPSEEK_TRITONSERVER", "/ours")
    assert Settings().tritonserver == Path("/ours")


def test_an_argument_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the command line's options do."""
    monkeypatch.setenv("CROPSEEK_PORT", "1")
    monkeypatch.setenv("CROPSEEK_TRITONSERVER", "/theirs")
    settings = Settings(port=2, tritonserver=Path("/mine"))
    assert (settings.port, settings.tritonserver) == (2, Path("/mine"))


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"port": -1}, "port"),
        ({"port": 65536}, "port"),
        ({"ready_timeout_s": 0}, "ready_timeout_s"),
        ({"max_in_flight": 0}, "max_in_flight"),
        ({"max_image_bytes": 0}, "max_image_bytes"),
        ({"max_image_pixels": 0}, "max_image_pixels"),
        ({"max_message_bytes": 2**20 - 1}, "max_message_bytes"),
        ({"no_such_setting": 1}, "no_such_setting"),
    ],
    ids=str,
)
def test_a_value_out_of_range_is_refused(values: dict[str, Any], field: str) -> None:
    """And a name that is none; the message says which."""
    with pytest.raises(ValidationError, match=field):
        Settings(**values)


def test_a_wrong_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not read as its default."""
    monkeypatch.setenv("CROPSEEK_PORT", "many")
    with pytest.raises(ValidationError, match="port"):
        Settings()


def test_settings_do_not_change() -> None:
    """Whoever has them can rely on them."""
    settings = Settings()
    with pytest.raises(ValidationError, match="frozen"):
        settings.port = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    "values",
    [
        {},
        {
            "data_dir": Path("some where"),
            "host": "::1",
            "port": 0,
            "profile": "t4",
            "model_repository": Path("/models"),
            "tritonserver": Path("/x/tritonserver"),
            "ready_timeout_s": 1.5,
            "max_in_flight": 3,
            "max_image_bytes": 5,
            "max_image_pixels": 7,
            "max_message_bytes": 2**21,
        },
    ],
    ids=["defaults", "every one set"],
)
def test_a_child_process_reads_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, values: dict[str, Any]
) -> None:
    """From its environment, wherever it runs: the data directory is absolute."""
    settings = Settings(**values)
    data_dir = settings.data_dir.resolve()
    for name, text in as_environment(settings).items():
        monkeypatch.setenv(name, text)
    monkeypatch.chdir(tmp_path)
    assert Settings() == settings.model_copy(update={"data_dir": data_dir})


def test_the_environment_is_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changing it for a child changes nothing here."""
    monkeypatch.setenv("CROPSEEK_PROFILE", "cpu")
    base_environment()["CROPSEEK_PROFILE"] = "t4"
    assert base_environment()["CROPSEEK_PROFILE"] == "cpu"
