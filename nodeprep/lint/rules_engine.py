"""Settings that cannot stand together, or that do not do what they look like; pure."""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.lint.image import accelerator
from nodeprep.lint.said import CRITICAL, INFO, WARNING, say
from nodeprep.lint.server import Server
from nodeprep.model.finding import Finding
from nodeprep.serving.architecture import generation

_CONFLICT = "vllm-options-conflict"
_NO_EFFECT = "vllm-setting-without-effect"
_ALLOC = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_SPLIT = "max_split_size_mb"
_CONNECTORS = ("kv-transfer-config", "kv-offloading-size")
_SIZES = (2, 4, 6, 8, 16)
_AUTOMATIC_FP8_FROM = (0, 11, 2)
_BACKEND_FLAG_FROM = (0, 13, 0)


def sequences(server: Server) -> Iterator[Finding]:
    """The engine refuses fewer tokens of a step than sequences."""
    tokens, most = server.number("max-num-batched-tokens"), server.number("max-num-seqs")
    if tokens is not None and most is not None and tokens < most:
        yield say(
            server, _CONFLICT, CRITICAL, "--max-num-batched-tokens",
            f"max-num-batched-tokens {tokens} is below max-num-seqs {most}: the engine refuses "
            "to start",
            cause="every sequence of a step needs at least one token (config/scheduler.py)",
            do=f"raise it to {most} at least, or lower max-num-seqs",
            line=server.line("max-num-batched-tokens"),
        )  # fmt: skip
    length = server.number("max-model-len")
    whole = server.value("enable-chunked-prefill") is False or (
        server.release < (0, 8, 0) and server.value("enable-chunked-prefill") is not True
        and length is not None and length <= 32768 and server.complete
    )  # fmt: skip
    if whole and tokens is not None and length is not None and tokens < length:
        yield say(
            server, _CONFLICT, CRITICAL, "--max-num-batched-tokens",
            f"max-num-batched-tokens {tokens} is below max-model-len {length} without chunked "
            "prefill: the engine refuses to start",
            cause="a prompt must fit into one step when it is not cut",
            do="enable chunked prefill", line=server.line("max-num-batched-tokens"),
        )  # fmt: skip


def own_all_reduce(server: Server) -> tuple[bool | None, str]:
    """Whether vLLM's own all-reduce kernel runs, and why; None: it depends on the node."""
    size = server.tensor_parallel
    if server.unresolved("tensor-parallel-size"):
        return None, "the number of GPUs is not known"
    if size < 2:
        return False, "one GPU"
    if server.value("disable-custom-all-reduce") is True:
        return False, "--disable-custom-all-reduce"
    if size not in _SIZES:
        return False, f"vLLM has no variant for {size} GPUs"
    if server.node.nvlink is None:
        return None, f"{size} GPUs: it runs over NVLink, and over PCIe between two GPUs only"
    if size > 2 and not server.node.nvlink:
        return False, f"{size} GPUs without NVLink: vLLM leaves it out by itself"
    return True, "NVLink" if server.node.nvlink else "two GPUs with peer access"


def allocator(server: Server) -> Iterator[Finding]:
    """Expandable segments against vLLM's own all-reduce and KV connectors."""
    for name in _ALLOC:
        value = server.env.get(name, "")
        if "expandable_segments:true" not in value.lower():
            continue
        yield from _expandable(server, name, value)
        if _SPLIT in value:
            yield say(
                server, _NO_EFFECT, WARNING, name,
                f"{_SPLIT} has no effect beside expandable_segments",
                cause="it bounds the splitting of fixed segments, and there are none",
                do="set expandable_segments:True alone", line=_env_line(server, name),
                text=f"{name}={value}",
            )  # fmt: skip
        if name == "PYTORCH_ALLOC_CONF":
            yield say(
                server, _NO_EFFECT, INFO, name,
                f"{name}: torch 2.9.1 ignores this name for expandable_segments",
                cause="PyTorch issue 183387", do="use PYTORCH_CUDA_ALLOC_CONF",
                line=_env_line(server, name), text=f"{name}={value}",
            )  # fmt: skip


