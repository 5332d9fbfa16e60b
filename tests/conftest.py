"""What every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

CHECKOUT = Path(__file__).resolve().parent.parent

# Examples take as long as the machine lets them; a slow machine is no failure.
settings.register_profile("nodeprep", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("nodeprep")


_TOGETHER = ("vm", "vllm")
"""Folders whose tests share something that takes minutes to make, and cores."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of such a folder runs in one worker, one after the other."""
    for item in items:
        for name in _TOGETHER:
            if CHECKOUT / "tests" / name in item.path.parents:
                item.add_marker(name)
                item.add_marker(pytest.mark.xdist_group(name))


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The root of the source tree."""
    return CHECKOUT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of recorded material beside the checkout; skips where it is not."""
    folder = Path(os.environ.get("NODEPREP_SHARED", CHECKOUT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"no folder {folder.name} beside the checkout: recorded material is not here")
    return folder
