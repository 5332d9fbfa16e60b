"""nccl-tests in a container: the command line, and an end by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeprep.gate.command import Container, gate_command, started
from nodeprep.gate.run import GateRequest, find_tool, run_gate
from nodeprep.gate.torch_fallback import PLACE, torch_command
from nodeprep.host.live import LiveHost
from nodeprep.model.gate import GateVerdict
from nodeprep.settings import GatePolicy
from tests.gate.doubles import DoubledNode, processes_of, quick
from tests.gate.nodes import on_switch
from tests.gate.test_run import GateHost, printing
from tests.simulator.install import install

IMAGE = "registry.example/nccl-tests:2.30"


def argv_of(engine: str, *, uuids: bool = True) -> tuple[str, ...]:
    node = on_switch(2, gpu_fields={"uuid": "GPU-1"} if uuids else {})
    command = gate_command(node, (0, 1), "/opt/all_reduce_perf", "512M", container=(engine, IMAGE))
    assert command.container is not None
    argv, env = started(command, "/run/private")
    assert env == {}
    return argv


def test_docker() -> None:
    argv = argv_of("docker")
    assert argv[:5] == ("docker", "run", "--rm", "--pull=never", "--name")
    assert argv[5].startswith("nodeprep-gate-")
    for option in ("--network=none", "--ipc=host", "--ulimit=memlock=-1", "--cap-add=SYS_NICE"):
        assert option in argv
    assert argv[argv.index("--gpus") + 1] == '"device=GPU-1,GPU-1"'
    assert "--volume=/run/private:/var/log/nodeprep-gate" in argv
    assert "--env=NCCL_DEBUG_FILE=/var/log/nodeprep-gate/nccl.%h.%p.log" in argv
    assert "--env=NCCL_SOCKET_IFNAME=lo" in argv
    entry = argv.index("--entrypoint")
    assert argv[entry + 1 : entry + 5] == ("/opt/all_reduce_perf", IMAGE, "-b", "8M")
    assert not [word for word in argv if "privileged" in word or "LD_LIBRARY_PATH" in word]


def test_podman_names_devices() -> None:
    argv = argv_of("podman")
    assert argv[0] == "podman"
    assert argv.count("--device=nvidia.com/gpu=GPU-1") == 2
    assert "--security-opt=label=disable" in argv


def test_numbers_are_not_passed_into_a_container() -> None:
    """It numbers the GPUs it is given anew."""
    argv = argv_of("docker", uuids=False)
    assert '"device=0,1"' in argv
    assert not [word for word in argv if word.startswith("--env=CUDA_VISIBLE_DEVICES")]


def test_two_runs_have_two_names() -> None:
    names = {
        command.container.name
        for _ in range(2)
        if (command := gate_command(on_switch(2), (0, 1), "p", "512M", container=("docker", IMAGE)))
        .container is not None
    }  # fmt: skip
    assert len(names) == 2


def test_pytorch_in_the_image_of_the_engine() -> None:
    command = torch_command(on_switch(2), (0, 1), "python3", "512M", container=("docker", IMAGE))
    argv, _ = started(command, None)
    assert [word for word in argv if word.endswith(f":{PLACE}:ro")]
    assert argv[argv.index(IMAGE) + 1 :][:2] == ("-m", "torch.distributed.run")
    assert "--nproc-per-node=2" in argv


def test_which_tool() -> None:
    docker = GateHost(printing(""), programs=("docker", "podman"))
    asked = GateRequest(image=IMAGE)
    tool, _ = find_tool(docker, GatePolicy(), asked)
    assert tool is not None
    assert (tool.container, tool.program) == (("docker", IMAGE), "all_reduce_perf")
    podman = GatePolicy(image=IMAGE, container_engine="podman", container_program="/x/arp")
    tool, _ = find_tool(docker, podman, GateRequest())
    assert tool is not None
    assert (tool.container, tool.program) == (("podman", IMAGE), "/x/arp")
    nothing, why = find_tool(GateHost(printing(""), programs=()), GatePolicy(), asked)
    assert nothing is None
    assert "docker" in why
    assert Container(engine="docker", image=IMAGE, name="n").mounts == ()


ENGINE = """#!/bin/sh
echo "$@" >> {log}
case "$1" in
run) shift; while [ "$1" != --entrypoint ]; do
       case "$1" in --env=*) export "${{1#--env=}}";; esac; shift; done
     program="$2"; shift 3
     export NCCL_DEBUG_FILE=/dev/null
     exec "$program" "$@" ;;
esac
"""


@pytest.mark.parametrize(("mode", "removed"), [("ok", 0), ("hang", 1)])
def test_a_container_that_hangs_is_killed_by_name(
    tmp_path: Path, mode: str, removed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = DoubledNode(tmp_path)
    program = install(tmp_path, node.tree.root, mode=mode)
    log = tmp_path / "calls"
    engine = tmp_path / "docker"
    engine.write_text(ENGINE.format(log=log))
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    policy = quick(silence_s=1.0 if removed else 30.0)
    request = GateRequest(image=IMAGE, binary=str(program), allow_simulated=True)
    result = run_gate(LiveHost(), node.facts, (0, 1, 2, 3), policy, request)
    assert result.verdict is (GateVerdict.PASS if mode == "ok" else GateVerdict.HUNG)
    assert result.binary == f"{program} in {IMAGE}"
    calls = [line.split() for line in log.read_text().splitlines()]
    name = calls[0][calls[0].index("--name") + 1]
    assert [call for call in calls if call[0] == "rm"] == [["rm", "--force", name]] * removed
    assert processes_of(tmp_path) == []


def test_an_engine_that_cannot_start_it(tmp_path: Path) -> None:
    host = GateHost(printing("", 125), programs=("docker",))
    result = run_gate(host, on_switch(2), (0, 1), quick(), GateRequest(image=IMAGE))
    assert result.verdict is GateVerdict.NO_BINARY
    assert "container" in result.reason
