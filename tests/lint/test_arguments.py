"""Words of a command: what `"$@"`, variables and quotes make of them, and whose value they are."""

from __future__ import annotations

import pytest

from nodeprep.lint.reading import read
from nodeprep.model.launch import Launch
from nodeprep.parse.dollar import filled, may_be_words
from nodeprep.parse.shell_words import read_shell
from tests.lint.base import linted, of

UNKNOWN_FLAG = "vllm-flag-unknown"
WRAPPED = """
services:
  chat:
    image: vllm/vllm-openai:v0.22.0
    entrypoint:
      - /bin/bash
      - -c
      - |
        source /opt/detect.sh
        if [ "$${FAST:-0}" = "1" ]; then
          exec vllm serve "$$@"
        fi
        exec vllm serve --disable-custom-all-reduce "$$@"
      - --
    command:
      - --model
      - org/m
      - --nonsense
      - --tensor-parallel-size
      - "${TP:-2}"
    ports:
      - "${WHERE:-${PORT:-8032}}:8000"
"""


def only(text: str, name: str = "x.sh") -> Launch:
    [launch] = read(text, name).launches
    return launch


def options(launch: Launch) -> dict[str, object]:
    return {one.plain: one.value for one in launch.options}


def test_the_command_of_a_wrapped_compose_service_is_its_arguments() -> None:
    first, second = read(WRAPPED, "compose.yaml").launches
    assert first.model == second.model == "org/m"
    assert options(first)["tensor-parallel-size"] == 2
    assert "disable-custom-all-reduce" in options(second)
    [found] = of(UNKNOWN_FLAG, "compose.yaml", WRAPPED)
    assert "--nonsense" in found
    assert f"(compose.yaml:{WRAPPED.split(chr(10)).index('      - --nonsense') + 1})" in found


def test_numbered_arguments() -> None:
    launch = only('bash -c \'vllm serve "$1" "${@:2}"\' name org/m --max-num-seqs 4\n')
    assert launch.model == "org/m"
    assert options(launch) == {"max-num-seqs": 4}


def test_arguments_of_the_script_itself_are_said() -> None:
    result = linted(("x.sh", 'vllm serve org/m "$@"\n'), version="0.11.2")
    assert any("$@" in one.reason and "any option" in one.reason for one in result.unknown)
    assert only('vllm serve "$@"\n').model is None


@pytest.mark.parametrize(
    ("line", "model", "wanted"),
    [
        ("A='--max-num-seqs 4 --port 9'\nvllm serve org/m $A", "org/m",
         {"max-num-seqs": 4, "port": 9}),
        ('A="1 2"\nvllm serve org/m --port "$A"', "org/m", {"port": "1 2"}),
        ("vllm serve --port 9 org/m", "org/m", {"port": 9}),
        ("vllm serve --host 1.2.3.4 ${EAGER:+--enforce-eager} org/m", "org/m",
         {"host": "1.2.3.4"}),
        ("EAGER=1\nvllm serve ${EAGER:+--enforce-eager} org/m", "org/m", {"enforce-eager": True}),
        ("L=8\nvllm serve org/m ${L:+--max-num-seqs $L}", "org/m", {"max-num-seqs": 8}),
        (': "${M:=org/m}"\nvllm serve $M', "org/m", {}),
        ("vllm serve ${M:-${N:-org/m}} --port ${P-9}", "org/m", {"port": 9}),
        ('vllm serve "${M:-"org/m"}"', "org/m", {}),
        ("A=(--port 9)\nA+=(--host h)\nvllm serve org/m \"${A[@]}\"", "org/m",
         {"port": 9, "host": "h"}),
        ("A=--port\nA+='=9'\nvllm serve org/m $A", "org/m", {"port": 9}),
        ("vllm serve org/m --served-model-name a b --port 9", "org/m",
         {"served-model-name": "a b", "port": 9}),
        ("vllm serve org/m --x '\\$HOME' --port 9 \\", "org/m", {"x": "\\$HOME", "port": 9}),
    ],
)  # fmt: skip
def test_words_of_a_command(line: str, model: str, wanted: dict[str, object]) -> None:
    launch = only(line + "\n")
    assert launch.model == model
    assert options(launch) == wanted
    assert not launch.open_words


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("vllm serve --host 127.0.0.1 $EXTRA --model org/m", "$EXTRA"),
        ("vllm serve --model org/m --port 9 $MORE", "$MORE"),
        ("vllm serve org/m --port ${PORT} $SERVE_ARGS", "$SERVE_ARGS"),
        ("vllm serve org/m ${FLAGS[@]}", "${FLAGS[@]}"),
    ],
)
def test_a_variable_alone_may_hold_options(line: str, word: str) -> None:
    launch = only(line + "\n")
    assert launch.model == "org/m"
    assert [one for one, _ in launch.open_words] == [word]
    result = linted(("x.sh", line + "\n"), version="0.11.2")
    assert any(one.subject == "further options (x.sh:1)" for one in result.unknown)
    assert not any(one.id == "vllm-value-invalid" for one in result.findings)


