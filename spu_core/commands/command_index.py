"""The commands of `spu`, without the modules that implement them.

Importing the engine takes 40 times as long as importing Typer. `command_index.json` therefore holds what help and
completion need: names, help texts, options and the values that can be completed. A command is imported when it is
called. `python -m tests.doc_tables` writes the file anew, and a test compares it with the commands themselves.
"""

from __future__ import annotations

import inspect
import json
import signal
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

INDEX_FILE = Path(__file__).with_name("command_index.json")
# In the order of the help page. Each module has a function `add_to(app)`.
MODULES = (
    "data_commands",
    "model_commands",
    "export_commands",
    "paper_command",
    "outcome_commands",
    "trust_commands",
    "bench_command",
    "workspace_commands",
    "mcp_command",
    "studio_commands",
)


def add_all_to(app: typer.Typer) -> None:
    """Register every command of the index; none of their modules is imported before a command is called."""
    for name, entry in json.loads(INDEX_FILE.read_text(encoding="utf-8")).items():
        _add(app, name, entry)


def make_index() -> str:
    """The text of the index, from the commands themselves; one line for each command."""
    lines = []
    for module in MODULES:
        for name, command in _commands_of(module).items():
            entry = {"module": module, **_entry(command)}
            lines.append(f"{json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


class _CalledInItsModule:
    """A command that imports its module when it is called. Completion only parses, and does not import it."""

    module = ""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        if extra.get("resilient_parsing"):
            return super().make_context(info_name, args, parent, **extra)  # type: ignore[misc]
        command = _commands_of(self.module)[str(info_name)]
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # from now on Ctrl-C cleans up
        return command.make_context(info_name, args, parent, **extra)


class LazyCommand(_CalledInItsModule, TyperCommand):
    """A command of the index."""


class LazyGroup(_CalledInItsModule, TyperGroup):
    """A group of commands of the index, such as `spu workspace`."""


def _commands_of(module: str) -> dict[str, Any]:
    part = typer.Typer()
    import_module(f"spu_core.commands.{module}").add_to(part)
    return dict(typer.main.get_group(part).commands)


def _entry(command: Any) -> dict[str, Any]:
    """Help, options and commands of a command, as JSON values."""
    shown = [parameter for parameter in command.params if parameter.name != "help"]
    entry = {"help": command.help, "parameters": [_parameter(command, parameter) for parameter in shown]}
    if hasattr(command, "commands"):
        entry["commands"] = {name: _entry(each) for name, each in command.commands.items()}
    return entry


def _parameter(command: Any, parameter: Any) -> dict[str, Any]:
    context = command.make_context(command.name, [], resilient_parsing=True)
    offered = parameter.shell_complete(context, "")
    is_option = parameter.param_type_name == "option"
    flag = [*parameter.opts, *parameter.secondary_opts] if is_option and parameter.is_flag else []
    entry = {
        "name": parameter.name,
        "options": ["/".join(flag)] if parameter.secondary_opts else list(parameter.opts) if is_option else [],
        "help": parameter.help,
        "is_flag": bool(flag),
        "is_file": any(item.type in ("file", "dir") for item in offered),
        "repeats": bool(is_option and parameter.multiple) or parameter.nargs == -1,
        "values": [[item.value, item.help or ""] for item in offered if item.type == "plain"],
    }
    return {key: value for key, value in entry.items() if value}


def _add(app: typer.Typer, name: str, entry: dict[str, Any]) -> None:
    lazy = {"module": entry.get("module", "")}
    if "commands" in entry:
        group = typer.Typer(cls=type("LazyGroup", (LazyGroup,), lazy), help=entry["help"], no_args_is_help=True)
        for each, below in entry["commands"].items():
            _add(group, each, below)
        app.add_typer(group, name=name)
    else:
        app.command(name, cls=type("LazyCommand", (LazyCommand,), lazy), help=entry["help"])(_signature(entry))


def _signature(entry: dict[str, Any]) -> Callable[..., None]:
    """A function that is never called, with the parameters from which Typer makes options and arguments."""

    def command() -> None: ...

    hints = {each["name"]: _hint(each) for each in entry["parameters"]}
    by_name = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, by_name, default=None, annotation=hint) for name, hint in hints.items()]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = hints
    return command


def _hint(entry: dict[str, Any]) -> Any:
    kind: Any = bool if "is_flag" in entry else Path if "is_file" in entry else str
    kind = list[kind] if "repeats" in entry else kind
    values = entry.get("values", [])

    def offer(incomplete: str) -> list[tuple[str, str]]:
        return [(value, words) for value, words in values if value.startswith(incomplete)]

    more: dict[str, Any] = {"help": entry.get("help"), "autocompletion": offer if values else None}
    declared = typer.Option(*entry["options"], **more) if "options" in entry else typer.Argument(**more)
    return Annotated[kind | None, declared]
