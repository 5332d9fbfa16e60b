"""Lines of a text that lies in another one, told as lines of that other one."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from nodeprep.model.launch import Container, Launch, TextNote


def moved(launch: Launch, by: int) -> Launch:
    """The same server, `by` lines further down."""
    return replace(
        launch,
        line=_later(launch.line, by),
        options=tuple(replace(one, line=_later(one.line, by)) for one in launch.options),
        env=tuple(replace(one, line=_later(one.line, by)) for one in launch.env),
        container=None if launch.container is None else _container(launch.container, by),
        open_words=tuple((word, _later(line, by)) for word, line in launch.open_words),
        stray=tuple((word, _later(line, by)) for word, line in launch.stray),
    )


def moved_notes(notes: Iterable[TextNote], by: int) -> list[TextNote]:
    return [replace(one, line=_later(one.line or 1, by)) for one in notes]


def _container(box: Container, by: int) -> Container:
    return replace(
        box,
        line=_later(box.line, by),
        lines={
            name: tuple(_later(line, by) for line in lines) for name, lines in box.lines.items()
        },
    )


def _later(line: int | None, by: int) -> int | None:
    return None if line is None else line + by
