"""A plan as text for those who would rather do it by hand: GRUB drop-in, setpci script; pure."""

from __future__ import annotations

from nodeprep.model.acs import AcsPlan, AcsWrite
from nodeprep.model.pci import acs_word


def grub_drop_in(plan: AcsPlan) -> str:
    """A file for /etc/default/grub.d: the kernel parameter, quoted for the shell that reads it.

    Semicolons part the devices (the kernel splits pci= at commas).  GRUB reads grub.cfg as a script
    and would end the command there, so the quotes have to be inside the value: grub-mkconfig
    copies it as it stands.
    """
    if not plan.kernel_parameter:
        return "# nodeprep: no GPU path redirects, so no kernel parameter is needed.\n"
    notes = "".join(_comment(note) + "\n" for note in plan.notes)
    return (
        "# nodeprep: keeps ACS redirection off GPU paths from boot on.\n"
        "# Put it in /etc/default/grub.d/nodeprep-acs.cfg, run update-grub, reboot, then run\n"
        "# nodeprep acs verify.\n"
        f"{notes}"
        f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX \\"{plan.kernel_parameter}\\""\n'
    )


def setpci_script(plan: AcsPlan) -> str:
    """A script to read and then run by hand: the writes with read-back, and `undo`.

    Exit status 0 of setpci proves nothing, so each word is read again and compared.
    """
    lines = [
        "#!/bin/sh",
        "# nodeprep: clears ACS redirection on GPU paths; `sh SCRIPT undo` brings the bits back.",
        "set -eu",
        *(["exit 4  # refused:"] if plan.refusals and plan.forced_reason is None else []),
        *(_comment(f"REFUSED: {refusal.reason}") for refusal in plan.refusals),
        'word() { setpci -s "$1" ECAP_ACS+6.w; }',
        "put() {  # port, bits, mask, expected word",
        '    setpci -s "$1" "ECAP_ACS+6.w=$2:$3"',
        '    found=$(word "$1")',
        '    [ "$found" = "$4" ] || { echo "$1 holds $found, not $4" >&2; exit 6; }',
        '    echo "$1 $found"',
        "}",
        'if [ "${1:-}" = undo ]; then',
        *(f"    {_put(write, write.before)}" for write in reversed(plan.writes)),
        "    exit 0",
        "fi",
        *(line for write in plan.writes for line in _step(write)),
    ]
    return "\n".join(lines) + "\n"


def _step(write: AcsWrite) -> tuple[str, ...]:
    told = f"{write.port} for {', '.join(write.pairs)}: {write.reason}"
    return _comment(told), _put(write, write.after)


def _comment(text: str) -> str:
    """One line of comment, whatever the text holds: names of drivers and kernels are untrusted."""
    return "# " + "".join(letter if letter.isprintable() else "?" for letter in text[:500])


def _put(write: AcsWrite, word: str) -> str:
    bits = int(word, 16) & write.mask
    return f"put {write.bdf} {acs_word(bits)} {acs_word(write.mask)} {word}"
