"""Files of ours below /etc of a root folder: replaced in one step, and only when they differ."""

from __future__ import annotations

from pathlib import Path

from nodeprep.errors import StateError
from nodeprep.model.serving import RenderedFile
from nodeprep.state import write_atomic


def put(root: Path, place: str, text: str) -> RenderedFile:
    """One file by its place below the root. Raises StateError."""
    path = root / place
    try:
        if path.is_file() and not path.is_symlink() and path.read_text() == text:
            return RenderedFile(path=str(path), changed=False)
        path.parent.mkdir(parents=True, exist_ok=True)
    except (OSError, UnicodeDecodeError) as error:
        raise StateError(f"cannot look at {path}: {error}") from None
    write_atomic(path, text.encode())
    return RenderedFile(path=str(path), changed=True)


def remove(root: Path, place: str) -> RenderedFile:
    """Takes one file away. Raises StateError."""
    path = root / place
    try:
        path.unlink()
    except FileNotFoundError:
        return RenderedFile(path=str(path), changed=False)
    except OSError as error:
        raise StateError(f"cannot remove {path}: {error.strerror}") from None
    return RenderedFile(path=str(path), changed=True)
