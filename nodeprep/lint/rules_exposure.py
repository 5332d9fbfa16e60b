"""Who can reach the server, and whether it asks for a key; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nodeprep.lint.image import is_official
from nodeprep.lint.naming import names
from nodeprep.lint.ranges import is_unresolved
from nodeprep.lint.rules_secrets import referred
from nodeprep.lint.said import CRITICAL, WARNING, say
from nodeprep.lint.secrets import first_word, option_is_secret
from nodeprep.lint.server import Server
from nodeprep.model.base import Record
from nodeprep.model.finding import Finding, Unknown
from nodeprep.model.launch import Container, Form

_EVERY = ("", "0.0.0.0", "::", "*")  # noqa: S104
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PARTS = (Form.YAML, Form.JSON, Form.ENV_FILE)
_DEFAULT_PORT = 8000


class Published(Record, frozen=True):
    """One value of --publish."""

    text: str
    address: str | None
    """Of the host; empty: every address; None: filled in later."""
    low: int | None
    """The container's ports, both ends included; None: filled in later."""
    high: int | None

    def leads_to(self, port: int | None) -> bool:
        """Whether a server on that port of the container is reached; unknown counts as yes."""
        return (
            self.low is None or self.high is None or port is None or self.low <= port <= self.high
        )


def exposure(server: Server) -> Iterator[Finding | Unknown]:
    """Published on every address: critical without a key, a warning with one."""
    if server.launch.form in _PARTS:
        return
    box, keyless = server.container, not _has_key(server)
    inside = box is not None and box.first("network") != "host"
    if box is not None and not inside:
        yield from _published_in_vain(server, box)
    if box is not None and inside:
        unserved = _unserved(server, box)
        how = None if unserved is not None else _published_to_all(server, box)
        yield from (unserved,) if unserved is not None else _filled_in_later(server, box, how)
    else:
        how = _listens_to_all(server)
    if how is not None:
        yield say(
            server, "server-exposed", CRITICAL if keyless else WARNING, how,
            f"{how}: every network of the node reaches the server",
            cause="a port without an address is bound on every interface, and docker's rules "
            "come before the host's firewall"
            if inside
            else "without --host the server listens on every address",
            do=_instead(server, inside=inside),
        )  # fmt: skip
    if keyless:
        yield _keyless(server)


def _instead(server: Server, *, inside: bool) -> str:
    if not inside:
        return "listen on one address: --host 127.0.0.1, a proxy with TLS before it"
    port = server.number("port") or _DEFAULT_PORT
    place = f"127.0.0.1:{port}:{port}"
    how = f"ports: ['{place}']" if server.launch.form is Form.COMPOSE else f"--publish {place}"
    return f"publish on one address: {how}, a proxy with TLS before it"


def _keyless(server: Server) -> Finding:
    name = _never_set(server)
    what = f"--api-key is empty: nothing here sets {name}" if name else "no API key"
    return say(
        server, "server-without-key", WARNING, "--api-key",
        f"{what}: whoever reaches the port can use the model",
        cause="without VLLM_API_KEY or --api-key /v1 asks for nothing; /health and /metrics "
        "never do",
        do="give a file with VLLM_API_KEY=... (--env-file, EnvironmentFile=)",
        text="(not set)",
    )  # fmt: skip


def _has_key(server: Server) -> bool:
    """Whether a key is asked for; a variable that somebody else may set counts as one."""
    in_word = any(
        first_word(one.name) != one.name and option_is_secret(one.name)
        for one in server.launch.options
    )
    option = server.options.get("api-key")
    given = option is not None and option.value not in ("", False) and _never_set(server) is None
    return (
        given
        or in_word
        or bool(server.env.get("VLLM_API_KEY"))
        or any(one.name == "VLLM_API_KEY" and one.value is None for one in server.launch.env)
        or server.key_may_be_elsewhere
    )


def _never_set(server: Server) -> str | None:
    """The variable of --api-key that a unit, which inherits none, does not set."""
    name = referred(server.value("api-key"))
    if name is None or server.launch.form is not Form.UNIT or server.key_may_be_elsewhere:
        return None
    return (
        None if any(one.name == name for one in server.launch.env) or server.env.get(name) else name
    )


def _listens_to_all(server: Server) -> str | None:
    """What opens a server without a container, or with the host's network."""
    host = server.value("host")
    if "uds" in server.options or (host is not None and str(host) not in _EVERY):
        return None
    return f"--host {host}" if host else "no --host, which means every address"


