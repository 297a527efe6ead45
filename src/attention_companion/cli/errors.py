"""One clear line for what a person can mend, and no traceback unless it is asked for.

Exit statuses of every command: 0 well, 1 the answer is bad news (drift, a failed run, a broken environment), 2 the
question was wrong (an unknown notebook, an ill-typed parameter), 130 interrupted.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer

P = ParamSpec("P")
R = TypeVar("R")

TRACEBACK_VARIABLE = "ATTENTION_COMPANION_TRACEBACK"

# By name: importing their modules here would cost every `--help` the price of the whole machinery.
USAGE_ERRORS = frozenset({"ParameterError", "UnknownNotebook", "UnknownProfile", "UsageError", "OutputRefused"})
PACKAGE = "attention_companion."


class UsageError(ValueError):
    """The command was asked for something that does not exist; the message says what does."""


def message_of(error: BaseException) -> str:
    """What the error says. A KeyError's own text is the repr of its message, quotes and all."""
    if isinstance(error, KeyError) and error.args:
        return str(error.args[0])
    return str(error)


def one_line(command: Callable[P, R]) -> Callable[P, R]:
    """Turn exceptions of ``command`` into one message on standard error and an exit status (see the module)."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except typer.Exit:
            raise
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(130) from None
        except BrokenPipeError:
            # The reader went away (`companion claim TAG | head`); writing the rest, or a message, has no addressee.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise typer.Exit(0) from None
        except Exception as error:
            if os.environ.get(TRACEBACK_VARIABLE):
                raise
            typer.echo(f"error: {describe(error)}", err=True)
            raise typer.Exit(2 if type(error).__name__ in USAGE_ERRORS else 1) from error

    return wrapped


def describe(error: Exception) -> str:
    """The message alone for errors that this project words itself; others get their kind and a way to see more."""
    ours = type(error).__module__.startswith(PACKAGE)
    text = message_of(error)
    if ours and text:
        return text
    return f"{type(error).__name__}: {text or 'no message'} (set {TRACEBACK_VARIABLE}=1 to see where)"
