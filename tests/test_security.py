"""What the page on security claims and no other test shows; and that every test it names is there."""

import ast
import json
import os
import re
import subprocess
import sys

import pytest

from evoaudit.__main__ import main
from evoaudit.errors import InputError
from evoaudit.intact import listed
from evoaudit.resources import ROOT
from evoaudit.tables import render

DOC = ROOT / "docs" / "security.md"


def test_every_claim_names_tests_that_are_there():
    text = DOC.read_text(encoding="utf-8")
    named = re.findall(r"`(test_\w+)\.(test_\w+)`", text)
    assert len(named) > 50
    for file, name in named:
        tree = ast.parse((ROOT / "tests" / f"{file}.py").read_text(encoding="utf-8"))
        assert name in {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}, f"{file}.{name}"
    boundaries = text[text.index("## What each boundary does") : text.index("## What is not defended")]
    for line in boundaries.splitlines():
        if line.startswith("- "):
            assert "`test_" in line or "`make " in line, line


def test_nothing_of_a_config_reaches_a_shell_unquoted():
    """What rules put into a command is quoted by Snakemake, made by `shlex.join`, or a number of theirs."""
    ours = re.compile(r"(\w+(?:\.\w+)*):q|params\.(?:options|roots)|threads|resources\.\w+")
    commands = 0
    for path in [ROOT / "Snakefile", *sorted((ROOT / "workflow" / "rules").glob("*.smk"))]:
        for command in re.findall(r"\n    shell:\n((?:        .*\n)+)", path.read_text(encoding="utf-8")):
            commands += 1
            for field in re.findall(r"(?<!\{)\{([^{}]+)\}", command):
                assert ours.fullmatch(field), (path.name, field)
    assert commands > 15
    for name in ("options", "roots"):
        made = (ROOT / "workflow" / "rules" / "common.smk").read_text(encoding="utf-8").split(f"def {name}(")[1].split("\ndef ")[0]
        assert "shlex.join" in made


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "", "a\0b"])
def test_a_manifest_leads_to_no_file_outside_its_folder(name, tmp_path, capsys):
    path = tmp_path / "results" / "tables" / "k" / "manifest.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"stage": "tables", "key": "k", "files": {name: "0" * 64}}))
    with pytest.raises(InputError):
        listed(path)
    assert main(["publish", "--run", "r", "--results", str(tmp_path / "results"), str(path)]) == 2
    target = tmp_path / "results" / "runs" / "r" / "manifest.json"
    victim = tmp_path / "victim"
    victim.write_text("kept")
    path.write_text(json.dumps({"stage": "tables", "key": "k", "files": {}}))
    files = {str(victim): "0", "../../../victim": "0"}
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"sections": {"figures": {"keys": ["older"], "files": files}}}))
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps([{"stage": "tables", "key": "k"}]))
    assert main(["publish", "--run", "r", "--plan", str(plan), "--results", str(tmp_path / "results"), str(path)]) == 0
    assert victim.read_text() == "kept"


def test_no_text_is_a_command_in_latex_or_markup_in_markdown():
    hostile = "\\input{/etc/passwd} \\write18{x} $x$ a_b | <img src=x onerror=alert(1)> `\\catcode`"
    assert not re.search(r"\\(?:input|write|catcode)", render.escape(hostile))
    meta = {"title": "t", "paper": None, "note": "", "simulated": "none", "empty": None}
    column = {"name": "x", "label": "x", "kind": "text", "decimals": None, "extra": False, "best": "", "unit": None, "head": "x"}
    said = render.markdown({**meta, "columns": [column]}, [{"x": hostile}])
    assert re.search(r"(?<!\\)<", said) is None


def test_no_text_is_a_formula_in_a_figure():
    from evoaudit.figures import style

    assert any(value.get("text.parse_math") is False for value in vars(style).values() if isinstance(value, dict))


def test_a_traceback_holds_no_key_and_no_control_character():
    code = (
        "import os, evoaudit.__main__ as m; from evoaudit.stages import keys\n"
        "def run(args): raise RuntimeError('\\x1b[2J' + os.environ['SOME_API_KEY'])\n"
        "keys.run = run; m.main(['keys'])"
    )
    secret = "sk-canary-0123456789abcdef"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "SOME_API_KEY": secret}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "Traceback" in done.stderr and "RuntimeError" in done.stderr
    assert secret not in done.stderr and "[SOME_API_KEY]" in done.stderr and "\x1b" not in done.stderr
