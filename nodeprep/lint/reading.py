"""Somebody's file as the linter reads it: with the flag table to tell options from words; pure."""

from __future__ import annotations

from nodeprep.model.launch import LaunchText
from nodeprep.parse.launch import read_launches
from nodeprep.parse.vllm_argv import OptionTable
from nodeprep.serving import flags


def read(text: str, name: str) -> LaunchText:
    """Every server that a file describes.

    Raises ParseError for a text that is too long, or that cannot be read as what its name says.
    """
    return read_launches(text, name, OptionTable(takes=flags.spellings()))
