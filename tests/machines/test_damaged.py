"""Recorded machines with damage anywhere: facts and findings, or an error with a next step."""

from __future__ import annotations

import functools
from datetime import date
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nodeprep.acs.pairs import PairChoice
from nodeprep.acs.plan import plan
from nodeprep.audit.run import audit, unknowns
from nodeprep.errors import NodeprepError, StateError
from nodeprep.facts.collect import collect
from nodeprep.facts.gpus import QUERY
from nodeprep.host.machines import machine_file
from nodeprep.host.replay import ReplayHost, load_snapshot
from nodeprep.model.acs import AcsWrite
from nodeprep.model.readings import NvmlGpu, NvmlPair, NvmlReading
from nodeprep.model.snapshot import RecordedCommand
from nodeprep.settings import Accelerators, Settings

# Few GPUs, switches and NVLink, a guest, a driver known by text only: different ways through.
MACHINES = ("l40s-acs", "a100-nvlink", "kvm-guest", "geforce-gns")
TODAY = date(2026, 11, 1)

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Place = tuple[str | int, ...]

TEXTS = (
    "", "0", "-1", "9" * 19, "9" * 4400, "0x", "0xffff", "ffffffff", "zz", "0000:40:01.1", "a\nb",
    "../../etc/shadow", "\x1b[2J", "\0", "٣", "²", "nan", "-inf", "1e999", "GPU0\tGPU0\nGPU0\t X\n",
    "0000:00:00.0", "pci0000:00", "none [integrity] x", "none", "x" * 70_000, "{{ 7*7 }}",
)  # fmt: skip
NUMBERS = (0, 1, -1, 2, 255, 65_536, 2**31, -(2**63), 2**63, 2**64, 10**30)
CELLS = [*map(str, NUMBERS), "8.9", f"{'9' * 4400}.1", "[N/A]", "9" * 4400, "٣.²", "-", "{{ }}"]
FIELDS = QUERY.partition("=")[2].split(",")
HANDLES = [NvmlGpu(bus_id=f"00000000:{bus}:00.0") for bus in ("43", "44", "45", "46", "e1")]
indices = st.integers(-9, 9)
values = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(NUMBERS),
    st.sampled_from(TEXTS),
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.floats(allow_nan=False, allow_infinity=False),
    st.just([]),
    st.just({}),
    st.just([[]]),
)


@functools.cache
def recorded(name: str) -> bytes:
    return machine_file(name).read_bytes()


@functools.cache
def places(name: str) -> tuple[Place, ...]:
    """Where every value of the document stands."""

    def below(value: Json, at: Place) -> list[Place]:
        if isinstance(value, dict):
            return [at, *(one for key in value for one in below(value[key], (*at, key)))]
        if isinstance(value, list):
            return [at, *(one for n, item in enumerate(value) for one in below(item, (*at, n)))]
        return [at]

    return tuple(below(msgspec.json.decode(recorded(name)), ()))[1:]


def put(document: Json, at: Place, value: Json) -> None:
    """Replaces the value at a place; a place that went with an earlier damage is passed by."""
    for step in at[:-1]:
        document = inside(document, step)
    last = at[-1]
    if isinstance(document, dict) and isinstance(last, str):
        document[last] = value
    if isinstance(document, list) and isinstance(last, int) and last < len(document):
        document[last] = value


def inside(document: Json, step: str | int) -> Json:
    if isinstance(document, dict) and isinstance(step, str):
        return document.get(step)
    if isinstance(document, list) and isinstance(step, int) and step < len(document):
        return document[step]
    return None


def exchanged(text: str, data: st.DataObject) -> str:
    """A text with one stretch of it replaced."""
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, min(len(text), begin + 12)))
    new: str = data.draw(st.sampled_from(TEXTS[:-2]))
    return text[:begin] + new + text[end:]


def looked_at(content: bytes, folder: Path) -> NodeprepError | None:
    """The whole way of `nodeprep audit` and `acs plan`; the error that ended it."""
    path = folder / "snapshot.json"
    path.write_bytes(content)
    try:
        facts = collect(ReplayHost(load_snapshot(path)), Accelerators())
        findings = audit(facts, Settings(), TODAY)
        planned = plan(facts, pairs=PairChoice())
    except NodeprepError as error:
        return error
    assert findings
    assert msgspec.json.encode((facts, findings, unknowns(facts), planned))
    writes = [action for action in planned.actions if isinstance(action, AcsWrite)]
    assert all(write.bdf in facts.functions for write in writes)
    return None