def test_a_variable_before_the_image_is_no_image() -> None:
    text = "docker run --rm $DOCKER_ARGS vllm/vllm-openai:v0.11.2 --model org/m\n"
    box = only(text).container
    assert box is not None
    assert box.image == "vllm/vllm-openai:v0.11.2"
    assert not of("container-gpus-missing", "x.sh", text)
    assert any("$DOCKER_ARGS" in one.reason for one in linted(("x.sh", text)).unknown)


def test_an_option_that_looks_bare_keeps_its_value() -> None:
    text = (
        "vllm serve org/m --host h --disable-access-log-for-endpoints /metrics --headless -tp 2\n"
    )
    assert options(only(text))["disable-access-log-for-endpoints"] == "/metrics"
    assert not of("vllm-value-invalid", "x.sh", text, "0.33.0")
    assert only("vllm serve --headless org/m\n").model == "org/m"
    assert only("vllm serve --kv-cache-metrics org/m\n").model == "org/m"


def test_words_that_belong_to_nothing_are_said() -> None:
    result = linted(("x.sh", "vllm serve org/m --port 9 left over\n"), version="0.11.2")
    assert sum("belongs to no option" in one.reason for one in result.unknown) == 2


@pytest.mark.parametrize(
    "line",
    [
        "echo now vllm serve org/m", "pgrep -f vllm serve", "vllm serve --help",
        "usage: api_server.py [-h] [--host HOST]", "python api_server.py -h",
        "printf '%s' vllm serve org/m",
    ],
)  # fmt: skip
def test_what_speaks_of_a_server_starts_none(line: str) -> None:
    assert read(line + "\n", "x.sh").launches == ()


def test_a_unit_splits_as_systemd_does() -> None:
    unit = (
        '[Service]\nEnvironment="MORE=--max-num-seqs 4" PORT=9\n'
        "ExecStart=/bin/vllm serve org/m --port ${PORT} \\\n  $MORE $EXTRA\n"
    )
    launch = only(unit, "x.service")
    assert options(launch) == {"port": 9, "max-num-seqs": 4}
    assert launch.open_words == (("$EXTRA", 4),)


def test_the_file_of_a_unit_fills_in_its_words() -> None:
    unit = (
        "[Service]\nEnvironmentFile=/etc/vllm/vllm.env\n"
        "ExecStart=/bin/vllm serve ${MODEL} --port ${PORT} $SERVE_ARGS\n"
    )
    env = "MODEL=org/m\nPORT=99999\nSERVE_ARGS=--nonsense 1\nVLLM_API_KEY=x\n"
    result = linted(("x.service", unit), ("vllm.env", env), version="0.11.2")
    assert {one.id for one in result.findings} >= {UNKNOWN_FLAG, "vllm-value-invalid"}
    assert not any("filled in when" in one.reason for one in result.unknown)


