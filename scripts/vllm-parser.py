"""Runs the argument parser of one vLLM release, without its compiled modules and without a server.

    python vllm-parser.py dump SOURCES
        every flag of `vllm serve` as JSON
    python vllm-parser.py parse SOURCES < ARGVS
        ARGVS is a JSON list of argument vectors of `vllm`; prints what the parser made of each

SOURCES is a folder that holds the package `vllm`: the *.py files of a wheel are enough.  `-` takes
the release installed in this environment.  The environment needs what vLLM imports (torch,
transformers...), as scripts/vllm-cpu-env makes it; it need not be of the same release.
"""

import argparse
import ast
import contextlib
import importlib
import importlib.machinery
import io
import json
import os
import sys
from pathlib import Path
from unittest.mock import MagicMock

STANDS_IN = ("gguf", "diskcache")
"""Modules that some releases import and that no parser needs."""

PARSERS = ("vllm.utils.argparse_utils", "vllm.utils")
BUILDERS = (
    "vllm.entrypoints.openai.cli_args",
    "vllm.entrypoints.serve.cli_args",
    "vllm.entrypoints.launchers.cli_args",
    "vllm.entrypoints.common.cli_args",
)


class StandIns:
    """Imports that give a mock instead of a module that is not installed."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in STANDS_IN:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = MagicMock(name=spec.name)
        module.__path__, module.__spec__, module.__name__ = [], spec, spec.name
        module.__version__ = "9.9"
        return module

    def exec_module(self, module):
        pass


def first_of(modules, attribute):
    errors = []
    for module in modules:
        try:
            return getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            errors.append(f"{module}: {error}")
    sys.exit(f"no {attribute} in this release: " + "; ".join(errors))


def register_twice():
    """Some releases register models that a newer transformers has by itself."""
    with contextlib.suppress(ImportError):
        import transformers

        register = transformers.AutoConfig.register
        transformers.AutoConfig.register = staticmethod(
            lambda name, config, exist_ok=False: register(name, config, exist_ok=True)
        )


def described(action):
    """One flag as the table's maker takes it."""
    names = [one for one in action.option_strings if one.startswith("--")]
    return names[0], {
        "type": getattr(action.type, "__name__", repr(action.type))[:60] if action.type else None,
        "action": type(action).__name__,
        "choices": [str(one) for one in action.choices] if action.choices else None,
        "default": repr(action.default)[:200],
        "aliases": [one for one in action.option_strings if one != names[0]],
    }


def env_names(sources):
    """Variables that vllm/envs.py defines, read without running it."""
    file = Path(sources) / "vllm" / "envs.py"
    if not file.exists():
        return []
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        target = getattr(node, "target", None) or next(iter(getattr(node, "targets", [])), None)
        if getattr(target, "id", None) == "environment_variables":
            found |= {key.value for key in node.value.keys if isinstance(key, ast.Constant)}
    return sorted(one for one in found if one.startswith("VLLM_"))


def dump(sources):
    parser = first_of(BUILDERS, "make_arg_parser")(
        first_of(PARSERS, "FlexibleArgumentParser")()
    )
    flags = dict(
        described(action)
        for action in parser._actions
        if any(one.startswith("--") for one in action.option_strings)
    )
    return {"flags": flags, "env": env_names(sources)}


def top_parser():
    """The parser of the command `vllm`, with `serve` below it, as its main() builds it."""
    flexible = first_of(PARSERS, "FlexibleArgumentParser")
    parser = flexible(description="vLLM CLI")
    below = parser.add_subparsers(required=False, dest="subparser")
    try:
        command = importlib.import_module("vllm.entrypoints.cli.serve").ServeSubcommand
        command().subparser_init(below)
        return parser
    except (ImportError, AttributeError):
        pass
    # Before 0.8 scripts.py built it: the model, --config, and the server's own flags.  The command
    # of a newer release may need modules that are not here; its flags are the same.
    serve = first_of(BUILDERS, "make_arg_parser")(below.add_parser("serve"))
    if not any(one.dest == "model_tag" for one in serve._actions):
        serve.add_argument("model_tag", type=str, nargs="?")
    if not any("--config" in one.option_strings for one in serve._actions):
        serve.add_argument("--config", type=str, default="", required=False)
    return parser


def parse(argv):
    """What one command line becomes: its values, or the parser's complaint."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            found = top_parser().parse_args(argv)
    except SystemExit:
        lines = said.getvalue().strip().splitlines()
        return {"ok": False, "error": lines[-1][:300] if lines else "exit"}
    except Exception as error:
        return {"ok": False, "error": f"{type(error).__name__}: {error}"[:300]}
    values = {name: repr(value)[:120] for name, value in sorted(vars(found).items())}
    return {"ok": True, "values": values}


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("what", choices=["dump", "parse"])
    arguments.add_argument("sources")
    given = arguments.parse_args()
    os.environ.update(
        VLLM_TARGET_DEVICE="cpu", HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1",
        VLLM_LOGGING_LEVEL="ERROR",
    )  # fmt: skip
    if given.sources != "-":
        sys.path.insert(0, given.sources)
        register_twice()
    sys.meta_path.append(StandIns())
    answer, sys.stdout = sys.stdout, sys.stderr
    if given.what == "dump":
        result = dump(given.sources)
    else:
        result = [parse(argv) for argv in json.load(sys.stdin)]
    json.dump(result, answer)


if __name__ == "__main__":
    main()
