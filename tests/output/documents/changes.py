"""ACS plans and what became of them."""

from __future__ import annotations

from typing import Any

from nodeprep.model.acs import AcsPlan, AcsWrite, AppliedWrite, PortCheck, PortChoice, Refusal
from nodeprep.model.pci import parse_bdf
from nodeprep.model.report import AcsReport
from tests.output.documents.head import head


def write(slot: int, **fields: Any) -> AcsWrite:
    return AcsWrite(
        **{
            "bdf": parse_bdf(f"42:{slot:02x}.0"),
            "before": "001d",
            "after": "0011",
            "pairs": tuple(
                f"GPU{min(slot, other)}-GPU{max(slot, other)}"
                for other in range(4)
                if other != slot
            ),
            "reason": "ReqRedir, CmpltRedir send peer traffic up to the root; all others stay",
            "port": "downstream port 1000:c010",
            "weakens_groups": (20 + slot, 30 + slot),
        }
        | fields
    )


WRITES = tuple(write(slot) for slot in range(4))
PARAMETER = (
    "pci=disable_acs_redir=0000:40:01.1/00.0/00.0;0000:40:01.1/00.0/01.0;"
    "0000:40:01.1/00.0/02.0;0000:40:01.1/00.0/03.0"
)
CHOICES = (
    *(PortChoice(bdf=one.bdf, included=True, reason="below the common bridge") for one in WRITES),
    PortChoice(bdf=parse_bdf("40:01.1"), included=False, reason="above the common bridge"),
)


def acs_report(**fields: Any) -> AcsReport:
    defaults: dict[str, Any] = {
        "actions": WRITES,
        "kernel_parameter": PARAMETER,
        "applied": (),
        "verified": None,
        "plan": AcsPlan(
            actions=WRITES,
            choices=CHOICES,
            kernel_parameter=PARAMETER,
            notes=("takes effect at the next boot; compare ACSCtl then",),
        ),
        "detail": "4 ports redirect traffic between GPUs",
        "simulated": False,
    }
    return AcsReport(**head("acs"), **(defaults | fields))


ACS_PLAN = acs_report()
ACS_APPLIED = acs_report(
    applied=tuple(AppliedWrite(write=one, read_back="0011", ok=True) for one in WRITES),
    verified=True,
    detail="4 ports freed of redirection",
    simulated=True,
)
ACS_ROLLED_BACK = acs_report(
    applied=(
        AppliedWrite(write=WRITES[0], read_back="001d", ok=True, rolled_back=True),
        AppliedWrite(write=WRITES[1], read_back="001d", ok=False, rolled_back=True),
    ),
    verified=False,
    detail="the second write had no effect",
)
ACS_REFUSED = acs_report(
    actions=(
        Refusal(
            subject="0000:45:00.0",
            reason="bound to vfio-pci: a guest owns it, and a change of ACS breaks its isolation",
            hint="stop the guest and unbind the card, then run nodeprep acs apply again",
        ),
        Refusal(subject="lockdown", reason="the kernel refuses writes to configuration space"),
    ),
    detail="unsafe to change",
    kernel_parameter="",
)
ACS_NOTHING = acs_report(
    actions=(), kernel_parameter="", plan=AcsPlan(), detail="no port of a GPU path redirects"
)
ACS_NOT_VERIFIED = acs_report(
    verified=False,
    detail="not as wanted: 0000:42:00.0",
    machine="l40s-acs",
    simulated=True,
    ports=(
        PortCheck(bdf=parse_bdf("42:00.0"), expected="0011", found="001d", rearmed=True),
        PortCheck(bdf=parse_bdf("42:01.0"), expected="0011", found="0011", rearmed=False),
        PortCheck(bdf=parse_bdf("42:02.0"), expected="0011", found=None, rearmed=False),
    ),
)
