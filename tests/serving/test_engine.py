"""A real container engine runs the rendered docker line, with a stand-in for the image.

All options are as rendered but --gpus (there is no NVIDIA runtime here) and --publish (the engine
of the test has no bridge).  Where the test itself may not raise limits (no CAP_SYS_RESOURCE),
its own stand in the place of --ulimit's.
"""

from __future__ import annotations

import io
import os
import resource
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import msgspec
import pytest

from nodeprep.model.serving import ServingConfig
from nodeprep.serving.render import render, write
from tests.serving.test_render import newest_case, placed

IMAGE = "vllm/vllm-openai:v0.33.0"
PROGRAMS = ("sh", "cat", "touch", "id")

# Says what a server would find around it.
VLLM = """#!/bin/sh
printf 'ARG %s\\n' "$@"
cat /proc/self/status /proc/self/limits /proc/mounts
printf 'KEY %s\\n' "$VLLM_API_KEY"
printf 'TOKEN %s\\n' "$(cat "$HF_TOKEN_PATH")"
printf 'HOME %s\\n' "$HOME"
if touch /anywhere 2>/dev/null; then echo ROOT-WRITABLE; fi
touch "$HOME/kept" && echo CACHE-WRITABLE
touch /tmp/x && echo TMP-WRITABLE
printf 'CONFIG\\n'
cat /etc/nodeprep/vllm.yaml
"""


def _with_libraries(program: str) -> list[str]:
    """A program of this machine and what it is linked with."""
    path = shutil.which(program)
    assert path is not None
    said = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
    words = [word for word in said.split() if word.startswith("/")]
    return [path, *words]


def image_tar() -> bytes:
    """The root file system of the stand-in: a shell, a few programs, and `vllm`."""
    held: dict[str, bytes] = {}
    for program in PROGRAMS:
        for file in _with_libraries(program):
            held[file] = Path(file).read_bytes()
    held["/bin/sh"] = held.pop(str(shutil.which("sh")))
    held["/usr/bin/vllm"] = VLLM.encode()
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        folders = {"cache", "etc/nodeprep", "tmp", "proc", "dev", "sys", "run"}
        for name in (*folders, *(one.lstrip("/") for one in held)):
            folders |= {str(one) for one in PurePosixPath(name).parents if str(one) != "."}
        for folder in sorted(folders):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for name, content in held.items():
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    """The address of an engine that holds the stand-in image."""
    daemon, client = shutil.which("dockerd"), shutil.which("docker")
    if daemon is None or client is None:
        pytest.skip("no container engine: apt-get install docker.io")
    if os.geteuid() != 0:
        pytest.skip("an engine can be started by root only")
    with tempfile.TemporaryDirectory(prefix="np-dk-", dir="/run") as folder:
        address = f"unix://{folder}/d.sock"
        argv = [
            daemon, "-H", address, "--data-root", f"{folder}/data", "--exec-root",
            f"{folder}/exec", "-p", f"{folder}/pid", "--iptables=false", "--ip6tables=false",
            "--bridge=none", "--storage-driver=vfs",
        ]  # fmt: skip
        with Path(folder, "log").open("w") as log:
            process = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)
        try:
            if not _answers(client, address, process):
                pytest.skip(f"the engine does not start: {Path(folder, 'log').read_text()[-300:]}")
            subprocess.run([client, "-H", address, "import", "-", IMAGE], input=image_tar(),
                           check=True, timeout=120, capture_output=True)  # fmt: skip
            yield address
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


def _answers(client: str, address: str, process: subprocess.Popen[bytes]) -> bool:
    for _ in range(60):
        if process.poll() is not None:
            return False
        done = subprocess.run([client, "-H", address, "version"], capture_output=True, timeout=30)
        if done.returncode == 0:
            return True
        time.sleep(0.5)
    return False


# Passes everything on but the two options that this place cannot serve.
WRAPPER = """#!/usr/bin/env bash
kept=()
while (($#)); do
  case $1 in
    --gpus | --publish) shift 2 ;;
    memlock=-1:-1) kept+=("memlock=$MEMLOCK:$MEMLOCK") && shift ;;
    nofile=65536:65536) kept+=("nofile=$NOFILE:$NOFILE") && shift ;;
    *) kept+=("$1") && shift ;;
  esac
done
exec "$REAL_DOCKER" -H "$ENGINE_ADDRESS" "${kept[0]}" --network none "${kept[@]:1}"
"""


def may_raise_limits() -> bool:
    """CAP_SYS_RESOURCE: without it nobody here can give more than they have."""
    status = Path("/proc/self/status").read_text()
    effective = int(status.split("CapEff:")[1].split()[0], 16)
    return bool(effective >> 24 & 1)


def limit(name: int, wanted: int) -> int:
    hard = resource.getrlimit(name)[1]
    return wanted if may_raise_limits() else hard


def run(engine: str, config: ServingConfig, folder: Path) -> str:
    write(render(config), folder)
    tools = folder / "tools"
    tools.mkdir()
    (tools / "docker").write_text(WRAPPER)
    (tools / "docker").chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tools}:{os.environ['PATH']}", "ENGINE_ADDRESS": engine,
        "MEMLOCK": str(limit(resource.RLIMIT_MEMLOCK, -1)),
        "NOFILE": str(limit(resource.RLIMIT_NOFILE, 65536)),
        "REAL_DOCKER": str(shutil.which("docker")),
    }  # fmt: skip
    done = subprocess.run(["bash", str(folder / "docker-run.sh")], capture_output=True, text=True,
                          timeout=120, check=False, env=environment)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_engine_runs_the_line_and_the_walls_stand(engine: str, tmp_path: Path) -> None:
    token = tmp_path / "hf-token"
    token.write_text("not-a-real-token")
    config = msgspec.structs.replace(
        placed(newest_case(), tmp_path), image=IMAGE, hf_token_file=str(token)
    )
    said = run(engine, config, tmp_path)
    lines = said.splitlines()
    words = [line[4:] for line in lines if line.startswith("ARG ")]
    assert words[:4] == ["serve", config.model, "--config", "/etc/nodeprep/vllm.yaml"]
    assert "KEY not-a-real-key" in lines
    assert "HOME /cache" in lines
    assert {"CACHE-WRITABLE", "TMP-WRITABLE"} <= set(lines)
    assert "ROOT-WRITABLE" not in lines
    status = dict(line.split(":", 1) for line in lines if ":\t" in line)
    assert int(status["CapEff"], 16) == 0
    assert int(status["CapBnd"], 16) == 0
    assert status["NoNewPrivs"].strip() == "1"
    [locked] = [line for line in lines if line.startswith("Max locked memory")]
    most = limit(resource.RLIMIT_MEMLOCK, -1)
    assert locked.split()[3:5] == ["unlimited" if most == -1 else str(most)] * 2
    [shm] = [line for line in lines if " /dev/shm " in line]
    assert f"size={config.shm_bytes // 1024}k" in shm
    assert "TOKEN not-a-real-token" in lines
    assert said.split("CONFIG\n")[1] == (tmp_path / "vllm.yaml").read_text()
    assert (Path(config.cache_dir) / "kept").exists()
