"""One running guest: boot it, run programs in it, reboot it."""

from __future__ import annotations

import base64
import json
import os
import shlex
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.vm.image import PART

BOOT_DEADLINE_S = 240.0
_COMMAND_DEADLINE_S = 120.0
_BOOTS_TRIED = 4


@dataclass(frozen=True)
class Ran:
    """What a program in the guest did."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str

    def document(self) -> Any:
        """The JSON document it printed."""
        assert self.stdout, self
        return json.loads(self.stdout)


class GuestLost(Exception):
    """The guest does not answer: its console tells more."""


class Guest:
    """QEMU with the fabric, a disk of its own (thrown away at the end) and one kernel."""

    def __init__(self, work: Path, image: Path, kernel: Path, fabric: list[str]) -> None:
        self._work = work
        self._console = work / "console.log"
        own = work / "disk.img"
        subprocess.run(["cp", "--reflink=auto", "--sparse=always", image, own], check=True)
        self._argv = _qemu(work, own, kernel, fabric)
        self._append = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._received = b""
        self.boot_id = ""
        self.boots = 0

    def start(self, append: str = "") -> None:
        """Boots; `append` is added to the kernel command line. Returns when programs can run.

        A kernel that panics before it could run a program is booted again: QEMU before 8.1,
        emulating two processors, can run an instruction that the other one is just patching
        (ClangBuiltLinux/boot-utils issue 111; mended by QEMU commit deba78709ae8).
        """
        self._append = append
        for left in reversed(range(_BOOTS_TRIED)):
            self._spawn()
            try:
                self._wait_ready()
            except GuestLost:
                if left == 0 or "Kernel panic" not in self.console():
                    raise
                print(f"the guest is booted again after\n{self.console()}", file=sys.stderr)
                self._hang_up()
            else:
                return

    def _spawn(self) -> None:
        argv = [word.replace("@APPEND@", self._append) for word in self._argv]
        (self._work / "command").write_text(shlex.join(argv) + "\n")
        self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        self._link = _connect(self._work / "agent", time.monotonic() + 20)

    def _hang_up(self) -> None:
        """After QEMU's end: nothing of its link is left."""
        assert self._process is not None
        assert self._link is not None
        self._process.kill()
        self._process.wait(timeout=30)
        self._link.close()
        self._received = b""

    def stop(self) -> None:
        """Ends QEMU, and throws the disk away."""
        if self._link is not None:
            self._link.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=30)
        (self._work / "disk.img").unlink(missing_ok=True)

    def run(self, *argv: str, deadline_s: float = _COMMAND_DEADLINE_S, stdin: str = "") -> Ran:
        """One program in the guest, without a shell."""
        asked = {
            "argv": argv,
            "timeout": deadline_s,
            "input": base64.b64encode(stdin.encode()).decode(),
        }
        self._send(json.dumps(asked))
        said = self._line(time.monotonic() + deadline_s + 60)
        output, errors = (base64.b64decode(said[key]).decode() for key in ("out", "err"))
        return Ran(argv, said["rc"], output, errors)

    def sh(self, script: str, **options: Any) -> str:
        """A script that must end with 0; its output."""
        ran = self.run("/bin/sh", "-euc", script, **options)
        assert ran.status == 0, ran
        return ran.stdout.strip()

    def nodeprep(self, *arguments: str, **options: Any) -> Ran:
        return self.run("nodeprep", *arguments, **options)

    def words(self, *ports: str) -> dict[str, str]:
        """ACS control words, read by the guest's own setpci."""
        script = "".join(f"setpci -s {port} ECAP_ACS+6.w 2>&1 || true\n" for port in ports)
        return dict(zip(ports, self.sh(script).split("\n"), strict=True))

    def reboot(self) -> None:
        """A reboot from inside; returns when programs can run again.

        QEMU ends at the reset and is started anew with the same disk: after a reset in place the
        emulated processors are several times slower.
        """
        before = self.boot_id
        assert self._process is not None
        self.run("systemctl", "--no-block", "reboot")
        self._process.wait(timeout=BOOT_DEADLINE_S)
        self._hang_up()
        self.start(self._append)
        assert self.boot_id != before

    def console(self, lines: int = 40) -> str:
        """The end of what the kernel said."""
        if not self._console.exists():
            return ""
        return "\n".join(self._console.read_text(errors="replace").splitlines()[-lines:])

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + BOOT_DEADLINE_S
        while "ready" not in (said := self._line(deadline)):
            pass
        self.boot_id = said["ready"]
        self.boots += 1

    def _send(self, line: str) -> None:
        assert self._link is not None
        self._link.sendall(line.encode() + b"\n")

    def _line(self, deadline: float) -> dict[str, Any]:
        """The next whole JSON object; noise of the serial line is skipped."""
        assert self._link is not None
        while True:
            while b"\n" in self._received:
                line, _, self._received = self._received.partition(b"\n")
                try:
                    said = json.loads(line)
                except ValueError:
                    continue
                if isinstance(said, dict):
                    return said
            left = deadline - time.monotonic()
            if left <= 0:
                raise GuestLost(f"no answer in time\n{self.console()}")
            self._link.settimeout(left)
            try:
                chunk = self._link.recv(65536)
            except TimeoutError:
                continue
            if not chunk:
                raise GuestLost(f"QEMU ended\n{self.console()}")
            self._received += chunk


def _connect(path: Path, deadline: float) -> socket.socket:
    while True:
        link = socket.socket(socket.AF_UNIX)
        try:
            link.connect(str(path))
        except OSError:
            link.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return link


def _qemu(work: Path, image: Path, kernel: Path, fabric: list[str]) -> list[str]:
    """TCG unless asked for: that /dev/kvm can be opened does not prove that a guest runs on it."""
    kvm = os.environ.get("NODEPREP_VM_KVM") == "1"
    command_line = (
        f"root=PARTUUID={PART} rootwait rw console=ttyS0 panic=-1 intel_iommu=on "
        "systemd.show_status=0 quiet @APPEND@"
    )
    return [
        "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-M", "q35",
        *(["-accel", "kvm", "-cpu", "host"] if kvm else
          ["-accel", "tcg,thread=multi", "-cpu", "max"]),
        "-smp", "2", "-m", "1024", "-kernel", str(kernel), "-append", command_line,
        "-chardev", f"file,id=console,path={work / 'console.log'}", "-serial", "chardev:console",
        "-chardev", f"socket,id=agent,path={work / 'agent'},server=on,wait=off",
        "-serial", "chardev:agent",
        "-drive", f"file={image},format=raw,if=none,id=disk,cache=unsafe",
        "-device", "nvme,serial=disk,drive=disk,addr=1d.0",
        *fabric,
    ]  # fmt: skip
