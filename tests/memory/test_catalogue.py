from __future__ import annotations

import pytest

from nodeprep.errors import UsageError
from nodeprep.memory.catalogue import CatalogueEntry, entries, find_model, shape_of_entry
from nodeprep.memory.weights import parameters


@pytest.mark.parametrize("entry", entries(), ids=lambda one: one.name)
def test_the_shape_explains_the_published_parameters(entry: CatalogueEntry) -> None:
    counted = parameters(shape_of_entry(entry)) / 1e9
    assert entry.source
    if entry.params_billion is not None:
        assert counted == pytest.approx(entry.params_billion, rel=0.002)


@pytest.mark.parametrize(
    "name",
    ["meta-llama/Llama-3.3-70B-Instruct-FP8-Dynamic", "LLAMA-3.3-70B-instruct-fp8-dynamic",
     "llama-3.3-70b-fp8-dynamic", "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic"],
)  # fmt: skip
def test_names_compare_without_case_and_owner(name: str) -> None:
    found = find_model(name)
    assert found.name == "meta-llama/Llama-3.3-70B-Instruct-FP8-Dynamic"
    assert found.quantization == "compressed-tensors"
    assert found.quant is not None
    assert "lm_head" in found.quant.skips


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(UsageError) as raised:
        find_model("qwen3-33b")
    assert "Qwen/Qwen3-32B" in raised.value.hint


def test_names_are_unique() -> None:
    names = [name.lower() for one in entries() for name in (one.name, *one.aliases)]
    assert len(names) == len(set(names))
