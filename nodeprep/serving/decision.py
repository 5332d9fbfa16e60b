"""What a rule may decide: render an option or a variable, leave one out, or warn."""

from __future__ import annotations

from enum import Enum

from nodeprep.model.base import Record
from nodeprep.model.serving import Knob, KnobValue


class Place(Enum):
    OPTION = "option"
    ENV = "env"
    LEFT_OUT = "left out"


class Decision(Record, frozen=True):
    place: Place
    knob: Knob


class Warn(Record, frozen=True):
    text: str


def option(name: str, value: KnobValue, reason: str, source: str) -> Decision:
    """An option of `vllm serve`."""
    return _decided(Place.OPTION, name, value, reason, source)


def variable(name: str, value: str, reason: str, source: str) -> Decision:
    """A variable of the engine's environment."""
    return _decided(Place.ENV, name, value, reason, source)


def left_out(name: str, value: KnobValue, reason: str, source: str) -> Decision:
    """Considered and not rendered: `value` is what would have stood there."""
    return _decided(Place.LEFT_OUT, name, value, reason, source)


def _decided(place: Place, name: str, value: KnobValue, reason: str, source: str) -> Decision:
    return Decision(place=place, knob=Knob(name=name, value=value, reason=reason, source=source))