def survives(content: bytes, folder: Path) -> None:
    error = looked_at(content, folder)
    assert error is None or (error.message and error.hint)


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_value_replaced(
    name: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    document = msgspec.json.decode(recorded(name))
    for at in data.draw(st.lists(st.sampled_from(places(name)), min_size=1, max_size=3)):
        put(document, at, data.draw(values))
    survives(msgspec.json.encode(document), tmp_path_factory.getbasetemp())


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_text_changed(
    name: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Damage that keeps the types, so that the file is taken and its answers are read."""
    document = msgspec.json.decode(recorded(name))
    for at in data.draw(st.lists(st.sampled_from(places(name)), min_size=1, max_size=4)):
        found: Json = document
        for step in at:
            found = inside(found, step)
        if isinstance(found, str) and at != ("schema",):
            put(document, at, exchanged(found, data))
        elif isinstance(found, int) and not isinstance(found, bool):
            put(document, at, data.draw(st.sampled_from(NUMBERS)))
    survives(msgspec.json.encode(document), tmp_path_factory.getbasetemp())


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_bytes_of_the_file_overwritten(
    name: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(recorded(name))
    begin = data.draw(st.integers(0, len(content) - 1))
    content[begin : begin + 4] = data.draw(st.binary(max_size=12))
    survives(bytes(content), tmp_path_factory.getbasetemp())


@given(
    st.lists(st.sampled_from(HANDLES), max_size=8),
    st.lists(st.builds(NvmlPair, a=indices, b=indices, nvlinks=st.none() | indices)),
)
def test_any_reading_of_nvml(gpus: list[NvmlGpu], pairs: list[NvmlPair]) -> None:
    """Handles that share an address, pairs of handles that are not there."""
    snapshot = load_snapshot(machine_file("l40s-acs"))
    reading = NvmlReading(driver_version=None, gpus=tuple(gpus), pairs=tuple(pairs))
    facts = collect(ReplayHost(replace(snapshot, nvml=reading)), Accelerators())
    assert len(facts.gpus) >= 4
    assert len(facts.pairs) == len(facts.gpus) * (len(facts.gpus) - 1) // 2
    assert audit(facts, Settings(), TODAY)


@given(
    st.fixed_dictionaries(dict.fromkeys(FIELDS, st.sampled_from(CELLS))),
    st.sampled_from(["X", "PIX", "NV18", "NV", f"NV{'9' * 4400}", "NV²", "NV-1", "?"]),
)
def test_any_answer_of_nvidia_smi(row: dict[str, str], cell: str) -> None:
    """What stands in for NVML, whatever it says: only the addresses are sound."""
    snapshot = load_snapshot(machine_file("l40s-acs"))
    rows = [row | {"pci.bus_id": f"{bus}:00.0"} for bus in ("e1", "e2")]
    table = [", ".join(FIELDS), *(", ".join(one[name] for name in FIELDS) for one in rows)]
    matrix = f"\tGPU0\tGPU1\nGPU0\t X \t{cell}\nGPU1\t{cell}\t X \n"
    query = ("nvidia-smi", QUERY, "--format=csv,nounits")
    commands = (
        RecordedCommand(argv=query, stdout="\n".join(table)),
        RecordedCommand(argv=("nvidia-smi", "topo", "-m"), stdout=matrix),
    )
    told = replace(snapshot, nvml=None, programs=("nvidia-smi",), commands=commands)
    facts = collect(ReplayHost(told), Accelerators())
    assert msgspec.json.encode(facts)
    assert 4 <= len(facts.gpus) <= 6


@pytest.mark.parametrize("name", MACHINES)
def test_undamaged_it_is_taken(name: str, tmp_path: Path) -> None:
    assert looked_at(recorded(name), tmp_path) is None


@pytest.mark.parametrize(
    "content",
    [
        b'{"a":' * 100_000,
        b"[" * 100_000,
        b'{"schema": "nodeprep.snapshot/1", "notes": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b'{"schema": "nodeprep.snapshot/1", "tool_version": "\\ud800 and more text"}',
        b'{"schema": "nodeprep.snapshot/1", "is_root": ' + b"9" * 50_000 + b"}",
        b'{"schema": 1}',
        b'\xef\xbb\xbf{"schema": "nodeprep.snapshot/1"}',
    ],
    ids=["objects", "arrays", "nested", "half a pair", "number", "schema", "mark"],
)
def test_a_hostile_file_is_refused(content: bytes, tmp_path: Path) -> None:
    error = looked_at(content, tmp_path)
    assert isinstance(error, StateError)
    assert error.hint


@pytest.mark.parametrize("word", ["", "zzzz", "0x1d", "1d", "001D", "-01d", "9" * 5000, "٠٠١٣"])
def test_a_damaged_register_file_is_refused(word: str, tmp_path: Path) -> None:
    """The file beside a recorded machine that keeps what was written to it."""
    snapshot = load_snapshot(machine_file("l40s-acs"))
    file = tmp_path / "registers.json"
    words = {"0000:42:00.0": word}
    file.write_bytes(msgspec.json.encode({"boot_id": snapshot.boot_id, "words": words}))
    with pytest.raises(StateError, match="damaged") as caught:
        ReplayHost(snapshot, file)
    assert caught.value.hint
