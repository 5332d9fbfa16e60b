"""The configuration file: typed, bounded, with the nearest name for what it does not know."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeprep.errors import UsageError
from nodeprep.settings import Settings, load_settings, override, parse_settings


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[gate]\nmin_busbw_gbps = -5.0", "min_busbw_gbps"),
        ("[gate]\nmin_busbw_gbps = nan", "min_busbw_gbps"),
        ("[gate]\nmin_busbw_gbps = inf", "min_busbw_gbps"),
        ("[serving]\nport = 99999", "port"),
        ("[serving]\ngpu_memory_utilization = 1.4", "gpu_memory_utilization"),
        ("[serving]\ntensor_parallel = 0", "tensor_parallel"),
        ("[serving]\nmodel = 7", "model"),
        ("[acs]\nallow_in_guests = true", "allow_in_guests"),
        ("[[waivers]]\nid = 'x'", "reason"),
        ("not toml", "not TOML"),
    ],
)
def test_what_cannot_be_is_refused_by_name(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as told:
        parse_settings(text, "config.toml")
    assert told.value.hint
    assert "config.toml" in told.value.message


def test_an_unknown_key_gets_the_nearest_name() -> None:
    with pytest.raises(UsageError) as told:
        parse_settings("[acs]\nallow_in_guests = true", "config.toml")
    assert "allow_in_guest" in told.value.hint


def test_a_file_anybody_can_change_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("")
    path.chmod(0o666)
    with pytest.raises(UsageError, match="others"):
        load_settings(path)
    path.chmod(0o644)
    assert load_settings(path) == Settings()


def test_missing_and_foreign_files(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(UsageError, match="cannot read"):
            load_settings(path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot read"):
        load_settings(binary)


def test_options_override_only_what_is_given() -> None:
    changed = override(Settings(), "serving", model="m", port=None)
    assert changed.serving.model == "m"
    assert changed.serving.port == Settings().serving.port
