"""Which release each server is judged by; one that nobody knows here is not taken for another."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeprep.errors import Exit, UsageError
from tests.lint.base import linted, said
from tests.lint.test_command import document

GONE = "--disable-log-requests"
RELEASES_DIFFER = f"vllm serve org/m --host 127.0.0.1 {GONE}\n"


def compose(*tags: str) -> str:
    services = "".join(
        f"  s{place}:\n    image: vllm/vllm-openai{tag}\n    privileged: true\n"
        f"    command: --model org/m {GONE} --nonsense 1\n    ports: ['8000:8000']\n"
        for place, tag in enumerate(tags)
    )
    return f"services:\n{services}"


@pytest.mark.parametrize(
    "tag", [":v0.4.2", ":v0.5.3.post1", ":v0.6.5", ":nightly-0123abc", ":gptoss", ":25.09-py3"]
)
def test_a_release_that_is_not_known_is_said(tag: str) -> None:
    result = linted(("compose.yaml", compose(tag)))
    ids = {one.id for one in result.findings}
    assert {"server-exposed", "server-without-key", "container-privileges"} <= ids
    assert not any(one.startswith("vllm-") for one in ids)
    [unknown] = [one for one in result.unknown if "what depends on the release" in one.reason]
    assert tag.lstrip(":v") in unknown.subject
    assert result.version in tag


def test_a_tag_that_moves_stands_for_the_newest() -> None:
    for tag in ("", ":latest"):
        ids = [id for id, _ in said("compose.yaml", compose(tag))]
        assert "vllm-flag-not-in-release" in ids


def test_an_old_release_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "x.sh").write_text(RELEASES_DIFFER.replace("127.0.0.1", "0.0.0.0"))
    status, report = document("lint", "x.sh", "--vllm-version", "0.5.3", cwd=tmp_path)
    assert status == Exit.FINDINGS
    assert report["vllm_version"] == "0.5.3"
    assert {one["id"] for one in report["findings"]} == {"server-exposed", "server-without-key"}
    assert any("older than the oldest" in one["reason"] for one in report["unknown"])


def test_every_form_of_an_old_release() -> None:
    texts = (
        ("c.yaml", "no-enable-prefix-caching: true\nmax-num-seqs: 0\nenforce-eager: false\n"),
        ("x.env", "VLLM_NO_SUCH=1\n"), ("x.sh", "vllm bench serve\nvllm serve m -O3 --no-x\n"),
        ("rules.yaml", "groups: []\n# vllm:gpu_cache_usage_perc\n"),
    )  # fmt: skip
    result = linted(*texts, version="0.2.7")
    assert {one.id for one in result.findings} <= {"server-exposed", "server-without-key"}
    with pytest.raises(UsageError):
        linted(*texts, version="seven")


def test_an_image_says_nothing_of_other_files() -> None:
    other = "docker run --gpus all vllm/vllm-openai:v0.6.6.post1 --model org/other\n"
    result = linted(("a.sh", RELEASES_DIFFER), ("b.sh", other))
    assert any("0.33.0 has no --disable-log-requests" in one.summary for one in result.findings)


def test_files_that_name_each_other_share_a_release() -> None:
    config = f"max-num-seqs: 4\n{GONE.lstrip('-')}: true\n"
    start = (
        "docker run --gpus all --env-file key.env vllm/vllm-openai:v0.8.5 --model org/m "
        "--config /etc/vllm.yaml\n"
    )
    result = linted(
        ("vllm.yaml", config), ("start.sh", start), ("key.env", "VLLM_ATTENTION_BACKEND=x\n")
    )
    assert not [one for one in result.findings if "0.33.0" in one.summary]
    alone = linted(("vllm.yaml", config), ("start.sh", start.partition(" --config")[0]))
    assert [one for one in alone.findings if "0.33.0 has no" in one.summary]


def test_each_service_has_its_own() -> None:
    result = linted(("compose.yaml", compose(":v0.8.5", ":v0.31.0", ":latest")))
    gone = [one.summary for one in result.findings if one.id == "vllm-flag-not-in-release"]
    assert sorted(one.partition(" has")[0] for one in gone) == ["vLLM 0.31.0", "vLLM 0.33.0"]
