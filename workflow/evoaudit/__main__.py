"""Command line of EvoAudit: ``evoaudit SUBCOMMAND``, also ``python -m evoaudit SUBCOMMAND``.

Exits with 0 on success, 1 on findings, 2 on bad usage or input, 130 when interrupted.
"""

import argparse
import gc
import os
import sys
import traceback
from importlib import import_module

from evoaudit import joblog
from evoaudit.errors import InputError, one_line
from evoaudit.intact import check_given, check_upstream

#: Subcommand → (module in `evoaudit.stages`, one line for ``--help``). Those of people first, then the workflow's own.
COMMANDS = {
    "doctor": "check machine, config and keys, and say what a folder of logs holds, before anything is spent",
    "plan": "say how many verdicts to audit for an interval as narrow as wanted",
    "estimate": "say how many requests and dollars a config would cost",
    "show": "show one request to a model and its answer, with its pictures",
    "status": "say how far a run is, what failed, what it cost, and what to do next",
    "keys": "list the stage keys a config uses, in words",
    "verify": "compare every file of a run with its manifest, or of two results folders with each other",
    "gc": "list, and with --delete remove, results no given config uses",
    "simulate": "write a simulated corpus with a known truth in the native formats",
    "download": "fetch a public data set, pinned by the lock file and verified",
    "downloads": "read every downloaded file again and compare it with what was pinned",
    "prompts": "import a paper's verbatim prompt templates from your copy of its text",
    "review": "build the pages people label on, check or merge label files",
    "check": "recompute the figures of any printed results table from one another",
    "validate": "check a config, a folder of logs or a label file, and explain each problem",
    "normalise": "read one source into the shared schema",
    "mine": "mine T1, T2 and T3 probes",
    "pairs": "write the page for the quality control of T3 pairs",
    "images": "prepare the pictures of the probes for one maximum side",
    "infer": "ask one model under one condition",
    "serve": "run an inference server for as long as jobs need it",
    "score": "parse and score the answers",
    "sample": "draw the audit sample",
    "signals": "no-op probe and Stage-1 signals, without any model",
    "judge": "label the sample with one judge",
    "select": "choose the review set",
    "replay": "write the pages on which people judge trajectories",
    "combine": "combine labels into final ones",
    "stats": "compute every table's numbers",
    "tables": "render the tables",
    "figures": "draw the figures",
    "report": "build the report",
    "export": "write what others can reuse",
    "publish": "lay a finished run out for people under results/runs/",
    "document": "regenerate the schemas and tables in the documentation",
}


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand and return its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    chosen = next((word for word in argv if not word.startswith("-")), None)
    args = argparse.Namespace(command=chosen or "")
    try:
        args = _parsed(argv, chosen)
        sys.excepthook = joblog.show_fault
        if "upstream" not in args:
            return args.run(args) or 0
        with joblog.running(args):  # a stage
            check_upstream(args)
            check_given(args)
            return args.run(args) or 0
    except InputError as error:
        joblog.say(f"evoaudit {args.command}: {error}", "error")
        return 2
    except KeyboardInterrupt:
        joblog.say(f"evoaudit {args.command}: interrupted; run it again", "error")
        return 130
    except MemoryError as error:
        _let_go(error)
        joblog.say(f"evoaudit {args.command}: memory ran out; give it more, or fewer threads, and run it again", "error")
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        _let_go(error)
        where = error.filename or getattr(args, "out", None) or "a file"  # Arrow does not name the file it could not write
        joblog.say(f"evoaudit {args.command}: {one_line(str(where))}: {error.strerror or one_line(str(error))}", "error")
        return 2


def _parsed(argv: list[str], chosen: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="evoaudit", description="When can a computer-use-agent score be believed?")
    commands = parser.add_subparsers(dest="command", metavar="SUBCOMMAND", required=True)
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(name, help=summary, description=summary)
        if name == chosen:  # heavy imports only for the subcommand that runs
            module = import_module(f"evoaudit.stages.{name}")
            module.add_arguments(sub)
            sub.set_defaults(run=module.run)
    return parser.parse_args(argv)


def _let_go(error: Exception) -> None:
    """Drop what a failed call held: files that close themselves would each try to write once more, fail again and print a traceback."""
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        traceback.clear_frames(error.__traceback__)
        gc.collect()
    finally:
        sys.unraisablehook = before


if __name__ == "__main__":
    sys.exit(main())
