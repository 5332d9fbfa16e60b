"""YAML and JSON with the line of every key, and with the keys that were written twice."""

from __future__ import annotations

import json
import re
from typing import Any

from nodeprep.errors import ParseError
from nodeprep.model.base import Record
from nodeprep.parse.text import shown

_MAX_BYTES = 1 << 20
_MOST_NODES = 20_000
_MOST_CHARACTERS = 4 << 20
"""Of all scalars, each as often as an alias names it."""
_DEEPEST = 40
_JSON_KEY = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:')


class Tree(Record, frozen=True):
    value: Any
    lines: dict[tuple[str, ...], int]
    """Path of keys, and of places in lists -> line of the last of them."""
    twice: tuple[tuple[str, int, Any], ...] = ()
    """Top-level keys that stand again further down: name, line and value of the one lost."""

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
        value = loader.construct_document(node)
        lost = tuple(
            (name, line, loader.construct_object(one, deep=True)) for name, line, one in twice
        )
        return Tree(value=value, lines=lines, twice=lost)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, OverflowError) as error:
        said = str(getattr(error, "problem", None) or type(error).__name__)
        mark = getattr(error, "problem_mark", None)
        place = f" in line {mark.line + 1}" if mark is not None else ""
        raise ParseError(f"not YAML{place}: {shown(said, 120)}", hint="correct the file") from None
    finally:
        loader.dispose()


def _walk(root: Any) -> tuple[dict[tuple[str, ...], int], tuple[tuple[str, int, Any], ...]]:
    """Lines of keys, and the keys lost; the walk refuses cycles, too much and too deep."""
    import yaml

    lines: dict[tuple[str, ...], int] = {}
    twice: list[tuple[str, int, Any]] = []
    first: dict[str, Any] = {}
    work: list[tuple[Any, tuple[str, ...]]] = [(root, ())]
    seen = characters = 0
    while work:
        node, path = work.pop()
        seen += 1
        characters += len(node.value) if isinstance(node, yaml.ScalarNode) else 0
        too_much = seen > _MOST_NODES or characters > _MOST_CHARACTERS
        if too_much or len(path) > _DEEPEST:
            raise ParseError("the document is too large or too deep", hint="keep what matters")
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                name = str(getattr(key, "value", ""))[:200]
                if not path:
                    if name in first:
                        twice.append((name, lines[(name,)], first[name]))
                    first[name] = value
                below = (*path, name)
                lines[below] = key.start_mark.line + 1
                work.append((value, below))
        elif isinstance(node, yaml.SequenceNode):
            for at, value in enumerate(node.value):
                below = (*path, str(at))
                lines[below] = value.start_mark.line + 1
                work.append((value, below))
    return lines, tuple(twice)


def read_json(text: str) -> Tree:
    """A JSON object.  Raises ParseError."""
    _check_size(text)
    lost: list[tuple[str, Any]] = []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(found)
        lost.clear()  # the outermost object is read last, and only its keys are told
        if len(made) < len(found):
            last = {name: at for at, (name, _) in enumerate(found)}
            lost.extend(one for at, one in enumerate(found) if last[one[0]] != at)
        return made

    try:
        value = json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"not JSON: {shown(str(error), 120)}", hint="correct the file") from None
    if not isinstance(value, dict):
        return Tree(value=value, lines={})
    places = _json_lines(text)
    twice: list[tuple[str, int, Any]] = []
    for name, content in lost:
        known = places.get(name, [1])
        twice.append((name, known.pop(0) if len(known) > 1 else known[0], content))
    lines: dict[tuple[str, ...], int] = {
        (name,): places[name][0] for name in value if name in places
    }
    return Tree(value=value, lines=lines, twice=tuple(twice))


def _json_lines(text: str) -> dict[str, list[int]]:
    """The lines where each name stands as a key, at any depth, in one pass."""
    found: dict[str, list[int]] = {}
    line, before = 1, 0
    for match in _JSON_KEY.finditer(text):
        line += text.count("\n", before, match.start())
        before = match.start()
        try:
            name = str(json.loads(f'"{match[1]}"'))
        except ValueError:
            continue
        found.setdefault(name, []).append(line)
    return found


def _check_size(text: str) -> None:
    if len(text) > _MAX_BYTES:
        raise ParseError(f"the text is over {_MAX_BYTES >> 20} MiB", hint="keep what matters")
