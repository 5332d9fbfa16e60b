"""`nodeprep snapshot`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from nodeprep import __version__
from nodeprep.cli.options import PATH, session_options
from nodeprep.cli.session import Session
from nodeprep.errors import Exit, NodeprepError, UsageError
from nodeprep.facts.collect import collect
from nodeprep.facts.evidence import collect_evidence
from nodeprep.host.recording import RecordingHost
from nodeprep.host.redact import redact
from nodeprep.host.replay import MAX_SNAPSHOT_BYTES
from nodeprep.model.facts import NodeFacts
from nodeprep.model.report import SnapshotReport
from nodeprep.stamp import now_utc, stamp
from nodeprep.state import write_atomic


@click.command("snapshot")
@click.option(
    "-o", "--output", type=PATH, required=True, metavar="FILE",
    help="Where the snapshot goes.",
)  # fmt: skip
@click.option("--no-redact", is_flag=True, help="Keep serials, UUIDs, names, addresses and tokens.")
@session_options()
def command(session: Session, output: Path, no_redact: bool) -> int:
    """Record everything nodeprep can read into one portable file; a bug report needs nothing else.

    Redacted by default: serials, UUIDs, host and user names, MAC and IP addresses, tokens.  Replay
    it anywhere with --snapshot FILE.  Run as root: without it the ACS registers are missing.
    """
    host = RecordingHost(session.host)
    facts = collect(host, session.settings.accelerators)
    answers = collect_evidence(host)
    snapshot = host.snapshot(
        tool_version=__version__, collected_at=now_utc(), boot_id=facts.boot_id, notes=()
    )
    if not no_redact:
        snapshot = redact(snapshot)
    content = msgspec.json.format(msgspec.json.encode(snapshot), indent=1) + b"\n"
    if len(content) > MAX_SNAPSHOT_BYTES:
        raise NodeprepError(
            f"the snapshot would have {len(content) >> 20} MiB, over {MAX_SNAPSHOT_BYTES >> 20}",
            hint="look at what the node prints without end: lspci, dmesg",
        )
    _write(output, content)
    session.emit(
        SnapshotReport(
            **stamp("snapshot-report", facts.boot_id),
            path=str(output),
            size_bytes=len(content),
            redacted=not no_redact,
            answers=answers + len(facts.functions),
            missing=_missing(facts),
        )
    )
    return Exit.OK


def _write(output: Path, content: bytes) -> None:
    """A new file or a plain one: a device or a pipe of that name must not be replaced by a file."""
    try:
        taken = output.exists() and not (output.is_file() and not output.is_symlink())
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from None
    if taken:
        raise UsageError(f"{output} is there and is no plain file", hint="name another with -o")
    write_atomic(output.absolute(), content, mode=0o600)


def _missing(facts: NodeFacts) -> tuple[str, ...]:
    """What the snapshot lacks, for whoever is to work with it."""
    rootless = () if facts.is_root is not False else ("not root: the ACS registers are missing",)
    told = (f"{status.name}: {status.error}" for status in facts.statuses if not status.ok)
    return (*rootless, *told)
