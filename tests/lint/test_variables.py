"""VLLM_ variables: who reads them, what a wrong name may have meant, the port that is none."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodeprep.parse.launch import read_launches
from nodeprep.serving import flags
from tests.lint.base import of, of_launch

NEWEST = flags.newest()


@pytest.mark.parametrize(
    "version", ["0.6.6", "0.7.2", "0.8.5", "0.9.2", "0.10.2", "0.11.2", NEWEST]
)
@pytest.mark.parametrize("name", ["VLLM_PORT", "VLLM_HOST_IP", "VLLM_RPC_BASE_PATH"])
def test_what_every_release_reads(name: str, version: str) -> None:
    assert flags.env_known(name, version) is True
    text = f"{name}=/tmp/x vllm serve org/m\n"
    assert not of("vllm-flag-not-in-release", "x.sh", text, version)


def test_what_another_module_reads() -> None:
    text = "VLLM_SKIP_WARMUP=1 VLLM_DIST_IDENT=a vllm serve org/m\n"
    assert not of("vllm-flag-not-in-release", "x.sh", text, NEWEST)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("VLLM_ATENTION_BACKEND", "VLLM_ATTENTION_BACKEND"),
        ("VLLM_LOGING_LEVEL", "VLLM_LOGGING_LEVEL"),
        ("VLLM_LOGGINGLEVEL", "VLLM_LOGGING_LEVEL"), ("VLLM_TP_SIZE", None), ("VLLM_IMAGE", None),
        ("VLLM_MAX_NUM_SEQS", None), ("VLLM_DTYPE", None), ("VLLM_HOST", None),
        ("VLLM_ENFORCE_EAGER", None), ("VLLM_MODEL", None),
    ],
)  # fmt: skip
def test_what_a_name_may_have_meant(name: str, meant: str | None) -> None:
    near = flags.env_nearest(name)
    assert (near[0] if near else None) == meant
    [found] = of("vllm-flag-not-in-release", "x.sh", f"{name}=1 vllm serve org/m\n", NEWEST)
    assert ("did you mean" in found) is (meant is not None)


def test_a_variable_that_the_text_uses_itself_is_not_for_vllm() -> None:
    [launch] = read_launches("VLLM_TP_SIZE=2 vllm serve org/m\n", "x.sh").launches

    def ids(*uses: str) -> set[str]:
        return {one.id for one in of_launch(replace(launch, uses=uses)).findings}

    assert "vllm-flag-not-in-release" in ids()
    assert "vllm-flag-not-in-release" not in ids("VLLM_TP_SIZE")


def test_a_file_of_variables_may_be_for_somebody_else() -> None:
    found = of("vllm-flag-not-in-release", "x.env", "VLLM_MODEL=a\nVLLM_LOGING_LEVEL=b\n", NEWEST)
    assert [one.partition(":")[0] for one in found] == ["warning", "info"]


@pytest.mark.parametrize(
    ("line", "severity", "words"),
    [
        ("VLLM_PORT=9000 vllm serve org/m", "warning", "stays 8000"),
        ("VLLM_PORT=9000 vllm serve org/m --port 80", "warning", "stays 80"),
        ("VLLM_PORT=8000 vllm serve org/m", "info", "--port"),
    ],
)
def test_the_port_that_is_not_the_port(line: str, severity: str, words: str) -> None:
    [found] = of("vllm-setting-without-effect", "x.sh", line + "\n", "0.9.2")
    assert found.startswith(severity)
    assert words in found


def test_a_port_that_is_no_number() -> None:
    assert not of("vllm-setting-without-effect", "x.sh", "VLLM_PORT=tcp://a:1 vllm serve m\n")
