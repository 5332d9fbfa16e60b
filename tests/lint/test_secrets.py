"""A secret is named where it stands in clear, and printed nowhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nodeprep.lint.secrets import is_in_clear, is_placeholder, option_is_secret
from nodeprep.serving import flags
from tests.lint.base import linted, of

NEWEST = flags.newest()
KEY = "zq9-very-own-key"
SECRETS = (KEY, "hf_abcdefghijklmnop1234", "sk-0123456789abcdefghij")


def compose(*items: str, environment: str = "") -> str:
    words = "".join(f"      - {one}\n" for one in items)
    return (
        "services:\n  vllm:\n    image: vllm/vllm-openai:v0.11.2\n"
        f"    ports: ['127.0.0.1:8000:8000']\n{environment}    command:\n{words}"
    )


FILES = [
    ("c.yml", compose("--model=org/m", f"--api-key {KEY}")),
    ("c.yml", compose("--model=org/m", f"--api_key {KEY}", "--nonsense")),
    ("c.yml", compose("--model=org/m", f'"--api-key={KEY} {KEY}-2"')),
    ("c.yml", compose("--model=org/m", f"--api-key {KEY}=x")),
    ("c.yml", compose("--model=org/m", f"--hf-token {SECRETS[1]}")),
    ("c.yml", compose("--model=org/m", f"--api-keys {SECRETS[2]}")),
    ("c.yml", compose("--model=m", environment=f"    environment: [HF_TOKEN={SECRETS[1]}]\n")),
    ("x.sh", f"VLLM_API_KEY={KEY} vllm serve org/m --nonsense {KEY}\n"),
    ("x.sh", f"VLLM_SECRET_KEYS={KEY} vllm serve org/m\n"),
    ("x.sh", f"vllm serve org/m --api-key {KEY} --api-key {KEY}\n"),
    ("x.sh", f"vllm serve org/m --api-key={KEY}\n"),
    ("x.sh", f"vllm serve org/m --huggingface-token {KEY}\n"),
    ("x.sh", f"vllm serve org/m --download-dir {SECRETS[1]} --nonsense {SECRETS[2]}\n"),
    ("x.sh", f"docker run -eHF_TOKEN={SECRETS[1]} vllm/vllm-openai --api-key {KEY}\n"),
    ("x.service", f"[Service]\nEnvironment=HF_TOKEN={KEY}\nExecStart=/b/vllm serve org/m\n"),
    ("x.service", f"[Service]\nExecStart=/b/vllm serve org/m --api-key {KEY}\n"),
    ("v.yaml", f"model: org/m\napi-key: {KEY}\n"),
    ("v.yaml", f"model: org/m\napi-key: {KEY}\napi-key: {KEY}\n"),
    ("v.yaml", f"model: org/m\napi-key-x: {KEY}\n"),
    ("x.env", f"VLLM_API_KEY={KEY}\nVLLM_APIKEY={KEY}\n"),
    ("v.json", json.dumps({"model": "org/m", "api_key": KEY})),
]


DAMAGED = [
    ("v.yaml", f"model: org/m\napi-key: {KEY}: x\n"),
    ("v.yaml", f'model: org/m\n"api-key": "{KEY}\n'),
    ("v.json", '{"model": "m", "api-key": "' + KEY + '",}'),
    ("x.sh", f'vllm serve m --api-key "{KEY}\n'),
    ("x.env", f"VLLM_API_KEY {KEY}\nHF_TOKEN={KEY}\n{KEY}\n"),
]
"""What cannot be read as what it says it is."""


def test_no_finding_holds_a_secret() -> None:
    for name, text in FILES:
        result = linted((name, text))
        assert result.findings
        assert not any(one in str(result) for one in SECRETS), text


@pytest.mark.parametrize("form", ["text", "brief", "json"])
def test_no_report_prints_a_secret(form: str, tmp_path: Path) -> None:
    for number, (name, text) in enumerate(FILES + DAMAGED):
        (tmp_path / f"{number}-{name}").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "nodeprep", "lint", ".", "--format", form],
        capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert "--api-key" in done.stdout
    assert not any(one in done.stdout + done.stderr for one in SECRETS)


def test_an_option_and_its_value_in_one_item() -> None:
    text = compose("--model=org/m", f"--api-key {KEY}", "--dtype auto")
    found = of("vllm-flag-unknown", "c.yml", text)
    assert len(found) == 2
    assert all(one.startswith("critical") and "one word with a blank" in one for one in found)
    assert [one.subject for one in linted(("c.yml", text)).findings][:2] == ["--api-key", "--dtype"]
    assert of("secret-in-plain-sight", "c.yml", text)
    assert not of("server-without-key", "c.yml", text)


def test_a_secret_is_hidden_in_what_is_said_of_two_forms() -> None:
    manifest = json.dumps({"model": "org/m", "tensor-parallel-size": 2})
    text = compose("--model=org/m", "--tensor-parallel-size=4", f"--api-key {KEY}")
    result = linted(("d/v.json", manifest), ("d/c.yml", text))
    assert "vllm-forms-differ" in {one.id for one in result.findings}
    assert KEY not in str(result)


@pytest.mark.parametrize(
    ("name", "text", "where", "not_where"),
    [
        ("x.sh", f"vllm serve org/m --api-key {KEY}\n", "`ps`", "docker"),
        ("x.sh", f"HF_TOKEN={KEY} vllm serve org/m\n", "script", "docker"),
        ("x.service", f"[Service]\nEnvironment=HF_TOKEN={KEY}\nExecStart=/b/vllm serve org/m\n",
         "systemctl show", "docker"),
        ("v.yaml", f"model: org/m\napi-key: {KEY}\n", "in the file", "`ps`"),
        ("c.yml", compose("--model=org/m", environment=f"    environment: [HF_TOKEN={KEY}]\n"),
         "docker inspect", "`ps`"),
    ],
)  # fmt: skip
def test_where_a_secret_is_seen_depends_on_the_form(
    name: str, text: str, where: str, not_where: str
) -> None:
    [found] = of("secret-in-plain-sight", name, text)
    assert where in found
    assert not_where not in found


@pytest.mark.parametrize(
    "text",
    ["<key>", "<your HF token>", "xxxx", "hf_xxxxxxxxxxxx", "hf_*****", "hf_Ke......", "sk-xxx",
     "your-key-here", "YOUR_HF_TOKEN", "my-secret-key", "${HF_TOKEN}", "{{ token }}", "changeme",
     "/run/secrets/key", ""],
)  # fmt: skip
def test_what_only_holds_the_place_of_a_secret(text: str) -> None:
    assert not is_in_clear(text)
    line = f"vllm serve org/m --api-key '{text}'\n" if "$" not in text else "vllm serve org/m\n"
    assert not of("secret-in-plain-sight", "x.sh", line, NEWEST)


def test_what_is_a_secret_all_the_same() -> None:
    for text in ("EMPTY", "token-abc123", "secret", "12345", "hf_abcdefghijklmnop", "a.b.c"):
        assert is_in_clear(text)
        assert not is_placeholder(text)


def test_names_of_secrets() -> None:
    assert option_is_secret("--api_key")
    assert option_is_secret("api-key abc")
    assert option_is_secret("api-keyabc")
    assert option_is_secret("huggingface-token")
    for name in ("max-num-batched-tokens", "tokenizer", "ssl-keyfile", "spec-tokens"):
        assert not option_is_secret(name)


def test_a_variable_as_argument_ends_in_ps() -> None:
    text = 'vllm serve org/m --api-key "$MY_KEY"\n'
    [found] = of("secret-in-plain-sight", "x.sh", text, NEWEST)
    assert "`ps`" in found
    assert not of("server-without-key", "x.sh", text, NEWEST)


def test_a_unit_that_never_sets_the_variable_has_no_key() -> None:
    unit = '[Service]\n{}ExecStart=/b/vllm serve org/m --host 127.0.0.1 --api-key "$MY_KEY"\n'
    [found] = of("server-without-key", "x.service", unit.format(""), NEWEST)
    assert "MY_KEY" in found
    for line in ("Environment=MY_KEY=abc\n", "EnvironmentFile=/etc/key.env\n"):
        assert not of("server-without-key", "x.service", unit.format(line), NEWEST)


def test_an_empty_key_is_none() -> None:
    assert of("server-without-key", "x.sh", "vllm serve org/m --api-key ''\n", NEWEST)
