"""Which file another one names: --config, --env-file, EnvironmentFile=; pure."""

from __future__ import annotations

from collections.abc import Sequence

from nodeprep.model.launch import Form, Launch, LaunchText

CONFIGS = (Form.YAML, Form.JSON)
VARIABLES = (Form.ENV_FILE,)


def files_named(
    file: str | None,
    texts: Sequence[tuple[str, LaunchText]],
    forms: tuple[Form, ...],
    *,
    exact: bool = False,
) -> list[Launch]:
    """What was read from a file that another one names.

    Found by its last component, since it may be named as a container or another node sees it;
    `exact`: the folder must fit too, where it is known.
    """
    if file is None:
        return []
    return [
        launch
        for path, text in texts
        for launch in text.launches
        if launch.form in forms and _is(path, launch, file, exact=exact)
    ]


def names(launch: Launch, path: str, other: Launch) -> bool:
    """Whether a server names the file that something else was read from."""
    if other.form in CONFIGS:
        return launch.config_file is not None and _is(path, other, launch.config_file, exact=False)
    return other.form in VARIABLES and any(
        _is(path, other, file, exact=True) for file in launch.env_files
    )


def _is(path: str, launch: Launch, file: str, *, exact: bool) -> bool:
    """A here-document goes by the name it is written under, everything else by its own."""
    own = launch.written_as or path
    return _last(own) == _last(file) and (not exact or _same_folder(own, file))


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2].removeprefix("-")


def _same_folder(path: str, named: str) -> bool:
    folder, wanted = _last(path.rpartition("/")[0]), _last(named.rpartition("/")[0])
    return "$" in named or wanted in ("", ".", "..") or not folder or folder == wanted
