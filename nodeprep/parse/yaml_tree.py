"""YAML and JSON with the line of every key, and with the keys that were written twice."""

from __future__ import annotations

import json
from typing import Any

from nodeprep.errors import ParseError
from nodeprep.model.base import Record
from nodeprep.parse.text import shown

_MAX_BYTES = 1 << 20
_MOST_NODES = 20_000
_DEEPEST = 40


class Tree(Record, frozen=True):
    value: Any
    lines: dict[tuple[str, ...], int]
    """Path of keys -> line of the last of them."""
    twice: tuple[tuple[str, int], ...] = ()
    """Top-level keys that stand again further down, with the line of the one that is lost."""

    def line(self, *path: str) -> int | None:
        return self.lines.get(path)


def read_yaml(text: str) -> Tree:
    """The one document of a YAML text.  Raises ParseError; sizes and depth are bounded."""
    import yaml

    _check_size(text)
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Tree(value=None, lines={})
        lines, twice = _walk(node)
        return Tree(value=loader.construct_document(node), lines=lines, twice=twice)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, OverflowError) as error:
        said = str(getattr(error, "problem", None) or type(error).__name__)
        mark = getattr(error, "problem_mark", None)
        place = f" in line {mark.line + 1}" if mark is not None else ""
        raise ParseError(f"not YAML{place}: {shown(said, 120)}", hint="correct the file") from None
    finally:
        loader.dispose()


def _walk(root: Any) -> tuple[dict[tuple[str, ...], int], tuple[tuple[str, int], ...]]:
    """Lines of keys; the walk refuses cycles, too much and too deep."""
    import yaml

    lines: dict[tuple[str, ...], int] = {}
    twice: list[tuple[str, int]] = []
    work: list[tuple[Any, tuple[str, ...]]] = [(root, ())]
    seen = 0
    while work:
        node, path = work.pop()
        seen += 1
        if seen > _MOST_NODES or len(path) > _DEEPEST:
            raise ParseError("the document is too large or too deep", hint="keep what matters")
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                name = str(getattr(key, "value", ""))[:200]
                if not path and (name,) in lines:
                    twice.append((name, lines[(name,)]))
                below = (*path, name)
                lines[below] = key.start_mark.line + 1
                work.append((value, below))
        elif isinstance(node, yaml.SequenceNode):
            work += [(value, (*path, str(at))) for at, value in enumerate(node.value)]
    return lines, tuple(twice)


def read_json(text: str) -> Tree:
    """A JSON object.  Raises ParseError."""
    _check_size(text)
    twice: list[str] = []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in found]
        twice.extend(name for name in set(names) if names.count(name) > 1)
        return dict(found)

    try:
        value = json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"not JSON: {shown(str(error), 120)}", hint="correct the file") from None
    lines: dict[tuple[str, ...], int] = {}
    if isinstance(value, dict):
        for name in value:
            at = text.find(json.dumps(name, ensure_ascii=False))
            if at >= 0:
                lines[(name,)] = text.count("\n", 0, at) + 1
    return Tree(
        value=value, lines=lines, twice=tuple((name, lines.get((name,), 1)) for name in twice)
    )


def _check_size(text: str) -> None:
    if len(text) > _MAX_BYTES:
        raise ParseError(f"the text is over {_MAX_BYTES >> 20} MiB", hint="keep what matters")
