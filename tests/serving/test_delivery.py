"""Several servers, differences, installation, where units point, the podman form, disk room."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nodeprep.errors import NeedsRoot, Refused, UsageError
from nodeprep.facts.collect import collect
from nodeprep.facts.resources import disk_room
from nodeprep.host.machines import machine_file
from nodeprep.host.replay import ReplayHost, load_snapshot
from nodeprep.model.facts import NodeFacts, Origin
from nodeprep.model.readings import CommandResult
from nodeprep.model.serving import Interconnect, ServingConfig
from nodeprep.model.topology import P2pStatus
from nodeprep.serving import placement
from nodeprep.serving.files import difference
from nodeprep.serving.install import install
from nodeprep.serving.render import render, render_all, units_dir, write
from nodeprep.serving.tune import tune_groups
from nodeprep.settings import Accelerators
from nodeprep.state import StateStore
from tests import build
from tests.serving import cases, readback
from tests.serving.test_render import CASES, newest_case, source_case

ANALYZE = shutil.which("systemd-analyze")


def machine_facts(name: str) -> NodeFacts:
    """What is collected on a recorded machine."""
    return collect(ReplayHost(load_snapshot(machine_file(name))), Accelerators(), names=False)


def two_servers(**fields: Any) -> tuple[ServingConfig, ...]:
    policy = cases.policy(vllm_version="0.11.2", tensor_parallel=4, groups=2, **fields)
    plan = cases.plan("0.11.2", gpu="NVIDIA H100 80GB HBM3", tp=4)
    return tune_groups(cases.h100_sxm8(), (cases.PASSED,), plan, policy, cases.shape())


def test_two_groups_of_four_share_nothing() -> None:
    first, second = two_servers()
    assert first.gpu_indices == (0, 1, 2, 3)
    assert second.gpu_indices == (4, 5, 6, 7)
    assert (first.port, second.port) == (8000, 8001)
    assert not set(first.gpu_uuids) & set(second.gpu_uuids)
    assert not first.all_gpus


@given(size=st.integers(1, 8), count=st.integers(1, 8))
def test_groups_are_disjoint_or_refused(size: int, count: int) -> None:
    node = cases.h100_sxm8()
    try:
        groups = placement.choose_groups(node, size, count)
    except UsageError:
        assert size * count > 8
        return
    seen = [gpu.index for group in groups for gpu in group]
    assert len(seen) == len(set(seen)) == size * count
    assert all(list(group) == sorted(group, key=lambda gpu: gpu.index) for group in groups)


@pytest.mark.parametrize("granted", [{(0, 2), (1, 3)}, {(0, 3), (1, 2)}, {(0, 1), (2, 3)}])
def test_no_group_crosses_a_pair_without_peer_access(granted: set[tuple[int, int]]) -> None:
    node = cases.with_uuids(build.facts(cases.direct(4, 1)))
    pairs = tuple(
        pair
        if (pair.a, pair.b) in granted
        else msgspec.structs.replace(pair, p2p_read=P2pStatus.CNS, p2p_write=P2pStatus.CNS)
        for pair in node.pairs
    )
    made = placement.choose_groups(msgspec.structs.replace(node, pairs=pairs), 2, 2)
    assert {tuple(gpu.index for gpu in group) for group in made} == granted


def test_a_group_stays_under_its_switch() -> None:
    """Also where the ports still redirect: `bringup` frees them, and no other pair is nearer."""
    node = machine_facts("l40s-two-switches")
    made = placement.choose_groups(node, len(node.gpus) // 2, 2)
    for group in made:
        assert placement.interconnect(node, group) is Interconnect.SWITCH


def test_each_server_has_its_files() -> None:
    files = render_all(two_servers())
    for number in (0, 1):
        for name in ("vllm-{}.yaml", "vllm-{}.env", "docker-run-{}.sh", "podman-run-{}.sh",
                     "compose-{}.yaml", "vllm-{}.service", "vllm-bare-{}.service",
                     "check-gpus-{}.sh", "vllm-podman-{}.service"):  # fmt: skip
            assert name.format(number) in files
    assert "docker-run-1.sh" in files["vllm-1.service"]
    assert "/etc/nodeprep/rendered/vllm-1.env" in files["vllm-bare-1.service"]
    assert "CUDA_VISIBLE_DEVICES=4,5,6,7" in files["vllm-bare-1.service"]
    assert "nodeprep-vllm-1" in files["check-gpus-1.sh"]
    assert yaml.safe_load(files["compose-1.yaml"])["name"] == "nodeprep-1"
    assert "vllm.yaml" not in files


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("folder", ["rendered", "with blank", "per%cent"])
def test_every_unit_of_a_folder_is_silent(folder: str, tmp_path: Path) -> None:
    out = tmp_path / folder
    place = units_dir(out)
    several = render_all(two_servers(), install_dir=place, program=sys.executable)
    one = render(source_case(), install_dir=place, program=sys.executable)
    for files in (several, one):
        write(files, out)
    units = sorted([*out.glob("*.service"), *out.glob("*.target")])
    assert len(units) > 9
    for unit in units:
        done = subprocess.run([str(ANALYZE), "verify", str(unit)], capture_output=True, text=True,
                              timeout=60, check=False)  # fmt: skip
        assert done.stdout + done.stderr == "", unit.name


def test_units_point_at_the_folder_when_its_path_is_plain() -> None:
    assert units_dir(Path("/srv/np")) == "/srv/np"
    assert units_dir(Path("/srv/a b")) == "/srv/a b"
    for odd in ("/srv/a:b", "/srv/a,b", "rendered", "/srv/a\nb", "/"):
        assert units_dir(Path(odd)) == "/etc/nodeprep/rendered"


def test_the_boot_unit_runs_the_nodeprep_that_rendered_it_and_renders_there_again() -> None:
    files = render(source_case(), install_dir="/srv/np", program="/opt/np/bin/nodeprep")
    unit = files["nodeprep.service"]
    assert readback.unit_value(unit, "ExecStart").startswith(
        '/opt/np/bin/nodeprep bringup -o "/srv/np"'
    )
    assert "/srv/np" in readback.unit_value(unit, "ReadWritePaths")
    assert "PrivateTmp=yes" in unit
    plain = render(source_case())["nodeprep.service"]
    assert readback.unit_value(plain, "ExecStart").startswith("/usr/bin/nodeprep bringup --format")


def test_units_in_the_common_tmp_have_no_tmp_of_their_own() -> None:
    files = render(source_case(), install_dir="/tmp/np")
    for name in ("vllm.service", "vllm-bare.service", "nodeprep.service"):
        assert "PrivateTmp=yes" not in files[name]


def test_podman_is_given_the_same_but_for_the_devices(tmp_path: Path) -> None:
    files = render(source_case())
    docker, podman = files["docker-run.sh"].splitlines(), files["podman-run.sh"].splitlines()
    only = [line.strip() for line in podman if line not in docker and not line.startswith("#")]
    gpus = [f"--device nvidia.com/gpu={uuid}" for uuid in source_case().gpu_uuids]
    kept = [line for line in only if "podman-run.sh" not in line and not line.startswith("#")]
    assert kept == [*gpus, *[line for line in kept if line.startswith("exec podman run")]]
    assert "podman-run.sh" in files["vllm-podman.service"]


def test_the_difference_is_shown_and_nothing_written(tmp_path: Path) -> None:
    files = render(newest_case())
    assert "+++" in difference(files, tmp_path / "none")
    write(files, tmp_path / "out")
    assert difference(files, tmp_path / "out") == ""
    config = msgspec.structs.replace(newest_case(), port=9000)
    shown = difference(render(config), tmp_path / "out")
    assert "+  --publish 127.0.0.1:9000:9000" in shown
    assert "9000" not in (tmp_path / "out" / "docker-run.sh").read_text()


class Machine:
    """A live node that remembers what was asked of systemd."""

    origin = Origin.LIVE

    def __init__(self, *, root: bool = True, free: dict[str, str] | None = None) -> None:
        self.is_root = root
        self.asked: list[tuple[str, ...]] = []
        self._free = free or {}

    def run(self, argv: Any, *, deadline_s: float, env: Any = None) -> CommandResult:
        self.asked.append(tuple(argv))
        known = argv[-1] in self._free
        out = f"Avail\n{self._free[argv[-1]]}\n" if known else ""
        status = 0 if known or argv[0] == "systemctl" else 1
        return CommandResult(argv=tuple(argv), status=status, stdout=out, stderr="")


def installed(
    tmp_path: Path, machine: Machine, *, ready: str | None, simulated: bool = False
) -> Any:
    store = StateStore(tmp_path / "state", tmp_path / "run")
    if ready is not None:
        store.write_ready(ready, simulated=simulated)
    configs = [msgspec.structs.replace(newest_case(), simulated=False)]
    return install(
        machine, store, render_all(configs), configs, out=tmp_path / "out",  # type: ignore[arg-type]
        unit_dir=tmp_path / "units", form="docker", boot_id="boot-1",
    )  # fmt: skip


def test_what_passed_is_installed_and_enabled(tmp_path: Path) -> None:
    machine = Machine()
    files, said = installed(tmp_path, machine, ready="boot-1")
    assert machine.asked == [
        ("systemctl", "daemon-reload"), ("systemctl", "enable", "nodeprep.service", "vllm.service"),
    ]  # fmt: skip
    assert sorted(one.name for one in (tmp_path / "units").iterdir()) == [
        "nodeprep-ready.target", "nodeprep.service", "vllm.service",
    ]  # fmt: skip
    assert "check-gpus.sh --reload" in said[0]
    assert all(one.changed for one in files)


@pytest.mark.parametrize(
    ("ready", "simulated"), [(None, False), ("boot-0", False), ("boot-1", True)]
)
def test_nothing_is_enabled_that_did_not_pass(
    ready: str | None, simulated: bool, tmp_path: Path
) -> None:
    machine = Machine()
    _, said = installed(tmp_path, machine, ready=ready, simulated=simulated)
    assert machine.asked == [("systemctl", "daemon-reload")]
    assert "nothing is enabled" in said[0]
    assert (tmp_path / "units" / "vllm.service").exists()


def test_only_root_on_a_live_node_installs(tmp_path: Path) -> None:
    with pytest.raises(NeedsRoot):
        installed(tmp_path, Machine(root=False), ready="boot-1")
    replayed = Machine()
    replayed.origin = Origin.REPLAY
    with pytest.raises(Refused):
        installed(tmp_path, replayed, ready="boot-1")
    assert not (tmp_path / "units").exists()


def test_disk_room_is_asked_of_the_nearest_folder_there_is() -> None:
    machine = Machine(free={"/var": "12345"})
    assert disk_room(machine, "/var/cache/nodeprep") == 12345  # type: ignore[arg-type]
    assert [argv[-1] for argv in machine.asked] == ["/var/cache/nodeprep", "/var/cache", "/var"]
    assert disk_room(Machine(), "/var/cache") is None  # type: ignore[arg-type]


def test_a_full_disk_is_said() -> None:
    policy = cases.policy(vllm_version="0.11.2")
    shape = cases.shape(weight_file_bytes=70 << 30)
    plan = cases.plan("0.11.2")
    for free, full in ((10 << 30, True), (80 << 30, False), (None, False)):
        [config] = tune_groups(
            cases.l40s_switch(), (cases.PASSED,), plan, policy, shape, disk_free_bytes=free
        )
        assert any("weights and compiled" in one for one in config.warnings) is full


@pytest.mark.parametrize(("goal", "tokens"), [("latency", 2048), ("throughput", 4096)])
def test_the_goal_sets_the_tokens_of_a_step(goal: str, tokens: int) -> None:
    from nodeprep.memory.request import request_for

    policy = cases.policy(goal=goal, max_num_batched_tokens=None)
    assert request_for(cases.l40s_switch(), policy).max_num_batched_tokens == tokens
    kept = cases.policy(goal=goal, max_num_batched_tokens=1024)
    assert request_for(cases.l40s_switch(), kept).max_num_batched_tokens == 1024


def test_an_unknown_goal_is_refused() -> None:
    with pytest.raises(UsageError, match="no goal"):
        cases.tuned(cases.l40s_switch(), "0.11.2", goal="speed")


FAKE_ENGINE = """#!/usr/bin/env bash
echo "$@" >> "$LOG"
[[ -e $HIDDEN ]] && exit 1
cat "$SEEN"
"""
FAKE_SYSTEMCTL = """#!/usr/bin/env bash
echo "systemctl $*" >> "$LOG"
: > "$SEEN"
"""


@pytest.mark.parametrize("case", ["all", "one-lost", "lost-on-reload", "not-running"])
def test_the_check_of_the_gpus(case: str, tmp_path: Path) -> None:
    config = two_servers()[1]
    write(render(config), tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in (("docker", FAKE_ENGINE), ("systemctl", FAKE_SYSTEMCTL),
                       ("sleep", "#!/bin/sh\n")):  # fmt: skip
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    seen = list(config.gpu_uuids)[: 3 if case == "one-lost" else 4]
    (tmp_path / "seen").write_text("\n".join(seen) + "\n")
    if case == "not-running":
        (tmp_path / "hidden").touch()
    environment = {
        "PATH": f"{tools}:/usr/bin:/bin", "LOG": str(tmp_path / "log"),
        "SEEN": str(tmp_path / "seen"), "HIDDEN": str(tmp_path / "hidden"),
    }  # fmt: skip
    options = ["--reload"] if case == "lost-on-reload" else ["--wait", "3"]
    done = subprocess.run(["bash", str(tmp_path / "check-gpus-1.sh"), *options], timeout=30,
                          capture_output=True, text=True, env=environment, check=False)  # fmt: skip
    assert (done.returncode == 0) is (case == "all"), done.stderr
    if case == "one-lost":
        assert config.gpu_uuids[3] in done.stderr
    if case == "lost-on-reload":
        assert "after daemon-reload" in done.stderr
        assert "nvidia-ctk" in done.stderr


@pytest.mark.parametrize("name", sorted(CASES))
def test_compose_is_valid_by_its_schema(name: str, tmp_path: Path) -> None:
    pytest.importorskip("check_jsonschema", reason="pip install check-jsonschema")
    write(render(CASES[name]()), tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec",
         str(tmp_path / "compose.yaml")],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_schema_would_see_a_wrong_key(tmp_path: Path) -> None:
    pytest.importorskip("check_jsonschema", reason="pip install check-jsonschema")
    wrong = tmp_path / "compose.yaml"
    wrong.write_text("services:\n  a:\n    image: x\n    no_such_key: 1\n")
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec",
         str(wrong)], capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode != 0


def test_the_next_boot_run_has_the_same_configuration() -> None:
    plain = render(two_servers()[0])["nodeprep.service"]
    assert "--config" not in plain
    given = render(two_servers()[0], config_file=Path("/srv/my conf/%n.toml"))["nodeprep.service"]
    assert 'bringup --config "/srv/my conf/%%n.toml" --format brief' in given
    assert "PrivateTmp=yes" in given
    assert (
        "PrivateTmp=yes"
        not in render(two_servers()[0], config_file=Path("/tmp/two.toml"))["nodeprep.service"]
    )


def test_the_gate_over_a_servers_own_gpus_decides() -> None:
    every = replace(cases.PASSED, gpus=tuple(range(8)), transports={"00/0 3>4": "SHM/direct"})
    good = replace(cases.PASSED, gpus=(0, 1, 2, 3), transports={"00/0 0>1": "P2P/CUMEM"})
    bad = replace(good, gpus=(4, 5, 6, 7), veto="with peer-to-peer the collective hung")
    policy = cases.policy(vllm_version="0.11.2", tensor_parallel=4, groups=2)
    plan = cases.plan("0.11.2", gpu="NVIDIA H100 80GB HBM3", tp=4)
    first, second = tune_groups(cases.h100_sxm8(), (every, good, bad), plan, policy, cases.shape())
    assert "NCCL_P2P_DISABLE" not in [one.name for one in first.env]
    assert "disable-custom-all-reduce" not in [one.name for one in first.options]
    assert "NCCL_P2P_DISABLE" in [one.name for one in second.env]
    assert "disable-custom-all-reduce" in [one.name for one in second.options]


def test_a_group_of_nvlink_stays_one() -> None:
    assert all(one.interconnect is Interconnect.NVLINK for one in two_servers())
