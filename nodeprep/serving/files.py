"""Writing rendered files: atomic, private where they must be, the previous one kept."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from nodeprep.errors import NodeprepError, Refused
from nodeprep.model.serving import RenderedFile
from nodeprep.state import replace_in

_LIMIT_BYTES = 1 << 20


def mode_of(name: str) -> int:
    """0600 for environments, 0755 for scripts, 0644 for the rest."""
    if name.endswith(".env"):
        return 0o600
    return 0o755 if name.endswith(".sh") else 0o644


def write(
    files: Mapping[str, str], out_dir: str | Path, *, dry_run: bool = False, durable: bool = False
) -> tuple[RenderedFile, ...]:
    """Put the files into a folder, made when missing; `changed` only where content or mode differ.

    Each file is written beside its place and renamed into it; the one before it stays as
    `NAME.prev`.  `dry_run` says what would change.  `durable` forces them to disk; rendered files
    need it not, since the boot run compares and writes them before anything reads them.  Raises
    Refused for a folder that is a symbolic link or that anybody can write to, and for a place taken
    by something that is not a plain file; NodeprepError when the disk refuses.
    """
    for name in files:
        if not name or name.startswith(".") or "/" in name or not name.isprintable():
            raise Refused(f"{name!r} is not a file name")
    folder = Path(out_dir)
    if dry_run and not os.path.lexists(folder):
        return tuple(RenderedFile(path=str(folder / name), changed=True) for name in sorted(files))
    try:
        with _opened(folder) as place:
            # Whatever stands in the way is told before the first file is written, not after.
            for name in files:
                _read(place, name)
            return tuple(
                RenderedFile(
                    path=str(folder / name),
                    changed=_put(
                        place, name, files[name].encode(), dry_run=dry_run, durable=durable
                    ),
                )
                for name in sorted(files)
            )
    except OSError as error:
        raise NodeprepError(
            f"cannot write to {folder}: {error.strerror or error}",
            hint="name another folder with -o",
        ) from None


def difference(files: Mapping[str, str], out_dir: str | Path) -> str:
    """What `write` would change, as a unified difference; empty when nothing."""
    from difflib import unified_diff

    folder = Path(out_dir)
    lines: list[str] = []
    for name in sorted(files):
        place = folder / name
        try:
            before = place.read_text(encoding="utf-8", errors="replace")[:_LIMIT_BYTES]
        except FileNotFoundError:
            before = ""
        except OSError as error:
            raise NodeprepError(f"cannot read {place}: {error.strerror}") from None
        lines += unified_diff(
            before.splitlines(), files[name].splitlines(), str(place), f"{place} (rendered)",
            lineterm="",
        )  # fmt: skip
    return "\n".join(lines)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """A descriptor of the folder: what was checked is what is written to."""
    if folder.is_symlink():
        raise Refused(f"{folder} is a symbolic link", hint="name the folder itself")
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(place).st_mode & stat.S_IWOTH:
            raise Refused(f"{folder} can be written by anybody", hint=f"run: chmod o-w {folder}")
        yield place
    finally:
        os.close(place)


def _put(place: int, name: str, content: bytes, *, dry_run: bool, durable: bool) -> bool:
    """Whether the file changed (or would)."""
    before = _read(place, name)
    if before == (content, mode_of(name)):
        return False
    if dry_run:
        return True
    if before is not None and before[0] != content:
        _keep_previous(place, name)
    replace_in(place, name, content, mode_of(name), fsync=durable)
    return True


def _read(place: int, name: str) -> tuple[bytes, int] | None:
    """Content and mode of what stands there; None for nothing."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(f"{name} stands in the way: {error.strerror}", hint="remove it") from None
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        raise Refused(f"{name} is not a plain file", hint="remove it")
    with os.fdopen(file, "rb") as opened:
        return opened.read(_LIMIT_BYTES), stat.S_IMODE(mode)


def _keep_previous(place: int, name: str) -> None:
    """A second name for the old file, so that the place itself is never empty."""
    previous, step = f"{name}.prev", f".{name}.{os.getpid()}.prev"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(step, dir_fd=place)
    os.link(name, step, src_dir_fd=place, dst_dir_fd=place, follow_symlinks=False)
    os.replace(step, previous, src_dir_fd=place, dst_dir_fd=place)