@pytest.mark.parametrize(
    ("published", "exposed"),
    [
        ("${PORT:-8032}:8000", True),
        ("${A:-0.0.0.0}:${B:-${C:-8095}}:8000", True),
        ("${A:-127.0.0.1}:${B:-8095}:8000", False),
        ("${A:+127.0.0.1:}8000:8000", True),
    ],
)
def test_a_published_port_with_a_default_is_known(published: str, exposed: bool) -> None:
    text = WRAPPED.replace("${WHERE:-${PORT:-8032}}:8000", published)
    result = linted(("compose.yaml", text))
    assert ("server-exposed" in {one.id for one in result.findings}) is exposed
    assert not any("publish" in one.subject for one in result.unknown)


def test_every_option_of_a_container_keeps_its_line() -> None:
    script = (
        "docker run --rm \\\n  --gpus all \\\n  --privileged \\\n  -p 1:1 -p 2:2 \\\n  x/vllm m\n"
    )
    box = only(script).container
    assert box is not None
    assert (box.line_of("privileged"), box.line_of("publish", "2:2"), box.line_of("pid")) == (
        3, 4, 1,
    )  # fmt: skip
    box = only(
        "services:\n  a:\n    image: x/vllm\n    privileged: true\n    ports:\n      - 8000:8000\n"
        "      - 8001:8001\n    command: [--model, m]\n",
        "compose.yaml",
    ).container
    assert box is not None
    assert (box.line_of("privileged"), box.line_of("publish", "8001:8001")) == (4, 7)


def test_dollars() -> None:
    known = {"A": "a", "E": ""}
    cases = {
        "$A ${A} $B": "a a $B", "${B:-x}${E:-y}${E-z}": "xy", "${A:+p}${E:+q}${E+r}${B:+s}": "pr",
        "${B:?no} ${A:?no}": "${B:?no} a", "${A%x} ${#A}": "${A%x} ${#A}", "$$A": "$$A",
        "${B:-${C:-${A}}}": "a", "${": "${", "}${A": "}${A", "${B:=v}$B": "vv",
    }  # fmt: skip
    for text, wanted in cases.items():
        assert filled(text, known.get) == wanted, text
    assert filled("$$A $${A}", known.get, double=True) == "$A ${A}"
    assert filled("$x" * 100_000, {"x": "y" * 9000}.get, longest=1000) == "y" * 1000
    assert filled("${B:-" * 5000 + "}" * 5000, known.get).startswith("${B")
    assert may_be_words("$EXTRA_ARGS")
    assert not may_be_words("$MODEL")


def test_a_doubling_script_stays_small() -> None:
    text = 'x="a a a a"\n' + 'x="$x $x"\n' * 40 + "vllm serve m " + "$x " * 2000
    assert max(len(one.words) for one in read_shell(text).commands) <= 4000


def test_what_stands_beside_the_model_is_kept() -> None:
    launch = only("vllm serve org/a --model org/b\n")
    assert (launch.model, launch.positional) == ("org/b", "org/a")
    assert only("vllm serve org/a\n").positional is None
    assert only("python3 -m vllm.entrypoints.api_server --model m\n").entry == "demo"
    assert only("python3 -m vllm.entrypoints.openai.api_server --model m\n").entry == "module"
    for given, kept in (("[]", ""), ("null", None), ("[vllm, serve]", "vllm")):
        text = f"services:\n  a:\n    image: x/vllm\n    entrypoint: {given}\n    command: m\n"
        box = only(text, "compose.yaml").container
        assert box is not None
        assert box.entrypoint == kept


def test_variables_that_the_text_uses_itself() -> None:
    text = "export VLLM_A=1 VLLM_B=${VLLM_B:-2} VLLM_C=3\nvllm serve m --port $VLLM_A\n"
    assert only(text).uses == ("VLLM_A",)


def test_the_shell_of_a_unit_or_a_container_has_its_variables() -> None:
    inside = "bash -c 'exec vllm serve ${MODEL:-org/x} --port $PORT'"
    unit = f"[Service]\nEnvironment=MODEL=org/m PORT=9\nExecStart=/bin/{inside}\n"
    run = f"docker run -e MODEL=org/m -e PORT=9 --entrypoint '' x/vllm {inside}\n"
    for name, text in (("x.service", unit), ("x.sh", run)):
        launch = only(text, name)
        assert launch.model == "org/m"
        assert options(launch) == {"port": 9}
