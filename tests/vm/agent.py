#!/usr/bin/python3
"""Runs in the guest: takes commands as JSON lines from the second serial port, answers there."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tty
from pathlib import Path
from typing import Any


def text(data: bytes | None) -> str:
    return base64.b64encode(data or b"").decode()


def answer(line: bytes) -> dict[str, Any]:
    asked = json.loads(line)
    try:
        done = subprocess.run(asked["argv"], input=base64.b64decode(asked["input"]),
                              capture_output=True, timeout=asked["timeout"])  # fmt: skip
    except subprocess.TimeoutExpired as late:
        return {"rc": 124, "out": text(late.stdout), "err": text(late.stderr)}
    except OSError as error:
        return {"rc": 127, "out": "", "err": text(str(error).encode())}
    return {"rc": done.returncode, "out": text(done.stdout), "err": text(done.stderr)}


def send(port: int, said: dict[str, Any]) -> None:
    left = b"\n" + json.dumps(said).encode() + b"\n"
    while left:
        left = left[os.write(port, left) :]


def main() -> None:
    port = os.open("/dev/ttyS1", os.O_RDWR | os.O_NOCTTY)
    tty.setraw(port)
    send(port, {"ready": Path("/proc/sys/kernel/random/boot_id").read_text().strip()})
    lines = b""
    while True:
        lines += os.read(port, 65536)
        while b"\n" in lines:
            line, _, lines = lines.partition(b"\n")
            if line.strip():
                send(port, answer(line))


if __name__ == "__main__":
    main()
