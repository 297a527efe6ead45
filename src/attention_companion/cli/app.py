"""The typer application: names, options and help texts. What a command does lies in the module of its name.

Only typer is imported here; see the package's docstring.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attention_companion.cli.errors import UsageError, one_line

if TYPE_CHECKING:
    from attention_companion.execution.project import Project

app = typer.Typer(
    name="companion",
    help="Re-execute the claims of three papers about attention, one notebook at a time.\n\n"
    "The whole book is built by `make book`; this command is for looking closer: at one notebook with your own "
    "parameters, at one claim, at what drifted, at what is wrong with this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(
    help="The image sets: what is here, fetch them, verify them against their pinned digests.\n\n"
    "Examples:\n\n  companion data\n\n  companion data fetch\n\n  companion data verify cifar10",
    invoke_without_command=True,
    rich_markup_mode=None,
)
app.add_typer(data_app, name="data")

Profile = Annotated[str, typer.Option("--profile", help="Which profile: quick or full.", metavar="quick|full")]
DataName = Annotated[str | None, typer.Argument(metavar="[NAME]", help="One set only: mnist, fashion_mnist, cifar10.")]


def _project() -> Project:
    from attention_companion.execution.project import Project

    return Project.find()


@app.command(name="list")
@one_line
def list_notebooks(
    notebook: Annotated[str | None, typer.Argument(help="One notebook, or the beginning of its name.")] = None,
) -> None:
    """List the notebooks: parameters with types, defaults and meaning, per profile, and what the last run cost.

    Examples:

      companion list

      companion list 12
    """
    from attention_companion.cli import listing

    listing.show(_project(), notebook)


@app.command()
@one_line
def run(
    notebook: Annotated[str, typer.Argument(help="Its name, or a beginning that no other has, such as 12.")],
    parameter: Annotated[
        list[str] | None,
        typer.Option("--parameter", "-p", metavar="NAME=VALUE", help="Change a parameter; may be repeated."),
    ] = None,
    profile: Profile = "quick",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Its folder; default: results/custom/NOTEBOOK-TIME.")
    ] = None,
) -> None:
    """Run one notebook with your own parameters. Neither the ledger nor the baseline is touched.

    The profile sets the parameters, each -p changes one. A list is written 16,64,256. Names, types and defaults:
    `companion list`.

    Examples:

      companion run 12 -p n_starts=50 -p dimensions=16,64

      companion run 32_gram_cube --profile full --out /tmp/gram
    """
    from attention_companion.cli import running

    running.run(_project(), notebook, parameter or [], profile, out)


@app.command()
@one_line
def check(
    profile: Profile = "quick",
    markdown: Annotated[bool, typer.Option("--markdown", help="A Markdown report, for a job summary.")] = False,
) -> None:
    """Compare the ledger of the last build with the accepted baseline. Exit status 1 if anything drifted.

    Examples:

      companion check

      companion check --profile full --markdown
    """
    from attention_companion.cli import checking

    if not checking.check(_project(), profile, markdown):
        raise typer.Exit(1)


@app.command()
@one_line
def accept(
    tags: Annotated[list[str], typer.Argument(metavar="TAG...", help="The claims whose new result is accepted.")],
    reason: Annotated[str, typer.Option("--reason", help="Why the new result is right; kept in the baseline.")],
    profile: Profile = "quick",
) -> None:
    """Accept what the last build measured for these claims as the new baseline, with a reason.

    Examples:

      companion accept XOR-T2 --reason "width raised to 48: see the chapter's last section"

      companion accept NTK-CUBE NTK-COND --profile full --reason "first full run"
    """
    from attention_companion.cli import checking

    if not reason.strip():
        raise UsageError("--reason is empty: say why the new result is right; it is shown on the ledger page")
    checking.accept(_project(), profile, tags, reason.strip())


@app.command()
@one_line
def claim(
    tag: Annotated[str, typer.Argument(help="The claim's tag, such as XOR-T2.")],
    profile: Profile = "quick",
) -> None:
    """Everything about one claim: what is said, what would decide it, what was measured, and what that depends on.

    Examples:

      companion claim XOR-LOSS

      companion claim NTK-CUBE --profile full
    """
    from attention_companion.cli import claims

    claims.show(_project(), tag, profile)


@app.command()
@one_line
def simulate(
    weights: Annotated[Path, typer.Argument(help="A .npz or .safetensors file with the layer, and X.")],
    layout: Annotated[
        str, typer.Option("--layout", help="positional, paper, constant or universal.", metavar="NAME")
    ] = "positional",
    arithmetic: Annotated[
        str, typer.Option("--arithmetic", help="float64, or ball for rigorous enclosures.", metavar="KIND")
    ] = "float64",
    bits: Annotated[int, typer.Option("--bits", help="Working precision of balls.")] = 200,
    heads: Annotated[
        int | None, typer.Option("--heads", help="How many heads the projections hold (1).")
    ] = None,
    head: Annotated[
        list[int] | None, typer.Option("--head", help="Only this head, from 0, without W_O; may be repeated.")
    ] = None,
    prefix: Annotated[str, typer.Option("--prefix", help="Stands before the names of the layer's tensors.")] = "",
    given: Annotated[Path | None, typer.Option("--input", help="A file with X, if not in the first.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write U and T to this .npz file.")] = None,
    memory: Annotated[float, typer.Option("--memory", help="Refuse what needs more GB than this.")] = 8.0,
) -> None:
    """Run your own attention layer through the compiled simulator, and compare with the layer itself.

    The file holds X (n, d) and either A (d, d) and V (d, d_v), one or one a head, with W_O if you like; or W_Q, W_K,
    W_V, W_O with biases b_Q, ... (x W + b); or an attention layer's tensors as PyTorch stores them (query.weight,
    q_proj.weight, in_proj_weight, ...). Biases become a constant coordinate of X, and 1/sqrt(d_k) goes into A.

    Examples:

      companion simulate weights.npz

      companion simulate weights.npz --layout constant --arithmetic ball

      companion simulate model.safetensors --prefix encoder.layer.0. --heads 12 --head 3 --input x.npz
    """
    from attention_companion.cli import simulate as command

    asked = command.Asked(
        layout, arithmetic, bits, heads, tuple(head or ()), prefix, given, out, memory
    )
    command.simulate(weights, asked)


@data_app.callback()
@one_line
def data(context: typer.Context) -> None:
    """Without a subcommand: what is here, and where."""
    if context.invoked_subcommand is None:
        from attention_companion.cli import data as commands

        commands.status()


@data_app.command()
@one_line
def fetch(name: DataName = None) -> None:
    """Fetch the sets that are missing; a set that is here and whole is left alone.

    Examples:

      companion data fetch

      companion data fetch mnist
    """
    from attention_companion.cli import data as commands

    if not commands.fetch(_project(), name):
        raise typer.Exit(1)


@data_app.command()
@one_line
def verify(name: DataName = None) -> None:
    """Decode every image that is here and compare digests. Exit status 1 if any set is missing or damaged.

    Examples:

      companion data verify

      companion data verify cifar10
    """
    from attention_companion.cli import data as commands

    if not commands.verify(name):
        raise typer.Exit(1)


@app.command()
@one_line
def doctor() -> None:
    """Look over this machine: what is wrong and how to mend it. Exit status 1 if something essential is broken.

    Example:

      companion doctor
    """
    from attention_companion.cli import doctor as examination

    if not examination.examine(_project()):
        raise typer.Exit(1)
