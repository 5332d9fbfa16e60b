#!/usr/bin/python3
"""Runs in the guest: takes commands as JSON lines from the second serial port, and answers there."""

import base64
import json
import os
import subprocess
import tty
from pathlib import Path


def text(data):
    return base64.b64encode(data or b"").decode()


def answer(line):
    asked = json.loads(line)
    try:
        done = subprocess.run(
            asked["argv"],
            input=base64.b64decode(asked.get("input", "")),
            capture_output=True,
            timeout=asked["timeout"],
        )
    except subprocess.TimeoutExpired as late:
        return {"rc": 124, "out": text(late.stdout), "err": text(late.stderr)}
    except OSError as error:
        return {"rc": 127, "out": "", "err": text(str(error).encode())}
    return {"rc": done.returncode, "out": text(done.stdout), "err": text(done.stderr)}


def main():
    port = os.open("/dev/ttyS1", os.O_RDWR | os.O_NOCTTY)
    tty.setraw(port)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    with os.fdopen(port, "r+b", buffering=0) as stream:
        lines = b""
        stream.write(b"\n" + json.dumps({"ready": boot}).encode() + b"\n")
        while True:
            lines += stream.read(65536) or b""
            while b"\n" in lines:
                line, _, lines = lines.partition(b"\n")
                if line.strip():
                    left = json.dumps(answer(line)).encode() + b"\n"
                    while left:
                        left = left[stream.write(left) or 0 :]


main()
