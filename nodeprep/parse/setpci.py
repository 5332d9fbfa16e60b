"""What `setpci` prints when a register is read or written, in every form it gets pasted in.

    001d                                                     plain: one word a line
    0000:40:01.1 001d        40:01.1: 001d      40:01.1 ECAP_ACS+6.w = 001d      a shell loop's
    0000:40:01.1 (ecap 000d @2a0) @2a6 = 001d                -v, read
    0000:40:01.1 (ecap 000d @2a0) @2a6 001d->(0000:002c)->0011    -v, masked write (or -D)
    0000:40:01.1 (ecap 000d @2a0) @2a6 0000                  -v, plain write (or -D)
    setpci: 0000:41:00.0: Instance #0 of Extended capability 000d not found - ...

Exit status 0 of setpci proves nothing: refused writes and selectors without a device end in 0 too.
"""

from __future__ import annotations

import re

import msgspec

from nodeprep.errors import ParseError
from nodeprep.model.pci import Bdf, parse_bdf
from nodeprep.model.setpci import SetpciRecord, SetpciTrouble
from nodeprep.parse.text import clean_lines

MAX_RECORDS = 100_000
_LONGEST = 512

_NUMBER = r"(?:[0-9a-f]{8}|[0-9a-f]{4}|[0-9a-f]{2})"
_BDF = r"(?P<bdf>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7])"
_WORD = re.compile(rf"(?:0x)?(?P<word>{_NUMBER})", re.IGNORECASE)
_BARE = re.compile(r"(?:0x)?(?P<word>[0-9a-f]{8}|[0-9a-f]{4})", re.IGNORECASE)
_ADDRESS = re.compile(_BDF + r"(?![0-9a-z.])", re.IGNORECASE)
_VERBOSE = re.compile(
    rf"(?:{_BDF}\s+)?(?:\((?P<cap>e?cap [0-9a-f]{{2,4}}) @(?P<at>[0-9a-f]{{2,3}})\)\s+)?"
    r"@(?P<offset>[0-9a-f]{2,3})\s+"
    rf"(?:= (?P<read>{_NUMBER})"
    rf"|(?P<before>{_NUMBER})->\({_NUMBER}:(?P<mask>{_NUMBER})\)->(?P<after>{_NUMBER})"
    rf"|(?P<written>{_NUMBER}))",
    re.IGNORECASE,
)
_ASKED = re.compile(r"(?P<register>[A-Z_][\w@+]{1,30}\.[bwl])(?P<write>=)?", re.IGNORECASE)
_SELECTOR = re.compile(rf"-s\s*[\"']?{_BDF}(?=[\s\"']|$)", re.IGNORECASE)
_COMMAND = re.compile(r"(?:^|[\s$#>+(`])setpci\s+-")
# What loops and people put between an address and its value.
_PUNCTUATION = str.maketrans("=:|,", "    ")
_LABEL = re.compile(
    r"-|E?CAP\S*[.][bwl]|ACS|(?:ACS)?_?(?:Ctl|Ctrl|Control|word|value)", re.IGNORECASE
)
_ARROW = re.compile(r"-+>|=+>|\u2192")

_TROUBLES = (
    (("capability", "not found"), SetpciTrouble.NO_CAPABILITY),
    (("no devices selected",), SetpciTrouble.NO_DEVICE),
    (("not permitted",), SetpciTrouble.DENIED),
    (("permission denied",), SetpciTrouble.DENIED),
    (("cannot open",), SetpciTrouble.DENIED),
    (("command not found",), SetpciTrouble.OTHER),
    (("setpci: ",), SetpciTrouble.OTHER),
    (("pcilib: ",), SetpciTrouble.OTHER),
)
_SPEAKERS = ("setpci", "pcilib")


def parse_setpci(text: str) -> tuple[SetpciRecord, ...]:
    """One record a value or complaint, in the order of the text.

    A bare word belongs to the address of the line above when that line holds nothing else, or to
    the address of the command above.  Raises ParseError when there is neither value nor complaint.
    """
    reader = _Reader()
    for line in clean_lines(text):
        stripped = line.strip()
        if stripped:
            reader.line(stripped[:_LONGEST])
    records = reader.finish()
    if not any(record.trouble is not SetpciTrouble.NO_ANSWER for record in records):
        raise ParseError(
            "no output of setpci in the text", hint="run as root: setpci -v -s ADDRESS ECAP_ACS+6.w"
        )
    return records


def parse_setpci_document(text: str) -> dict[str, object]:
    """`{"records": [...]}` with register words as hex, for `nodeprep parse setpci`."""
    return {"records": [_document(record) for record in parse_setpci(text)]}


