"""Export what others can reuse: the probes, the final labels, and a card that says where they come from."""

import argparse
import json

from evoaudit.stages import common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this stage's arguments."""
    common.arguments(parser)
    parser.add_argument("--mined", nargs="*", default=[], metavar="MANIFEST")
    parser.add_argument("--final", nargs="*", default=[], metavar="MANIFEST")
    parser.add_argument("--stats", nargs="*", default=[], metavar="MANIFEST")


def run(args: argparse.Namespace) -> None:
    """Write the probe tables without pictures, the final labels, and README.md."""
    from evoaudit import csvfile, store

    with common.stage(args, "export", "row") as (folder, counts):
        lines = ["# Export", ""]
        simulated = 0
        for manifest in args.mined if args.settings.get("probes", True) else []:
            for name in ("t1", "t2", "t3"):
                table = store.read_table(common.folder_of(manifest), name)
                simulated += sum(table["simulated"].to_pylist())
                counts.keep("row", store.write_table(folder, name, table))
                lines.append(f"- `{name}.parquet`: {table.num_rows} instances, pictures by image_id only")
        for manifest in args.final if args.settings.get("labels", True) else []:
            table = store.read_table(common.folder_of(manifest), "final")
            simulated += sum(table["simulated"].to_pylist())
            counts.keep("row", table.num_rows)
            csvfile.write(folder / "final.csv", table.column_names, table.to_pylist())
            lines.append(f"- `final.csv`: {table.num_rows} final labels and the rule behind each")
        if simulated:
            lines += ["", f"{simulated} of these rows rest on simulated trajectories or simulated raters."]
        lines += ["", "Keys of the stages this comes from:", "", "```json", json.dumps(args.upstream, indent=1, sort_keys=True), "```", ""]
        (folder / "README.md").write_text("\n".join(lines), encoding="utf-8")
