"""Redaction: nothing private stays, equal values stay equal, what parsers read stays readable."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nodeprep.host.machines import machine_file
from nodeprep.host.redact import Redactor, redact
from nodeprep.host.replay import load_snapshot
from nodeprep.model.snapshot import RecordedCommand, RecordedFile


@pytest.mark.parametrize(
    "private",
    [
        "GPU-1b4e28ba-2fa1-11d2-883f-0016d3cca427",
        "3c:fd:fe:12:34:56",
        "3c-fd-fe-12-34-56",
        "10.17.4.200",
        "fe80::3efd:feff:fe12:3456",
        "2001:0db9:0000:0000:0000:ff00:0042:8329",
        "/home/anna/models",
        "anna.meier@corp.example.com",
        "hf_abcdefghijklmnopqrstuv",
        "token=supersecret123",
        "api_key=abc123",
        "Authorization: Bearer abc.def-ghi",
        "Device Serial Number 00-02-c9-03-00-1a-2b-3c",
        "Serial Number                         : 1320623001234",
        "[SN] Serial number: MT2040X01234",
    ],
)
def test_private_values_are_replaced(private: str) -> None:
    hidden = Redactor().text(f"before {private} after")
    assert private not in hidden
    assert hidden.startswith("before ")


@pytest.mark.parametrize(
    "public",
    [
        "0000:43:00.0 3D controller [0302]: NVIDIA Corporation AD102GL [L40S] [10de:26b9]",
        "00000000:43:00.0, NVIDIA L40S, 46068 MiB, 8.9",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build",
        "6.8.0-51-generic iommu=pt pci=disable_acs_redir=0000:40:01.1/00.0;10001:00:01.0",
        "ACSCtl:	SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl-",
        "127.0.0.1 0.0.0.0 ::1 std::vector a::b",
        "0-31,64-95 12:34:56 2026-01-01T00:00:00Z",
        "# NCCL version 2.27.7+cuda12.8 rank 0",
    ],
)
def test_technical_text_stays_as_it_is(public: str) -> None:
    assert Redactor().text(public) == public


def test_equal_values_get_equal_stand_ins() -> None:
    hidden = Redactor(["node17"]).text("10.1.2.3 10.1.2.4 10.1.2.3 on node17, Node17 but node171")
    first, second, third = re.findall(r"192\.0\.2\.\d+", hidden)
    assert first == third != second
    assert hidden.endswith("on host1, host1 but node171")


def test_a_redacted_machine_still_replays() -> None:
    snapshot = load_snapshot(machine_file("l40s-acs"))
    secret = "b7c8d9e0-1111-4222-8333-444455556666"
    files = snapshot.files | {
        "/proc/sys/kernel/hostname": RecordedFile(text="rack7-gpu3.corp.example\n"),
        "/proc/cmdline": RecordedFile(text=f"root=UUID={secret} ro ip=10.3.2.1 iommu=pt"),
    }
    commands = (
        *snapshot.commands,
        RecordedCommand(argv=("dmesg",), stdout="rack7-gpu3 kernel: mlx5 3c:fd:fe:12:34:56"),
    )
    hidden = redact(replace(snapshot, files=files, commands=commands, boot_id=secret))
    text = repr(hidden)
    for private in (secret, "rack7", "10.3.2.1", "3c:fd:fe"):
        assert private not in text
    assert hidden.redacted
    assert "iommu=pt" in (hidden.files["/proc/cmdline"].text or "")
    assert f"UUID={hidden.boot_id} " in (hidden.files["/proc/cmdline"].text or "")
    assert set(hidden.files) == set(files)


@given(st.text(max_size=300))
def test_redaction_is_stable(text: str) -> None:
    """What is hidden once stays as it is when the text is redacted again."""
    once = Redactor().text(text)
    assert Redactor().text(once) == once


@given(st.text(alphabet="0123456789abcdef:.-", max_size=2000))
def test_hostile_text_takes_no_time(text: str) -> None:
    Redactor().text(text)