def _published_to_all(server: Server, box: Container) -> str | None:
    """What opens it, in the file's own words; None: nothing seen."""
    if box.has("publish-all"):
        return "--publish-all"
    for one in _published(box):
        if one.address in _EVERY and one.leads_to(_port(server)):
            return f"--publish {one.text}"
    return None


def _filled_in_later(server: Server, box: Container, how: str | None) -> Iterator[Unknown]:
    for one in _published(box) if how is None else ():
        if one.address is None:
            place = server.place(box.line_of("publish", one.text))
            yield Unknown(
                subject=f"--publish {one.text[:80]} ({place})",
                reason="the address is filled in when the command runs: who can reach it is open",
                hint="write the address: --publish 127.0.0.1:8000:8000",
            )


def _unserved(server: Server, box: Container) -> Finding | None:
    """Ports are published, and behind none of them the server listens."""
    published, port = _published(box), _port(server)
    if not published or box.open_words:
        return None
    said = f"--publish {published[0].text}"
    host = server.value("host")
    if host is not None and str(host) in _LOOPBACK:
        what = f"inside the container the server listens on {host} only"
        why, do = "a published port leads to the container's own address", "leave --host out"
    elif not any(one.leads_to(port) for one in published):
        own = "by default" if "port" not in server.options else "by --port"
        what = f"the server listens on {port} {own}"
        why = "the last number of --publish is the port inside the container"
        do = f"publish {port}: --publish 127.0.0.1:{port}:{port}, or set --port {published[0].low}"
    else:
        return None
    return say(
        server, "container-port-unserved", CRITICAL, said,
        f"{said} leads to nothing: {what}", cause=why, do=do,
    )  # fmt: skip


def _published_in_vain(server: Server, box: Container) -> Iterator[Finding]:
    values = box.options.get("publish", ())
    if values:
        yield say(
            server, "vllm-setting-without-effect", WARNING, "--publish",
            f"--publish {', '.join(values)[:120]} does nothing beside the network of the host",
            cause="with --network host the server listens on the node's own addresses; published "
            "ports are dropped",
            do="remove one of the two: the ports, or --network host", line=box.line_of("publish"),
        )  # fmt: skip


def _published(box: Container) -> tuple[Published, ...]:
    return tuple(
        _read(value) for value in box.options.get("publish", ()) if not value.endswith("/udp")
    )


def _read(value: str) -> Published:
    """`[ADDRESS:][PORT:]PORT[-PORT][/tcp]`; a variable in front may hold an address too."""
    plain = value.partition("/")[0]
    address: str | None = ""
    rest = plain
    parts = plain.rsplit(":", 2)
    if plain.startswith("["):
        address, _, rest = plain[1:].partition("]")
    elif len(parts) == 3:
        address = parts[0]
    elif is_unresolved(parts[0]):
        address = None
    if address is not None and is_unresolved(address):
        address = None
    low, _, high = rest.rpartition(":")[2].partition("-")
    known = low.isdecimal() and len(low) < 6 and (not high or (high.isdecimal() and len(high) < 6))
    return Published(
        text=value,
        address=address,
        low=int(low) if known else None,
        high=int(high or low) if known else None,
    )


def _port(server: Server) -> int | None:
    """Where the server listens; None: not known, or on no port at all."""
    box = server.container
    named = "port" in server.options
    if server.unresolved("port") or "uds" in server.options or not server.complete:
        return None
    own = server.launch.entry != "image" or (box is not None and is_official(box.image))
    if named or (own and not _may_have_more(server)):
        return server.number("port", _DEFAULT_PORT)
    return None


def _may_have_more(server: Server) -> bool:
    """Whether a variable in the command may hold options, --port among them."""
    return bool(server.launch.open_words) or any(
        is_unresolved(one.name) for one in server.launch.options
    )


RULES = (exposure,)


def files(servers: Sequence[Server]) -> Iterator[Finding]:
    """A configuration file that no text here starts: the address it opens is told at the file."""
    for server in servers:
        host = server.value("host")
        named = any(names(one.launch, server.path, server.launch) for one in servers)
        alone = server.launch.form is Form.YAML and not named
        if not alone or host is None or str(host) not in _EVERY:
            continue
        key = (
            "the file sets a key"
            if _has_key(server)
            else "no key is set in it: without VLLM_API_KEY where it is started nobody is asked "
            "for one"
        )
        yield say(
            server, "server-exposed", WARNING, f"host: {host}",
            f"host: {host}: every network of the node reaches the server; {key}",
            cause="this address stands for every interface",
            do="listen on one address: host: 127.0.0.1, a proxy with TLS before it",
            line=server.line("host"),
        )  # fmt: skip