class _Reader:
    """Joins words with the address or the command above them."""

    def __init__(self) -> None:
        self.records: list[SetpciRecord] = []
        self.asked: tuple[Bdf | None, str | None] = (None, None)
        """Address and register of the command above; they hold for the words that follow."""
        self.alone: Bdf | None = None
        """An address on a line of its own, whose value may come in the next."""

    def line(self, line: str) -> None:
        record = self._record(line)
        if record is None:
            return
        self._give_up_address()
        self.records.append(record)
        if len(self.records) > MAX_RECORDS:
            raise ParseError(
                f"more than {MAX_RECORDS:,} registers", hint="keep the output of one command"
            )

    def finish(self) -> tuple[SetpciRecord, ...]:
        self._give_up_address()
        return tuple(self.records)

    def _record(self, line: str) -> SetpciRecord | None:
        if "setpci" in line and _COMMAND.search(line) is not None:
            self._give_up_address()
            self.asked = _asked(line)
            return None
        trouble = _trouble_of(line)
        if trouble is not None:
            return self._trouble(line, trouble)
        verbose = _VERBOSE.fullmatch(line) if "@" in line else None
        if verbose is not None:
            return _verbose(verbose)
        return self._plain(line)

    def _trouble(self, line: str, trouble: SetpciTrouble) -> SetpciRecord:
        named = _ADDRESS.search(line)
        bdf = _bdf(named["bdf"]) if named is not None else (self.alone or self.asked[0])
        self.alone = None
        return SetpciRecord(bdf=bdf, register=self.asked[1], trouble=trouble, message=line[:200])

    def _plain(self, line: str) -> SetpciRecord | None:
        """A bare word, or an address with a word (or a change of words) behind it."""
        named = _ADDRESS.match(line)
        if named is None:
            word = _BARE.fullmatch(line)
            if word is None:
                return None
            bdf, self.alone = self.alone or self.asked[0], None
            return _value(word["word"], bdf=bdf, register=self.asked[1])
        return self._after_address(_bdf(named["bdf"]), line[named.end() :])

    def _after_address(self, bdf: Bdf | None, text: str) -> SetpciRecord | None:
        words = text.translate(_PUNCTUATION).split()
        register = next((word for word in words if _ASKED.fullmatch(word)), self.asked[1])
        rest = [word for word in words if not _LABEL.fullmatch(word)]
        if not rest:
            self._give_up_address()
            self.alone = bdf
            return None
        values = [_WORD.fullmatch(word) for word in rest if not _ARROW.fullmatch(word)]
        arrows = len(rest) - len(values)
        if None in values or (len(values), arrows) not in ((1, 0), (1, 1), (2, 1)):
            return None
        shown = [value["word"] for value in values if value is not None]
        return _value(
            shown[-1], bdf=bdf, register=register, before=shown[0] if len(shown) == 2 else None
        )

    def _give_up_address(self) -> None:
        """An address that no value followed: setpci failed, and its complaint went elsewhere."""
        if self.alone is not None:
            self.records.append(SetpciRecord(bdf=self.alone, trouble=SetpciTrouble.NO_ANSWER))
        self.alone = None


def _trouble_of(line: str) -> SetpciTrouble | None:
    """What a complaint of setpci, of its library, or of the shell about it, is about."""
    if not any(speaker in line for speaker in _SPEAKERS):
        return None
    lower = line.lower()
    return next(
        (trouble for words, trouble in _TROUBLES if all(word in lower for word in words)), None
    )


def _asked(line: str) -> tuple[Bdf | None, str | None]:
    """Address and register of a setpci command; a write prints nothing that could follow."""
    registers = list(_ASKED.finditer(line))
    if any(match["write"] for match in registers):
        return None, None
    selector = _SELECTOR.search(line)
    names = {match["register"] for match in registers}
    return (
        _bdf(selector["bdf"]) if selector is not None else None,
        names.pop() if len(names) == 1 else None,
    )


def _verbose(match: re.Match[str]) -> SetpciRecord:
    record = _value(
        match["read"] or match["after"] or match["written"],
        bdf=_bdf(match["bdf"]),
        before=match["before"],
    )
    return msgspec.structs.replace(
        record,
        capability=match["cap"],
        capability_offset=_number(match["at"]),
        offset=_number(match["offset"]),
        mask=_number(match["mask"]),
        is_write=match["read"] is None,
    )


def _value(
    word: str, *, bdf: Bdf | None, register: str | None = None, before: str | None = None
) -> SetpciRecord:
    value = int(word, 16)
    gone = len(word) >= 4 and value == (1 << 4 * len(word)) - 1
    return SetpciRecord(
        bdf=bdf,
        register=register,
        width_bits=4 * len(word),
        value=None if gone else value,
        before=_number(before),
        is_write=before is not None,
        trouble=SetpciTrouble.ALL_ONES if gone else None,
    )


def _bdf(text: str | None) -> Bdf | None:
    try:
        return None if text is None else parse_bdf(text)
    except ParseError:
        return None


def _number(text: str | None) -> int | None:
    return None if text is None else int(text, 16)


def _document(record: SetpciRecord) -> dict[str, object]:
    document: dict[str, object] = msgspec.to_builtins(record)
    digits = (record.width_bits or 16) // 4
    for key in ("value", "before", "mask"):
        number = document[key]
        document[key] = f"{number:0{digits}x}" if isinstance(number, int) else None
    return document
