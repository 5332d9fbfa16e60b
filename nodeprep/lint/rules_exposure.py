"""Who can reach the server, and whether it asks for a key; pure."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.lint.ranges import is_unresolved
from nodeprep.lint.said import CRITICAL, WARNING, say
from nodeprep.lint.server import Server
from nodeprep.model.finding import Finding, Unknown
from nodeprep.model.launch import Form

_EVERY = ("", "0.0.0.0", "::", "*")  # noqa: S104
_PARTS = (Form.YAML, Form.JSON, Form.ENV_FILE)


def exposure(server: Server) -> Iterator[Finding | Unknown]:
    """Published on every address: critical without a key, a warning with one."""
    how = _open_to_all(server)
    if server.launch.form in _PARTS:
        return
    keyless = not _has_key(server)
    box = server.container
    for value in () if box is None or how is not None else box.options.get("publish", ()):
        if is_unresolved(value):
            yield Unknown(
                subject=f"--publish {value[:80]} ({server.place(server.launch.line)})",
                reason="the address is filled in when the command runs: who can reach it is open",
                hint="write the address: --publish 127.0.0.1:8000:8000",
            )
    if how is not None:
        yield say(
            server, "server-exposed", CRITICAL if keyless else WARNING, how,
            f"{how}: every network of the node reaches the server",
            cause="a port without an address is bound on every interface, and docker's rules "
            "come before the host's firewall",
            do="publish on one address: --publish 127.0.0.1:8000:8000, a proxy with TLS before it",
        )  # fmt: skip
    if keyless:
        yield say(
            server, "server-without-key", WARNING, "--api-key",
            "no API key: whoever reaches the port can use the model",
            cause="without VLLM_API_KEY or --api-key /v1 asks for nothing; /health and /metrics "
            "never do",
            do="give a file with VLLM_API_KEY=... (--env-file, EnvironmentFile=)",
            text="(not set)",
        )  # fmt: skip


def _has_key(server: Server) -> bool:
    return (
        "api-key" in server.options
        or bool(server.env.get("VLLM_API_KEY"))
        or any(one.name == "VLLM_API_KEY" for one in server.launch.env)
        or server.key_may_be_elsewhere
    )


def _open_to_all(server: Server) -> str | None:
    """What opens it, in the file's own words; None: nothing seen."""
    box = server.container
    if box is None or box.first("network") == "host":
        host = server.value("host")
        if host is None:
            host = "" if server.launch.form not in _PARTS else "127.0.0.1"
        if str(host) in _EVERY:
            return f"--host {host}" if host else "no --host, which means every address"
        return None
    if box.has("publish-all"):
        return "--publish-all"
    for value in box.options.get("publish", ()):
        if not is_unresolved(value) and _address(value) in _EVERY:
            return f"--publish {value}"
    return None


def _address(published: str) -> str:
    """The host's address of `ADDRESS:PORT:PORT`; empty when there is none."""
    if published.startswith("["):
        return published[1:].partition("]")[0]
    parts = published.partition("/")[0].rsplit(":", 2)
    return parts[0] if len(parts) == 3 else ""


RULES = (exposure,)
