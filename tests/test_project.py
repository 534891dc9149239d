"""The files around the code: that they say what is true."""

import ast
import importlib.util
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

import madbayes
from madbayes import cli

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "madbayes"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

pytestmark = pytest.mark.skipif(
    not (ROOT / "CONTRIBUTING.md").exists(), reason="not run from a checkout"
)


def read(*parts):
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")


def text_files():
    """What a clone would hold, pictures aside."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs git and a checkout")
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.is_file() and b"\0" not in (content := path.read_bytes()):
            yield name, content.decode("utf-8")


def pages():
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.md")]
    return sorted(page for page in found if "_build" not in page.parts)


def test_every_file_says_what_it_is_about():
    for path in PACKAGE.rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


def test_the_files_that_contributing_names_are_there():
    text = read("CONTRIBUTING.md")
    named = re.findall(r"`((?:[\w]+/)+[\w]+\.py)`", text)
    assert len(named) > 10
    assert [name for name in named if not (PACKAGE / name).exists()] == []


def test_the_page_about_the_command_is_what_help_says():
    spec = importlib.util.spec_from_file_location("make_cli", ROOT / "docs" / "make_cli.py")
    make_cli = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_cli)
    assert read("docs", "cli.md") == make_cli.page(), "run: make docs"


def test_readme_shows_the_true_output_of_the_demo(tmp_path, monkeypatch, capsys):
    block = re.search(r"```text\n(\.venv/bin/madbayes .*?)```", read("README.md"), re.DOTALL)[1]
    command, *shown = block.rstrip().splitlines()
    assert command.removeprefix(".venv/bin/madbayes ") in read("Makefile").replace(
        "$(OUT)", "madbayes-out"
    )
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    capsys.readouterr()
    assert cli.main(shlex.split(command)[1:]) == 0
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == shown


def test_links_between_pages_lead_somewhere():
    for page in pages():
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_decisions_are_numbered_without_gaps():
    decisions = sorted((ROOT / "docs" / "adr").glob("*.md"))
    for number, path in enumerate(decisions, 1):
        assert path.name.startswith(f"{number:04}-")
        assert path.read_text(encoding="utf-8").startswith(f"# {number}. ")


def test_nothing_belongs_to_one_machine():
    # Written in pieces, so that this file does not find itself.
    machine = re.compile(
        "|".join(
            [
                r"(?<![\w.~])/(?:work|root|home|Users|mnt|opt/[\w]+|tmp)" + r"/[\w.]",
                r"\b[A-Z]:" + r"\\\\?Users",
                "index" + r"[-_]url",
                "local" + "host",
            ]
        )
    )
    for name, content in text_files():
        found = machine.search(content)
        assert not found, f"{name}: {found[0]!r}"


def test_dependencies_are_bounded_below_only():
    extras = PROJECT["project"]["optional-dependencies"].values()
    for requirement in [*PROJECT["project"]["dependencies"], *(r for e in extras for r in e)]:
        assert not re.search(r"<|==|~=|!=", requirement), requirement


def test_version_is_the_same_everywhere(capsys):
    version = madbayes.__version__
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/madbayes/__init__.py"
    assert f"\nversion: {version}\n" in read("CITATION.cff")
    assert f'{{% set version = "{version}" %}}' in read("conda", "meta.yaml")
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.split() == ["madbayes", version]
    assert f"## {version}" in read("CHANGELOG.md")
