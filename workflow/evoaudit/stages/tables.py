"""Render the tables."""

import argparse

from evoaudit.stages import common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.arguments(parser)
    parser.add_argument("--stats", required=True, metavar="MANIFEST", help="manifest of the stats stage")


def run(args: argparse.Namespace) -> int | None:
    import shutil

    from evoaudit import csvfile
    from evoaudit.tables import files, render

    source = common.folder_of(args.stats)
    with common.stage(args, "tables", "table") as (folder, counts):
        for meta in files.read_index(source):
            name = meta["name"]
            table = files.read(source, name, meta)
            rows = table.to_pylist()
            for end, text in (
                ("csv", csvfile.text(table.column_names, rows)),
                ("md", render.markdown(meta, rows)),
                ("tex", render.latex(meta, rows)),
            ):
                (folder / f"{name}.{end}").write_text(text, encoding="utf-8", newline="")
            shutil.copyfile(source / f"{name}.parquet", folder / f"{name}.parquet")
            counts.keep("table")
    return None
