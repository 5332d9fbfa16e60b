"""Any text, in any place: one valid value in every file, or a clear refusal."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeprep.errors import UsageError
from nodeprep.model.serving import Knob, ServingConfig
from nodeprep.serving import text
from nodeprep.serving.render import render, write
from tests.serving import readback
from tests.serving.test_render import source_case

SPECIAL = "'\"\\ \t\n\r\0%$`{}[]()<>|&;#!~*?=:,@-_./\x7f\x85\u2028\u202e\ufeff\ud800ä模🦙"
words = st.text(st.one_of(st.sampled_from(SPECIAL), st.characters()), max_size=40)
mild = st.text(
    st.sampled_from("abz09 '\"\\%$`{}[]()<>|&;#!~*?=:,@-_./ä模🦙"), min_size=1, max_size=30
)
either = st.one_of(words, mild, mild.map(lambda one: "org/" + one), mild.map(lambda one: "/" + one))
numbers = st.one_of(st.integers(), st.floats(), st.booleans())

BASE = source_case()


def hostile(model: str, path: str, option: str | int | float, variable: str) -> ServingConfig:
    reasons = {"reason": model, "source": path}
    return msgspec.structs.replace(
        BASE,
        model=model,
        cache_dir=path,
        node=variable,
        options=(Knob(name="served-model-name", value=option, **reasons),),
        env=(Knob(name="NCCL_X", value=variable, **reasons),),
        left_out=(Knob(name=model, value=variable, **reasons),),
    )


@settings(max_examples=200, deadline=None)
@given(model=either, path=either, option=st.one_of(either, numbers), variable=either)
def test_every_reader_sees_the_same_value_or_the_text_is_refused(
    model: str, path: str, option: str | int | float, variable: str
) -> None:
    if option is False:
        option = True
    config = hostile(model, path, option, variable)
    try:
        files = render(config)
    except UsageError as error:
        harmless(error)
        return
    assert readback.from_yaml(files["vllm.yaml"]) == {"served-model-name": option}
    assert readback.from_json(files["vllm.json"]) == (model, {"served-model-name": option})
    assert readback.from_env(files["vllm.env"]) == {"NCCL_X": variable}
    service = readback.from_compose(files["compose.yaml"])
    assert service["command"][1] == model
    assert service["environment"]["NCCL_X"] == variable
    assert service["volumes"][0]["source"] == path
    line = readback.unit_value(files["vllm-bare.service"], "ExecStart")
    assert readback.unit_words(line)[3] == model
    for unit in ("vllm.service", "vllm-podman.service"):
        made = [one for one in files[unit].splitlines() if one.startswith("ExecStartPre=+")]
        assert readback.unit_words(made[0].partition("=+")[2])[-1] == path
    for name, written in files.items():
        if name.endswith((".service", ".env", ".sh")):
            assert all(one.isprintable() for one in written.split("\n")), name


@settings(max_examples=25, deadline=None)
@given(model=mild.map(lambda one: "org/" + one), path=mild.map(lambda one: "/" + one))
def test_the_shell_sees_the_same_value(model: str, path: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        config = hostile(model, str(place / "cache") + path, "x", "y")
        config = msgspec.structs.replace(config, api_key_file="")
        try:
            files = render(config)
        except UsageError:
            return
        write(files, place)
        argv = readback.from_script(place)
        image = argv.index(config.image)
        assert argv[image + 2] == model
        assert f"type=bind,source={config.cache_dir},target=/cache" in argv
        podman = readback.from_script(place, engine="podman")
        assert podman[podman.index(config.image) + 2] == model
        assert f"type=bind,source={config.cache_dir},target=/cache" in podman
        assert sorted(one.name for one in place.iterdir()) == sorted(
            [*files, "tools", "argv", "cache"]
        )


@given(value=st.one_of(numbers, words))
def test_yaml_scalars_come_back(value: bool | int | float | str) -> None:
    try:
        written = text.yaml_scalar(value)
    except UsageError:
        assert not (isinstance(value, str) and value.isprintable() and len(value) < 4096)
        return
    loaded = yaml.safe_load(f"key: {written}")["key"]
    if isinstance(value, float) and not isinstance(loaded, float):
        raise AssertionError(f"{value!r} came back as {loaded!r}")
    assert loaded == value
    assert type(loaded) is type(value)


@given(value=words)
def test_comments_stay_on_their_line(value: str) -> None:
    assert text.comment(value).isprintable()


@given(value=words)
def test_refusals_can_be_printed(value: str) -> None:
    for check in (text.model_name, text.image_name, text.variable_name, text.address):
        refused(check, value)


def refused(check: Callable[[str], str], value: str) -> None:
    try:
        assert check(value)
    except UsageError as error:
        harmless(error)


def harmless(error: UsageError) -> None:
    assert error.message.isprintable()


@settings(max_examples=100, deadline=None)
@given(folder=either, program=either)
def test_folder_and_program_stay_one_word_of_the_boot_unit(folder: str, program: str) -> None:
    try:
        files = render(BASE, install_dir=folder, program=program)
    except UsageError as error:
        harmless(error)
        return
    words = readback.unit_words(readback.unit_value(files["nodeprep.service"], "ExecStart"))
    assert words[:2] == [program, "bringup"]
    if "-o" in words:
        assert words[words.index("-o") + 1] == folder
    line = readback.unit_value(files["vllm-podman.service"], "ExecStart")
    assert readback.unit_words(line)[2] == f"{folder}/podman-run.sh"
    for text_of_unit in (one for name, one in files.items() if name.endswith(".service")):
        assert all(one.isprintable() for one in text_of_unit.split("\n"))
