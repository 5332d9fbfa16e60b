"""The guest's disk: the cached root folder, with this checkout's wheel installed into it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.conftest import CHECKOUT
from tests.vm.topology import CONFIG

PART = "5a5f7e2c-31c8-4d7b-9f86-0d8a1f0e6c11"
_IMAGE_MIB = 640
_START_MIB = 1

LAUNCHER = """\
#!/usr/bin/python3
import sys
sys.path.insert(0, "/opt/nodeprep/lib")
from nodeprep.cli import main
main()
"""

AGENT_UNIT = """\
[Unit]
Description=Runs what the test asks for
After=multi-user.target

[Service]
ExecStart=/usr/bin/python3 /opt/vm/agent.py
Restart=always

[Install]
WantedBy=graphical.target
"""

_USELESS = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer",
    "e2scrub_reap.service", "fstrim.timer", "systemd-pstore.service", "getty@tty1.service",
    "systemd-timesyncd.service", "systemd-networkd.service", "systemd-hwdb-update.service",
    "systemd-firstboot.service", "serial-getty@ttyS0.service", "serial-getty@ttyS1.service",
    "console-getty.service", "systemd-tmpfiles-clean.timer",
)  # fmt: skip


def parts() -> Path:
    """The folder with `root` and `kernels`; built when it is not there yet."""
    made = subprocess.run(
        [str(CHECKOUT / "scripts" / "vm-guest")], stdout=subprocess.PIPE, text=True, timeout=900,
        env={**os.environ, "PYTHON": sys.executable},
    )  # fmt: skip
    assert made.returncode == 0, "scripts/vm-guest failed; see its output above"
    return Path(made.stdout.strip())


def kernel(folder: Path, version: str) -> Path:
    """The kernel of one series: `6.1` or `6.12`."""
    (found,) = (folder / "kernels").glob(f"vmlinuz-{version}.*")
    return found


def build(folder: Path, work: Path) -> Path:
    """A bootable raw disk, made in `work`."""
    root = work / "root"
    subprocess.run(["cp", "-a", "--reflink=auto", str(folder / "root"), str(root)], check=True)
    _install(root, work)
    _configure(root)
    image = work / "disk.img"
    with image.open("wb") as file:
        file.truncate((_IMAGE_MIB + _START_MIB + 1) << 20)
    table = f"label: gpt\nstart={_START_MIB}MiB, size={_IMAGE_MIB}MiB, uuid={PART}\n"
    subprocess.run(["sfdisk", "-q", str(image)], input=table, text=True, check=True)
    subprocess.run(
        ["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d", str(root),
         "-E", f"offset={_START_MIB << 20}", str(image), f"{_IMAGE_MIB}M"],
        check=True,
    )  # fmt: skip
    shutil.rmtree(root)
    return image


def _install(root: Path, work: Path) -> None:
    """The wheel as pip would unpack it, its program, and the tests that run inside."""
    wheels = work / "wheel"
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)],
        cwd=CHECKOUT, check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = wheels.glob("*.whl")
    library = root / "opt/nodeprep/lib"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(library)
    program = root / "usr/bin/nodeprep"
    program.write_text(LAUNCHER)
    program.chmod(0o755)
    inside = root / "opt/vm"
    inside.mkdir()
    for name in ("agent.py", "crash.py"):
        shutil.copy(Path(__file__).parent / name, inside / name)
    subprocess.run(
        ["chroot", str(root), "python3", "-m", "compileall", "-q", "/opt/nodeprep/lib/nodeprep"],
        check=True,
    )


def _configure(root: Path) -> None:
    units = root / "etc/systemd/system"
    (units / "vm-agent.service").write_text(AGENT_UNIT)
    wants = units / "graphical.target.wants"
    wants.mkdir(exist_ok=True)
    (wants / "vm-agent.service").symlink_to("/etc/systemd/system/vm-agent.service")
    for unit in _USELESS:
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to("/dev/null")
    (root / "etc/hostname").write_text("guest\n")
    (root / "etc/fstab").write_text(f"PARTUUID={PART} / ext4 rw,noatime 0 0\n")
    (root / "etc/machine-id").write_text("")
    (root / "etc/nodeprep").mkdir()
    (root / "etc/nodeprep/config.toml").write_text(CONFIG)
