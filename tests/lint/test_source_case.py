"""The configuration of the source document, for its own release and for the newest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodeprep.lint.run import Linted
from nodeprep.serving import flags
from tests.conftest import CHECKOUT
from tests.lint.base import L40S, linted

FILES = Path(__file__).parent / "files"
DOCUMENT = CHECKOUT / "docs" / "lint.md"

# (finding, subject) -> rows of the list of what is true.
FOR_0_7_2 = {
    ("server-exposed", "--publish 8000:8000"),  # 15
    ("vllm-flag-not-in-release", "vllm bench"),  # 32
    ("vllm-options-conflict", "--kv-cache-dtype"),  # 33
    ("vllm-setting-without-effect", "PYTORCH_CUDA_ALLOC_CONF"),  # 9
    ("server-without-key", "--api-key"),  # 15
    ("container-image-unpinned", "vllm/vllm-openai:v0.7.2"),  # 15
    ("container-entrypoint", "vllm/vllm-openai:v0.7.2"),  # 35
    ("container-shm", "--shm-size"),  # 14
    ("vllm-forms-differ", "meta-llama/Llama-3.3-70B-Instruct-FP8-Dynamic"),  # 31
    ("vllm-setting-dropped", "disable_custom_all_reduce"),
    ("vllm-setting-dropped", "enforce_eager"),
    ("vllm-config-form", "manifest.json"),
    ("vllm-setting-without-effect", "--calculate-kv-scales"),  # 12
    ("vllm-options-conflict", "PYTORCH_CUDA_ALLOC_CONF"),  # 9
    ("vllm-setting-without-effect", "NCCL_P2P_DISABLE"),
    ("vllm-setting-without-effect", "NCCL_SHM_DISABLE"),
    ("vllm-setting-without-effect", "NCCL_P2P_LEVEL"),  # 5
    ("container-privileges", "--security-opt"),  # 15
}
ONLY_0_7_2 = {
    ("vllm-flag-not-in-release", "vllm bench"),
    ("vllm-options-conflict", "--kv-cache-dtype"),
    ("vllm-setting-without-effect", "--calculate-kv-scales"),
}
ONLY_NEWEST = {
    ("vllm-flag-not-in-release", "--calculate-kv-scales"),  # 13
    ("vllm-metric-renamed", "vllm:gpu_cache_usage_perc"),  # 17
    ("vllm-p2p-unverified", "VLLM_SKIP_P2P_CHECK"),  # 36
    ("vllm-setting-without-effect", "defaults"),  # 8, 13
}


def found(version: str) -> Linted:
    files = [(path.name, path.read_text()) for path in sorted(FILES.iterdir())]
    return linted(*files, version=version, node=L40S)


def subjects(result: Linted) -> set[tuple[str, str]]:
    return {(one.id, one.subject) for one in result.findings}


def test_for_its_own_release() -> None:
    assert subjects(found("0.7.2")) == FOR_0_7_2


def test_for_the_newest_release() -> None:
    assert subjects(found(flags.newest())) == (FOR_0_7_2 - ONLY_0_7_2) | ONLY_NEWEST


def test_the_manifest_and_the_command_differ_in_what_the_command_omits() -> None:
    [differ] = [one for one in found("0.7.2").findings if one.id == "vllm-forms-differ"]
    assert "the container command omits dtype, max-num-seqs" in differ.summary


def test_the_release_is_read_from_the_image() -> None:
    files = [(path.name, path.read_text()) for path in sorted(FILES.iterdir())]
    result = linted(*files)
    assert result.version == "0.7.2"
    assert "tag" in result.version_source


def test_the_document_itself_says_the_same() -> None:
    """The recorded text, where it lies beside the checkout: prose, JSON and command in one file."""
    sources = sorted((CHECKOUT.parent / "shared" / "sources").glob("004*.txt"))
    if not sources:
        pytest.skip("no shared folder beside the checkout")
    text = sources[0].read_text()
    for version, wanted in (("0.7.2", FOR_0_7_2), (flags.newest(), ONLY_NEWEST)):
        said = subjects(linted(("document.txt", text), version=version, node=L40S))
        assert {one for one in wanted if one[1] != "manifest.json"} <= said


@pytest.mark.parametrize("version", ["0.7.2", flags.newest()])
def test_the_page_shows_what_lint_prints(version: str) -> None:
    """docs/lint.md holds the output of both runs; UPDATE_GOLDEN=1 writes it anew."""
    written = "\n".join(
        f"    {one.severity.value} {one.id} {one.subject}\n        {one.summary}"
        for one in found(version).findings
    )
    begin, end = f"<!-- {version} -->\n", "<!-- end -->"
    page = DOCUMENT.read_text()
    head, _, rest = page.partition(begin)
    shown, _, tail = rest.partition(end)
    if os.environ.get("UPDATE_GOLDEN"):
        DOCUMENT.write_text(f"{head}{begin}\n{written}\n\n{end}{tail}")
    else:
        assert shown.strip("\n") == written
