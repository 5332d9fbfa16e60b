"""Files of ours below /etc of a root folder: replaced in one step, and only when they differ."""

from __future__ import annotations

from pathlib import Path

from nodeprep.errors import StateError
from nodeprep.model.serving import RenderedFile
from nodeprep.state import write_atomic


def put(root: Path, place: str, text: str) -> RenderedFile:
    """One file by its place below the root. Raises StateError."""
    path = _below(root, place)
    try:
        if path.is_file() and not path.is_symlink() and path.read_text() == text:
            return RenderedFile(path=str(path), changed=False)
        path.parent.mkdir(parents=True, exist_ok=True)
    except (OSError, UnicodeDecodeError) as error:
        told = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise StateError(f"cannot look at {path}: {told}") from None
    write_atomic(path, text.encode())
    return RenderedFile(path=str(path), changed=True)


def remove(root: Path, place: str) -> RenderedFile:
    """Takes one file away. Raises StateError."""
    path = _below(root, place)
    try:
        path.unlink()
    except FileNotFoundError:
        return RenderedFile(path=str(path), changed=False)
    except OSError as error:
        raise StateError(f"cannot remove {path}: {error.strerror}") from None
    return RenderedFile(path=str(path), changed=True)


def _below(root: Path, place: str) -> Path:
    """The place, which no link on the way may lead out of the root: in an image a link such as
    /etc/systemd -> /etc/elsewhere is one of the image, not of this computer."""
    path = root / place
    try:
        inside = path.parent.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError) as error:
        raise StateError(f"cannot look at {path}: {error}") from None
    if not inside:
        raise StateError(
            f"{path} leads out of {root}", hint="replace the link on its way by a folder"
        )
    return path
