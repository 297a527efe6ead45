# The one description of the graph:
#
#     data set --> notebook x profile --> ledger --> check
#                                            |-----> book       (pages)
#                                            '-----> figures    (figures, CSV and ledger in a folder and a zip)
#
# `make book` runs it through the engine (progress lines, readable failures); `snakemake --cores 2 book` runs it
# bare; `snakemake --profile profiles/slurm book` sends the notebooks to a cluster. All three are the same graph.
#
# Names, not times, decide what is made. Every output's path holds a digest of everything it is made from (see
# execution/graph.py), so a piece that exists is current by construction. Two settings keep Snakemake's own
# opinions out: every input is ancient(), and profiles/default/config.yaml, which Snakemake reads by itself, turns
# off reruns by time, by code and by recorded inputs.

import os
import shlex
import sys
from functools import partial

from attention_companion.execution.graph import PIECES, Graph
from attention_companion.execution.plain import hold_project
from attention_companion.execution.project import Project

project = Project.at(workflow.basedir)

# Without an engine around it, this process itself takes the build lock and clears away broken pieces. The processes
# Snakemake starts for single jobs, on a cluster's nodes say, parse this file too and must do neither.
if workflow.is_main_process:
    hold_project(project, sys.argv[1:])

graph = Graph(project)

# This environment's Python, whatever stands first on PATH; quoted, for its path may hold a space.
PYTHON = shlex.quote(sys.executable)
# Jobs that are sent out start Snakemake itself as plain `python` (see profiles/) and inherit this.
os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
FOLDERS = {graph.book_folder(profile).as_posix(): profile for profile in graph.profiles()}
STEP = f"{PYTHON} -m attention_companion.execution.steps"


wildcard_constraints:
    profile="|".join(graph.profiles()),
    notebook="|".join(graph.notebooks()),
    name="[a-z0-9_]+",
    key="[0-9a-f]+",


# Short, or in need of the network: on a cluster these stay where Snakemake runs. Only notebooks are sent out.
localrules: book, full, results, figures, figures_full, data, ledger, check, render, export


def run_of(profile, notebook, wildcards):
    """A notebook's result. Its name needs the digests of its data, hence the checkpoints before it."""
    for name in graph.data(notebook):
        checkpoints.data.get(name=name)
    return graph.result(profile, notebook).as_posix()


def after_data(path, profile, wildcards):
    """A piece made from all runs of a profile: its name is known when every data set has its stamp."""
    for name in graph.data():
        checkpoints.data.get(name=name)
    return path(graph, profile).as_posix()


def runs(profile):
    """One function per notebook, so that a notebook without data does not wait for a download."""
    return [ancient(partial(run_of, profile, notebook)) for notebook in graph.notebooks()]


def pieces(profile, target):
    """What the target wants besides the runs; execution/graph.py lists it."""
    return [ancient(partial(after_data, path, profile)) for path in PIECES[target]]


def profile_of(wildcards):
    """The profile in an output's path; the folder of a book's pages stands for one."""
    if "profile" in wildcards.keys():
        return wildcards.profile
    return FOLDERS[wildcards.folder]


def all_runs(wildcards):
    return [path.as_posix() for path in graph.results(profile_of(wildcards)).values()]


def the_ledger(wildcards):
    return graph.ledger(profile_of(wildcards)).as_posix()


# ---- what can be asked for -----------------------------------------------------------------------------------------

# The check stands beside the pages, not before them: when numbers have drifted the book is still rendered, it shows
# the drift, and the build fails all the same.
rule book:
    default_target: True
    input:
        runs("quick"),
        pieces("quick", "book"),


rule full:
    input:
        runs("full"),
        pieces("full", "book"),


rule results:
    input:
        runs("quick"),


rule figures:
    input:
        runs("quick"),
        pieces("quick", "figures"),


rule figures_full:
    input:
        runs("full"),
        pieces("full", "figures"),


# ---- how each piece is made ----------------------------------------------------------------------------------------

# A checkpoint: the stamp's content (the digest of the decoded images) goes into the names of all that follows.
# Fetching the same images again writes the same stamp, and nothing follows from it.
checkpoint data:
    output:
        "results/data/{name}.json",
    log:
        "results/.logs/data-{name}.log",
    shell:
        "{PYTHON} -m attention_companion.datasets fetch {wildcards.name} --stamp {output} > {log} 2>&1"


# No input: the key in the output's path is the input. The runner computes it again and refuses another one. It renames
# the whole folder into place, so that result.json exists only beside everything it lists.
rule execute:
    output:
        "results/{profile}/{notebook}/{key}/result.json",
    log:
        "results/.logs/{profile}-{notebook}-{key}.log",
    threads: 1
    resources:
        mem_mb=4000,
        runtime=lambda wildcards: 30 if wildcards.profile == "quick" else 24 * 60,
    shell:
        "{PYTHON} -m attention_companion.execution.runner {wildcards.notebook}"
        " --profile {wildcards.profile} --key {wildcards.key} > {log} 2>&1"


rule ledger:
    input:
        ancient(all_runs),
    output:
        "results/{profile}/ledger-{key}.json",
    log:
        "results/.logs/ledger-{profile}-{key}.log",
    shell:
        "{STEP} ledger {wildcards.profile} {wildcards.key} > {log} 2>&1"


rule check:
    input:
        ancient(the_ledger),
    output:
        "results/{profile}/check-{key}.json",
    log:
        "results/.logs/check-{profile}-{key}.log",
    shell:
        "{STEP} check {wildcards.profile} {wildcards.key} > {log} 2>&1"


# The marker inside the folder of pages is the output; the pages are swapped in whole before it is written.
rule render:
    input:
        ancient(all_runs),
        ancient(the_ledger),
    output:
        "{folder}/.key-{key}",
    params:
        profile=profile_of,
    wildcard_constraints:
        folder="|".join(FOLDERS),
    log:
        "results/.logs/{folder}-{key}.log",
    shell:
        "{STEP} book {params.profile} {wildcards.key} > {log} 2>&1"


rule export:
    input:
        ancient(all_runs),
        ancient(the_ledger),
    output:
        "_build/figures-{profile}/.key-{key}",
    log:
        "results/.logs/figures-{profile}-{key}.log",
    shell:
        "{STEP} figures {wildcards.profile} {wildcards.key} > {log} 2>&1"
