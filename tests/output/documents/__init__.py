"""Documents as the commands print them, one for every page."""

from __future__ import annotations

from nodeprep.model.base import Record
from tests.output.documents.audits import AUDIT_BAD, AUDIT_CLEAN, AUDIT_GUEST
from tests.output.documents.boots import NOT_READY, READY, SLOW
from tests.output.documents.changes import (
    ACS_APPLIED,
    ACS_NOT_VERIFIED,
    ACS_NOTHING,
    ACS_PLAN,
    ACS_REFUSED,
    ACS_ROLLED_BACK,
)
from tests.output.documents.gates import GATE_NO_BINARY, GATE_PASS, GATE_SLOW
from tests.output.documents.others import (
    ERROR,
    EXPLAIN,
    EXPLAIN_NVLINK,
    EXPLAIN_SOCKETS,
    MACHINES,
    RENDER,
)
from tests.output.documents.plans import PLAN_FITS, PLAN_SKEWED, PLAN_TOO_BIG

ALL: dict[str, Record] = {
    "audit-bad": AUDIT_BAD,
    "audit-clean": AUDIT_CLEAN,
    "audit-guest": AUDIT_GUEST,
    "acs-plan": ACS_PLAN,
    "acs-applied": ACS_APPLIED,
    "acs-rolled-back": ACS_ROLLED_BACK,
    "acs-refused": ACS_REFUSED,
    "acs-nothing": ACS_NOTHING,
    "acs-not-verified": ACS_NOT_VERIFIED,
    "gate-pass": GATE_PASS,
    "gate-slow": GATE_SLOW,
    "gate-no-binary": GATE_NO_BINARY,
    "plan-fits": PLAN_FITS,
    "plan-skewed": PLAN_SKEWED,
    "plan-too-big": PLAN_TOO_BIG,
    "explain-switch": EXPLAIN,
    "explain-sockets": EXPLAIN_SOCKETS,
    "explain-nvlink": EXPLAIN_NVLINK,
    "render": RENDER,
    "machines": MACHINES,
    "error": ERROR,
    "bringup-ready": READY,
    "bringup-not-ready": NOT_READY,
    "bringup-slow": SLOW,
}