def _expandable(server: Server, name: str, value: str) -> Iterator[Finding]:
    line, text = _env_line(server, name), f"{name}={value}"
    connector = next((one for one in _CONNECTORS if one in server.options), None)
    if connector is not None:
        yield say(
            server, _CONFLICT, CRITICAL, name,
            f"expandable segments with --{connector}: the engine refuses to start",
            cause="a KV connector registers cache memory, which cannot be expandable",
            do=f"remove {name}", line=line, text=text,
        )  # fmt: skip
    if not server.complete:
        return
    active, why = own_all_reduce(server)
    if active is False and (server.tensor_parallel < 2 or why.startswith("--")):
        return
    severity = {True: CRITICAL, None: WARNING, False: INFO}[active]
    what = {
        True: "the ranks end with 'invalid argument' at start",
        None: "where that kernel runs the ranks end with 'invalid argument' at start",
        False: "safe here, but only because of that; said by name it is certain",
    }[active]
    yield say(
        server, _CONFLICT, severity, name,
        f"expandable segments beside vLLM's own all-reduce ({why}): {what}",
        cause="such memory cannot be shared over CUDA IPC, which that kernel needs "
        "(vLLM issue 42609)",
        do="add --disable-custom-all-reduce, or leave expandable segments out",
        line=line, text=text,
    )  # fmt: skip


def fp8_kv(server: Server) -> Iterator[Finding]:
    """FP8 keys and values need a backend that reads them on that GPU in that release."""
    asked = str(server.value("kv-cache-dtype") or "auto")
    if not asked.startswith("fp8") or not server.complete or accelerator(server) is not None:
        return
    cc, release = server.node.capability, server.release
    where = generation(cc) if cc is not None else "GPUs before Hopper"
    backend = str(server.value("attention-backend") or server.env.get("VLLM_ATTENTION_BACKEND", ""))
    hopper = cc is not None and cc[0] == 9
    if cc is not None and cc < (8, 0):
        said = (CRITICAL, f"no attention backend reads it on {where}", "use kv-cache-dtype auto")
    elif "FLASHINFER" in backend.upper() or (hopper and release >= (0, 8, 0)):
        return
    elif release < (0, 8, 0):
        said = (
            WARNING,
            "the engine falls to XFORMERS, with which gsm8k was measured at 0.40 on L40S",
            "set VLLM_ATTENTION_BACKEND=FLASHINFER",
        )
    elif release < (0, 10, 2):
        said = (
            WARNING, f"on {where} this release falls back to engine V0",
            "run 0.11.2 or later, which choose the backend themselves",
        )  # fmt: skip
    elif release < _AUTOMATIC_FP8_FROM:
        said = (
            WARNING, f"FlashAttention cannot read it on {where}, and this release looks no further",
            "set VLLM_ATTENTION_BACKEND=FLASHINFER",
        )  # fmt: skip
    elif cc is not None and cc < (8, 9):
        flag = (
            "--attention-backend FLASHINFER"
            if release >= _BACKEND_FLAG_FROM
            else ("VLLM_ATTENTION_BACKEND=FLASHINFER")
        )
        said = (CRITICAL, f"on {where} only FlashInfer reads it; Triton refuses", f"set {flag}")
    else:
        return
    severity, what, do = said
    yield say(
        server, _CONFLICT, severity, "--kv-cache-dtype",
        f"kv-cache-dtype {asked} with vLLM {server.version}: {what}",
        cause="which backend reads FP8 keys and values depends on GPU and release "
        "(platforms/cuda.py, PR 24577)",
        do=do, line=server.line("kv-cache-dtype"),
    )  # fmt: skip


def kv_scales(server: Server) -> Iterator[Finding]:
    if server.value("calculate-kv-scales") is not True:
        return
    if server.release < (0, 8, 0):
        what = "the FlashInfer backend of this release takes no scales from a batch: they stay 1.0"
    elif server.release < _AUTOMATIC_FP8_FROM:
        what = "the engine of this release does not honour it (0.8.2 crashed)"
    elif server.options.get("kv-cache-dtype") is None and server.complete:
        what = "only FP8 keys and values have scales"
    else:
        return
    yield say(
        server, _NO_EFFECT, INFO, "--calculate-kv-scales", f"calculate-kv-scales: {what}",
        cause="attention/backends of the release", do="use a checkpoint that carries KV scales",
        line=server.line("calculate-kv-scales"),
    )  # fmt: skip


def trust(server: Server) -> Iterator[Finding]:
    if server.value("trust-remote-code") is True:
        yield say(
            server, "container-privileges", WARNING, "--trust-remote-code",
            "trust-remote-code runs whatever Python the model's repository holds",
            cause="the code is downloaded with the model and runs as the server",
            do="remove it, or pin the revision with --revision and --code-revision",
            line=server.line("trust-remote-code"),
        )  # fmt: skip


def _env_line(server: Server, name: str) -> int | None:
    found = server.launch.variable(name)
    return None if found is None else found.line


RULES = (sequences, allocator, fp8_kv, kv_scales, trust)
