"""NCCL's own log in the wording of its versions."""

from __future__ import annotations

import pytest

from nodeprep.errors import ParseError
from nodeprep.parse.nccl_log import parse_nccl_log

HEAD = "node-a:96540:96548 [0] NCCL INFO "


@pytest.mark.parametrize(
    ("line", "link", "transport"),
    [
        ("Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer", "0->1", "P2P/direct pointer"),
        ("Channel 00 : 0[1a000] -> 1[3d000] via P2P/direct pointer", "0->1", "P2P/direct pointer"),
        ("Channel 30/0 : 0[0] -> 1[6] via P2P/CUMEM", "0->1", "P2P/CUMEM"),
        ("Channel 00/0 : 2[2] -> 3[3] via P2P/CUMEM/read", "2->3", "P2P/CUMEM/read"),
        ("Channel 00/0 : 2[a1000] -> 3[c1000] via P2P/IPC/read comm 0x7f nRanks 02", "2->3",
         "P2P/IPC/read"),
        ("Channel 01/0 : 5[5] -> 4[4] via P2P/MNNVL", "5->4", "P2P/MNNVL"),
        ("Channel 00/0 : 0[0] -> 3[3] via P2P/indirect/1[1]", "0->3", "P2P/indirect"),
        ("Ring 00 : 0[0] -> 1[1] via direct shared memory", "0->1", "SHM/direct"),
        ("Channel 00 : 2[89000] -> 3[b2000] via direct shared memory", "2->3", "SHM/direct"),
        ("Channel 00 : 1[1] -> 0[0] via SHM/direct/direct", "1->0", "SHM/direct/direct"),
        ("Channel 00 : 1[1] -> 0[0] via SHM/CE/direct", "1->0", "SHM/CE/direct"),
        ("Channel 00 : 1[1] -> 0[0] via SHM/direct", "1->0", "SHM/direct"),
        ("Ring 01 : 1 -> 0 [receive] via NET/Socket/0", "1->0", "NET/Socket"),
        ("Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0(7)/GDRDMA(PCI)/Shared", "0->1",
         "NET/IB/GDRDMA"),
        ("Channel 00/0 : 0[0] -> 1[0] [send] via NET/AWS Libfabric/0", "0->1", "NET/AWS"),
    ],
)  # fmt: skip
def test_wordings(line: str, link: str, transport: str) -> None:
    log = parse_nccl_log(HEAD + line)
    assert log.by_pair == {link: transport}
    assert log.transports == (transport,)


@pytest.mark.parametrize(
    "line",
    [
        "Channel 00/02 : 0 1 2 3",
        "Channel 00/64 : 0",
        "Trees [0] -1/-1/-1->1->0 [1] -1/-1/-1->1->0",
        "Connected all rings, use ring PXN 0 GDR 1",
        "NET/IB : Using [0]mlx5_bond_0:1/RoCE [RO]; OOB bond0:192.0.2.10<0>",
    ],
)
def test_lines_that_name_no_transport(line: str) -> None:
    assert parse_nccl_log(HEAD + line).links == ()


def test_a_link_keeps_its_slowest_transport_first() -> None:
    log = parse_nccl_log(
        f"{HEAD}Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer\n"
        f"{HEAD}Channel 01 : 0[0] -> 1[1] via SHM/direct/direct\n"
        f"{HEAD}Channel 02/0 : 0[0] -> 1[1] via P2P/direct pointer\n"
    )
    (link,) = log.links
    assert link.transports == ("SHM/direct/direct", "P2P/direct pointer")
    assert link.channels == 3
    assert log.by_pair == {"0->1": "SHM/direct/direct"}


def test_facts_of_a_log() -> None:
    log = parse_nccl_log(
        f"""\
{HEAD}cudaDriverVersion 12080
{HEAD}NCCL version 2.26.5+cuda12.9
{HEAD}NCCL_P2P_LEVEL set by environment to LOC
{HEAD}NCCL_IB_DISABLE set by environment to 1.
{HEAD}Using network Socket
{HEAD}P2P is disabled between connected GPUs 1 and 0. You can repress this message with ...
{HEAD}P2P is disabled between connected GPUs 0 and 1. You can repress this message with ...
{HEAD}Could not enable P2P between dev 3(=b2000) and dev 2(=89000)
{HEAD}comm 0x639f4c724ac0 rank 0 nRanks 4 nNodes 1 localRanks 4 localRank 0 MNNVL 0
{HEAD}Check P2P Type isAllDirectP2p 0 directMode 1 isAllCudaP2p 1
{HEAD}NVLS multicast support is not available on dev 0 (NVLS_NCHANNELS 0)
{HEAD}AllReduce: 2097152 Bytes -> Algo RING proto SIMPLE channel{{Lo..Hi}}={{0..15}}
[2026-04-22 21:34:20] node-a:1:2 [0] misc/shmutils.cc:88 NCCL WARN Error: no space left
[2026-04-22 21:34:21] node-a:1:2 [0] misc/shmutils.cc:88 NCCL WARN Error: no space left
{HEAD}ncclCommInitAll comm 0x1 rank 0 nranks 4 cudaDev 0 - Init COMPLETE
"""
    )
    assert log.nccl_version == "2.26.5"
    assert log.cuda_driver_version == 12080
    assert log.environment == {"NCCL_P2P_LEVEL": "LOC", "NCCL_IB_DISABLE": "1"}
    assert log.networks == ("Socket",)
    assert log.p2p_disabled == ((0, 1), (2, 3))
    assert log.ranks == 4
    assert log.all_direct_p2p is False
    assert log.nvls is False
    assert log.algorithms == {"AllReduce 2097152": "RING SIMPLE"}
    assert log.warnings == ("Error: no space left",)
    assert log.complete


def test_unknown_stays_unknown() -> None:
    log = parse_nccl_log("nothing of NCCL here\n")
    assert (log.nccl_version, log.ranks, log.all_direct_p2p, log.nvls) == (None, None, None, None)
    assert not log.complete
    assert parse_nccl_log(f"{HEAD}Check P2P Type intraNodeP2pSupport 1").all_direct_p2p is True


def test_binary_input_is_refused() -> None:
    with pytest.raises(ParseError):
        parse_nccl_log("\0\1")
