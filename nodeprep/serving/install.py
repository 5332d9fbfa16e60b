"""Rendered files into the system; nothing is enabled that did not pass on this boot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from nodeprep.errors import NeedsRoot, NodeprepError, Refused
from nodeprep.host.base import Host
from nodeprep.model.facts import Origin
from nodeprep.model.serving import RenderedFile, ServingConfig
from nodeprep.serving.files import write
from nodeprep.state import StateStore

INSTALLED_UNITS = {"docker": "vllm", "podman": "vllm-podman", "bare": "vllm-bare"}
"""Form -> the stem of its unit."""

_GATE_UNITS = ("nodeprep.service", "nodeprep-ready.target")
_DEADLINE_S = 60.0


def install(
    host: Host,
    store: StateStore,
    texts: Mapping[str, str],
    configs: Sequence[ServingConfig],
    *,
    out: Path,
    unit_dir: Path,
    form: str,
    boot_id: str | None,
) -> tuple[tuple[RenderedFile, ...], tuple[str, ...]]:
    """Writes the files and the units of one form, reloads systemd, and enables what passed.

    Answers the files and what there is to say.  Enabled are the gate's unit and the servers', and
    only with a ready stamp of this boot that no simulated measurement made.  Raises Refused for
    anything but a live node, NeedsRoot, NodeprepError when systemd does not do it.
    """
    if host.origin is not Origin.LIVE:
        raise Refused("only a live node can be installed to", hint="render with -o DIR")
    if not host.is_root:
        raise NeedsRoot("--install writes to /etc", hint="run it with sudo")
    wanted = [f"{INSTALLED_UNITS[form]}{one.suffix}.service" for one in configs]
    units = {name: texts[name] for name in (*_GATE_UNITS, *wanted)}
    files = write(texts, out, durable=True) + write(units, unit_dir, durable=True)
    _systemctl(host, "daemon-reload")
    why_not = _why_not(store, boot_id, configs)
    if why_not is not None:
        return files, (f"nothing is enabled: {why_not}",)
    _systemctl(host, "enable", "nodeprep.service", *wanted)
    return files, tuple(_next(wanted, configs))


def _why_not(
    store: StateStore, boot_id: str | None, configs: Sequence[ServingConfig]
) -> str | None:
    if boot_id is None or store.read_ready() != boot_id:
        return "no ready stamp of this boot; run `nodeprep bringup` first"
    if store.ready_is_simulated() or any(one.simulated for one in configs):
        return "what passed on this boot was simulated"
    return None


def _systemctl(host: Host, *words: str) -> None:
    result = host.run(("systemctl", *words), deadline_s=_DEADLINE_S)
    if result.status != 0:
        raise NodeprepError(
            f"systemctl {words[0]} ended with status {result.status}: "
            f"{result.stderr.strip()[:200]}",
            hint="see: systemctl status",
        )


def _next(units: Sequence[str], configs: Sequence[ServingConfig]) -> Iterator[str]:
    for unit, config in zip(units, configs, strict=True):
        yield (
            f"enabled {unit}; after `systemctl start {unit}` run check-gpus{config.suffix}.sh "
            "--reload: it tells whether the GPUs outlive a daemon-reload"
        )
