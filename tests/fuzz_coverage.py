"""Let atheris damage the examples of `fuzz_targets`, guided by coverage: ``python tests/fuzz_coverage.py TARGET --seconds N``.

What breaks is left in the working folder as a file. Without a target their names are printed.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["evoaudit"]):
    import fuzz_targets


def main() -> None:
    """Fuzz one target."""
    parser = argparse.ArgumentParser(description="fuzz one target with atheris")
    parser.add_argument("target", nargs="?", choices=sorted(fuzz_targets.TARGETS))
    parser.add_argument("--seconds", type=int, default=60)
    args = parser.parse_args()
    if not args.target:
        print("\n".join(fuzz_targets.TARGETS))
        return
    os.environ["EVOAUDIT_FUZZ_KEY"] = "none-of-anybody"
    with tempfile.TemporaryDirectory() as folder:
        seeds, place = Path(folder, "seeds"), Path(folder, "place")
        seeds.mkdir()
        place.mkdir()
        for number, seed in enumerate(fuzz_targets.TARGETS[args.target][1]):
            (seeds / str(number)).write_bytes(seed)
        words = Path(folder, "words")
        short = (token for token in fuzz_targets.TOKENS if len(token) < 100)
        words.write_text("".join('"' + "".join(f"\\x{byte:02x}" for byte in token) + '"\n' for token in short))
        options = [f"-max_total_time={args.seconds}", f"-dict={words}", "-max_len=100000", "-rss_limit_mb=3000", str(seeds)]

        def one(data: bytes) -> None:
            fuzz_targets.run(args.target, data, place)

        atheris.Setup([sys.argv[0], *options], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
