"""Numbers out of a config.json whose keys have many names and whose values may be hostile."""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.errors import ParseError

LARGEST = 10**8

Config = Mapping[str, object]


def number(config: Config, key: str, least: int, most: int) -> int | None:
    """The value of a key in that range; None where it is absent.  Raises ParseError."""
    value = config.get(key)
    if value is None:
        return None
    if isinstance(value, list):
        value = _mean(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ParseError(
            f"config.json: {key} is {str(value)[:60]!r}, not a whole number",
            hint="nodeprep plans models whose layers share one shape; check the file",
        )
    if not least <= value <= most:
        raise ParseError(
            f"config.json: {key} is {str(value)[:40]}, outside {least}..{most}",
            hint="check the file",
        )
    return value


def _mean(values: list[object]) -> object:
    """One figure for layers that differ: memory is linear in it.  Anything else stays a list."""
    numbers = [one for one in values if isinstance(one, int) and not isinstance(one, bool)]
    if not numbers or len(numbers) != len(values):
        return values
    return round(sum(numbers) / len(numbers))


def maybe(config: Config, *keys: str, least: int = 1, most: int = LARGEST) -> int | None:
    """The first of the keys that has a value."""
    for key in keys:
        value = number(config, key, least, most)
        if value is not None:
            return value
    return None


def need(config: Config, *keys: str, most: int = LARGEST) -> int:
    """The first of the keys that has a value; ParseError when none has."""
    value = maybe(config, *keys, most=most)
    if value is None:
        raise ParseError(
            f"config.json has no {keys[0]}",
            hint="give the config.json of a text generation model (not of an adapter or pipeline)",
        )
    return value
