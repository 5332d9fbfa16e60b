"""Writing: atomic, idempotent, private where it must be, and never into somebody else's hands."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from nodeprep.errors import NodeprepError, Refused
from nodeprep.serving.files import write

FILES = {"vllm.yaml": "a: 1\n", "vllm.env": "A=1\n", "docker-run.sh": "#!/bin/sh\n"}


def changed(files: dict[str, str], folder: Path) -> list[str]:
    return [Path(one.path).name for one in write(files, folder) if one.changed]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_written_once_and_then_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "rendered"
    assert changed(FILES, folder) == sorted(FILES)
    before = {name: (folder / name).stat().st_ino for name in FILES}
    assert changed(FILES, folder) == []
    assert {name: (folder / name).stat().st_ino for name in FILES} == before
    assert sorted(one.name for one in folder.iterdir()) == sorted(FILES)


def test_modes(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        write(FILES, tmp_path)
    finally:
        os.umask(old)
    assert mode(tmp_path / "vllm.env") == 0o600
    assert mode(tmp_path / "docker-run.sh") == 0o755
    assert mode(tmp_path / "vllm.yaml") == 0o644


def test_a_loosened_mode_is_mended(tmp_path: Path) -> None:
    write(FILES, tmp_path)
    (tmp_path / "vllm.env").chmod(0o644)
    assert changed(FILES, tmp_path) == ["vllm.env"]
    assert mode(tmp_path / "vllm.env") == 0o600
    assert not (tmp_path / "vllm.env.prev").exists()


def test_the_previous_file_is_kept(tmp_path: Path) -> None:
    write(FILES, tmp_path)
    assert changed(FILES | {"vllm.yaml": "a: 2\n"}, tmp_path) == ["vllm.yaml"]
    assert (tmp_path / "vllm.yaml").read_text() == "a: 2\n"
    assert (tmp_path / "vllm.yaml.prev").read_text() == "a: 1\n"
    write(FILES | {"vllm.env": "A=2\n"}, tmp_path)
    assert mode(tmp_path / "vllm.env.prev") == 0o600


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert all(one.changed for one in write(FILES, folder, dry_run=True))
    assert not folder.exists()
    write(FILES, folder)
    would = write(FILES | {"vllm.yaml": "a: 3\n"}, folder, dry_run=True)
    assert [one.changed for one in would] == [False, False, True]
    assert (folder / "vllm.yaml").read_text() == "a: 1\n"


def test_unsafe_folders_are_refused(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    link = tmp_path / "link"
    link.symlink_to(real)
    with pytest.raises(Refused, match="symbolic link"):
        write(FILES, link)
    real.chmod(0o777)
    with pytest.raises(Refused, match="anybody"):
        write(FILES, real)
    real.chmod(0o1777)
    with pytest.raises(Refused, match="anybody"):
        write(FILES, real)
    assert list(real.iterdir()) == []


def test_what_stands_in_the_way_is_refused(tmp_path: Path) -> None:
    aim = tmp_path / "elsewhere"
    aim.write_text("precious")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "vllm.yaml").symlink_to(aim)
    with pytest.raises(Refused, match=r"vllm\.yaml"):
        write(FILES, folder)
    assert aim.read_text() == "precious"
    (folder / "vllm.yaml").unlink()
    (folder / "vllm.yaml").mkdir()
    with pytest.raises(Refused):
        write(FILES, folder)
    (folder / "vllm.yaml").rmdir()
    os.mkfifo(folder / "vllm.yaml")
    with pytest.raises(Refused, match="plain file"):
        write(FILES, folder)


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "a\nb"])
def test_names_stay_in_the_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(Refused):
        write({name: "x"}, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_for_a_folder_is_an_error_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NodeprepError) as caught:
        write(FILES, tmp_path / "file")
    assert caught.value.hint


def test_a_failed_write_leaves_the_old_file_and_no_rest(tmp_path: Path) -> None:
    write(FILES, tmp_path)
    (tmp_path / "vllm.yaml.prev").mkdir()
    with pytest.raises(NodeprepError):
        write({"vllm.yaml": "a: 9\n"}, tmp_path)
    assert (tmp_path / "vllm.yaml").read_text() == "a: 1\n"
    rest = [one.name for one in tmp_path.iterdir() if one.name.endswith(".tmp")]
    assert rest == []
