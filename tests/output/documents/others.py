"""The way between two GPUs, rendered files, an error."""

from __future__ import annotations

from nodeprep.model.pci import parse_bdf
from nodeprep.model.report import (
    ErrorReport,
    ExplainReport,
    Hop,
    MachineEntry,
    MachinesReport,
    PathLevels,
    RenderReport,
)
from nodeprep.model.serving import Knob, RenderedFile
from tests.output.documents.findings import REDIRECT
from tests.output.documents.head import head

EXPLAIN = ExplainReport(
    **head("explain"),
    pair=("GPU0", "GPU1"),
    hops=(
        Hop(bdf=parse_bdf("43:00.0"), what="endpoint", side="a", vendor_device="10de:26b9",
            name="NVIDIA L40S", acs="none", link="gen4 x16", numa_node=0),
        Hop(bdf=parse_bdf("42:00.0"), what="downstream port", side="a", vendor_device="1000:c010",
            acs="001d", redirects=("ReqRedir", "CmpltRedir"), link="gen4 x16", numa_node=0),
        Hop(bdf=parse_bdf("41:00.0"), what="upstream port", side="common",
            vendor_device="1000:c010", acs="001d", link="gen4 x16", numa_node=0),
        Hop(bdf=parse_bdf("42:01.0"), what="downstream port", side="b", vendor_device="1000:c010",
            acs=None, link="gen4 x16", numa_node=0),
        Hop(bdf=parse_bdf("44:00.0"), what="endpoint", side="b", vendor_device="10de:26b9",
            name="NVIDIA L40S", acs="none", link="gen4 x8/16", numa_node=0),
    ),
    level=PathLevels(tree="PIX", driver="NODE"),
    level_words="one PCIe switch joins them, at most one port away on each side",
    p2p={"read": "OK", "write": "CNS"},
    nccl_path="P2P through the switch, which redirection sends up to the root port",
    would_change=("nodeprep acs apply: the route, not the level",),
    would_not_change=("NCCL_P2P_LEVEL: it is a policy, not a capability",
                      "pci=noacs: no such option exists in the kernel"),
    iommu="passthrough (identity), GPU0 in group 30, GPU1 in group 31",
    findings=(REDIRECT,),
)  # fmt: skip

EXPLAIN_SOCKETS = ExplainReport(
    **head("explain"),
    pair=("GPU0", "GPU2"),
    hops=(
        Hop(bdf=parse_bdf("43:00.0"), what="endpoint", side="a", acs="none", link="gen4 x16",
            numa_node=0),
        Hop(bdf=None, what="host bridge 0000:40", side="a", numa_node=0),
        Hop(bdf=None, what="interconnect between NUMA nodes 0 and 1", side="common"),
        Hop(bdf=None, what="host bridge 0000:c0", side="b", numa_node=1),
        Hop(bdf=parse_bdf("c1:00.0"), what="endpoint", side="b", acs="none", link="gen4 x16",
            numa_node=1),
    ),
    level=PathLevels(tree="SYS", driver="?"),
    level_words="they belong to different NUMA nodes",
    p2p={"read": "unknown", "write": "unknown"},
    nccl_path="shared memory of the host",
    would_change=(),
    would_not_change=("ACS: no port of ours lies between them",),
    iommu="",
    findings=(),
)  # fmt: skip

EXPLAIN_NVLINK = ExplainReport(
    **head("explain"),
    pair=("GPU0", "GPU1"),
    hops=(
        Hop(bdf=parse_bdf("01:00.0"), what="endpoint", side="a", acs="none", link="gen4 x16",
            numa_node=0),
        Hop(bdf=parse_bdf("00:01.1"), what="root port", side="a", acs="001d", link="gen4 x16",
            redirects=("ReqRedir", "CmpltRedir"), numa_node=0),
        Hop(bdf=None, what="host bridge 0000:00", side="a", numa_node=0),
        Hop(bdf=None, what="host bridge 0000:20", side="b", numa_node=0),
        Hop(bdf=parse_bdf("20:01.1"), what="root port", side="b", acs="0011", link="gen4 x16",
            numa_node=0),
        Hop(bdf=parse_bdf("21:00.0"), what="endpoint", side="b", acs="none", link="gen4 x16",
            numa_node=0),
    ),
    level=PathLevels(tree="NODE", driver="NV12"),
    level_words="NVLink x12 joins them",
    p2p={"read": "OK", "write": "OK"},
    nccl_path="P2P over NVLink",
    would_change=(),
    would_not_change=("ACS settings: they change no level",),
    iommu="off",
    findings=(),
    machine="a100-nvlink",
)  # fmt: skip


KNOBS = (
    Knob(name="max-num-batched-tokens", value=8192, reason="bounds the activation peak of prefill",
         source="memory plan"),
    Knob(name="enable-prefix-caching", value=True, reason="shared prefixes are stored once",
         source="policy"),
    Knob(name="kv-cache-dtype", value="fp8", reason="half the bytes of a token in the KV cache",
         source="vLLM 0.10.2 on sm89"),
)  # fmt: skip
RENDER = RenderReport(
    **head("render"),
    files=(
        RenderedFile(path="/etc/nodeprep/rendered/vllm.yaml", changed=True),
        RenderedFile(path="/etc/nodeprep/rendered/vllm.service", changed=False),
    ),
    knobs=KNOBS,
    warnings=("no image digest is known: the tag can change under you",),
    simulated=False,
)
ERROR = ErrorReport(
    **head("error"),
    error="cannot read /sys/bus/pci/devices: permission denied",
    hint="run it as root, or give a snapshot with --snapshot FILE",
    status=1,
    name="error",
)

MACHINES = MachinesReport(
    **head("machines"),
    machines=(
        MachineEntry(
            name="l40s-acs",
            constructed=True,
            notes=(
                "four GPUs under one switch whose ports redirect",
                "ACS words as Linux sets them",
            ),
            summary="four GPUs under one switch whose ports redirect",
            gpus="4 x NVIDIA L40S",
            exit_status=0,
        ),
        MachineEntry(name="one-gpu", constructed=False, notes=("nothing to judge",)),
        MachineEntry(
            name="eight",
            constructed=False,
            notes=(),
            summary="two leaf switches",
            gpus="8 x NVIDIA RTX PRO 6000 Blackwell Server Edition",
            exit_status=3,
        ),
    ),
)
