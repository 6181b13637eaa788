"""The documentation is true: its commands parse, its files are read, its links lead somewhere, and it builds."""

import ast
import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml

from hardware_profiles.device import parse_device
from nas.cli import app, main
from nas.pipeline.config import PipelineConfig
from nas.stages.retrain.config import RetrainConfig
from nas.tasks import get, names, options
from search_spaces import registry as kinds
from search_spaces.files.loader import space_from_text
from supernet.train.recipe import Recipe
from tests.test_readme import DOCUMENTS, ROOT, blocks, commands, squeezed

DOCS = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*.md"))
PLACEHOLDER = re.compile(r"<[^>]*>")
VARIABLE = re.compile(r"<[^>]*>|\bnas [a-z]+\b|--[a-z-]+")
"""What the source of a message does not spell out: values, commands and flags."""


def generator(name="generate_reference"):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shell_lines(document):
    text = "\n".join(blocks(document, "sh")) + "\n" + "\n".join(command for command, _ in commands(document))
    return text.replace("\\\n", " ").splitlines()


def nas_commands(document):
    """The arguments of every call of nas in the sh and console blocks of a document."""
    for line in shell_lines(document):
        call = []
        for word in [*shlex.split(line, comments=True), "&&"]:
            if word not in ("&&", ";", "|", "||"):
                call.append(word)
                continue
            while call and re.fullmatch(r"[A-Z_]+=.*", call[0]):
                call.pop(0)
            if call and call[0] == "nas":
                yield call[1:]
            call = []


def parse(arguments):
    """What the command line makes of arguments, without doing it. Raises a usage error."""
    group = typer.main.get_command(app)
    context = group.make_context("nas", list(arguments), resilient_parsing=False)
    if not arguments or arguments[0].startswith("-"):
        return {}
    name, command, rest = group.resolve_command(context, list(arguments))
    return command.make_context(name, rest, parent=context).params


CALLS = [(document, arguments) for document in DOCUMENTS for arguments in nas_commands(document)]


@pytest.mark.parametrize("document", sorted({document for document, _ in CALLS}))
def test_every_command_is_one(document):
    for each, arguments in CALLS:
        if each == document:
            settings = parse(arguments).get("settings") or []
            allowed = {*Recipe.model_fields, *RetrainConfig.model_fields}
            assert {text.partition("=")[0] for text in settings} <= allowed, arguments


def test_a_wrong_command_would_be_found():
    usage_error = typer.BadParameter.__base__
    for wrong in (["frobnicate"], ["spaces", "--no-such"], ["count"], ["search", "first", "--trials", "many"]):
        with pytest.raises(usage_error):
            parse(wrong)
    assert ["search", "first", "--device", "cpu", "--ray", "auto"] in list(nas_commands("docs/cluster.md"))


@pytest.mark.parametrize("document", [each for each in DOCS if commands(each)])
def test_console_blocks_print_what_is_shown(document, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    for command, lines in commands(document):
        assert command.startswith("nas ")
        code = main(shlex.split(command)[1:])
        out, err = capsys.readouterr()
        assert code == 0, f"{command}: {err}"
        printed = {squeezed(line) for line in out.splitlines()}
        assert not [line for line in lines if squeezed(line) not in printed], command


@pytest.mark.parametrize("document", DOCS)
def test_files_that_are_shown_are_read(document):
    for text in blocks(document, "yaml[^\n]*"):
        data = yaml.safe_load(text)
        if "runtime" in data:
            parse_device(text, document)
        elif "family" in data:
            space_from_text(text, document)
        else:
            found = PipelineConfig.model_validate(data)
            assert found.run_config().training and found.search_settings()
            for each in found.pick:
                each.choice()
    for code in blocks(document, "python[^\n]*"):
        if not code.startswith("--8<--"):
            compile(code, document, "exec")


def test_options_of_data_are_all_there():
    shown = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "own_data.md").read_text("utf-8")))
    for name in names():
        task = get(name)
        with pytest.raises(ValueError, match="unknown; allowed: ") as refused:
            options.parse({"no_such": "1"}, task.roles, task.extras)
        allowed = set(re.findall(r"\w+", str(refused.value).split("allowed: ")[1]))
        assert allowed <= shown, name


def test_every_key_is_in_the_reference():
    made = generator()
    text = made.reference()
    tables = [*made.SPACE, *made.DEVICE, *made.PIPELINE]
    models = [model for _, _, model, _ in tables] + [made.SearchConfig, made.Recipe]
    models += [made.transports.get(name).SETTINGS for name in made.transports.names()]
    for model in models:
        for key, field in model.model_fields.items():
            assert f"| `{key}` |" in text
            assert field.description or key == "schema_version", f"{model.__name__}.{key} has no description"
    for kind in made.tables.blocks_data(None):
        assert f"#### {kind['kind']}\n" in text
        assert all(f"| `{dim['name']}` |" in text for dim in kind["dims"])


def test_every_command_and_option_is_on_its_page():
    text = generator().commands()
    for name, command in typer.main.get_command(app).commands.items():
        assert f"### nas {name}\n" in text
        for param in command.get_params(typer.Context(command)):
            assert param.name == "help" or param.param_type_name == "argument" or param.opts[0] in text


def test_every_function_of_the_api_is_on_its_page():
    text = generator().functions()
    for name in ("train", "profile", "search", "pareto", "extract", "retrain", "export", "measure", "report"):
        assert f"## {name}\n" in text
        assert f"\ndef {name}(\n" in text
    assert '- `training`: such as `{"steps": 2000}`.' in text


def test_generated_pages_are_up_to_date():
    for name, write in generator().PAGES.items():
        shown = (ROOT / "docs" / name).read_text("utf-8")
        assert shown == write(), f"docs/{name} is out of date; run make docs"


def test_the_page_of_blocks_is_up_to_date():
    pages = generator("generate_blocks").pages()
    for name, text in pages.items():
        path = ROOT / "docs" / name
        assert path.exists() and path.read_text("utf-8") == text, f"docs/{name} is out of date; run make docs"
    assert {path.name for path in (ROOT / "docs" / "blocks").iterdir()} == {
        name.removeprefix("blocks/") for name in pages if name.startswith("blocks/")}


def test_the_page_of_blocks_shows_measured_latencies(tmp_path, monkeypatch):
    pages, path = generator("generate_blocks"), tmp_path / "mixer_scaling.csv"
    path.write_text("kind,width,exponent,beats_attention_from,seconds_128,seconds_256,commit\n"
                    "entmax_attention,256,2.1,,0.5,,abc\n"
                    "attention,256,1.98,,0.001,0.004,abc\nperformer,256,1.02,256,0.0015,0.003,abc\n", "utf-8")
    monkeypatch.setattr(pages, "LATENCIES", path)
    text = "\n".join(pages._latencies())
    assert "| kind | 128 | 256 | exponent | faster than attention |" in text
    assert "| entmax_attention | 500 |  | 2.1 |  |" in text  # the longest was skipped
    assert "| performer | 1.5 | 3 | 1.02 | from 256 tokens |" in text
    rows = pages._measured()
    assert pages._in_words(rows["performer"]).endswith("to the power of 1.02; faster than attention from 256 tokens on")
    assert pages._in_words(rows["attention"]).endswith("the reference")
    assert pages._in_words(rows["entmax_attention"]).startswith("500 ms for 128 tokens at width 256")


def test_kinds_name_their_paper():
    lack = {name for name, kind in kinds.registry().items()
            if kind.module.__module__.startswith("supernet.") and not kind.paper}
    assert lack == {"features", "linear", "no_ffn", "skip"}, "a kind declares paper= in its Kind"


def said_by_the_program():
    """Every text of the source, with a gap where a value stands."""
    for package in ("search_spaces", "supernet", "hardware_profiles", "nas"):
        for path in ROOT.glob(f"{package}/**/*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield PLACEHOLDER.sub("\0", re.sub(r"\{\w+\}", "\0", node.value))
                elif isinstance(node, ast.JoinedStr):
                    yield "".join(each.value if isinstance(each, ast.Constant) else "\0" for each in node.values)


def test_quoted_errors_are_real():
    source = "\n".join(said_by_the_program())
    quotes = [line for text in blocks("docs/troubleshooting.md", "text") for line in text.splitlines()]
    assert len(quotes) > 20
    for quote in quotes:
        fixed = [part.strip(" :") for part in VARIABLE.split(re.sub(r"^nas: |^warning: ", "", quote))]
        long = [part for part in fixed if len(part) >= 12]
        assert long, quote
        assert not [part for part in long if part.split(": ")[-1].removesuffix("; run") not in source], quote


def anchors(document):
    """Of a page, as the toc extension makes them."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / document).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        words = re.sub(r"[^\w\s-]", "", title).strip().lower()
        yield re.sub(r"[-\s]+", "-", words)


@pytest.mark.parametrize("document", [*DOCS, "README.md"])
def test_links_and_anchors_lead_somewhere(document):
    for link in re.findall(r"\]\(([^)\s]+)\)", (ROOT / document).read_text("utf-8")):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / document).parent / path if path else ROOT / document
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.resolve().relative_to(ROOT)), link


def test_the_site_builds(tmp_path):
    if not importlib.util.find_spec("material"):
        pytest.skip("mkdocs-material is not installed; run make docs, or pip install 'paretoformer[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    pages = {path.stem for path in (tmp_path / "site").glob("*.html")} - {"404"}
    assert pages == {Path(document).stem for document in DOCS}


def test_where_is_what_decided_names_real_functions():
    table = (ROOT / "docs" / "design.md").read_text("utf-8").split("## Where is what decided")[1].split("\n## ")[0]
    places = re.findall(r"`([\w/]+\.(?:py|js))`: ((?:`[\w.]+`(?:, )?)+)", table)
    assert len(places) > 40
    for path, functions in places:
        text = (ROOT / path).read_text("utf-8")
        for name in re.findall(r"[\w.]+", functions):
            for part in name.split("."):
                assert re.search(rf"^\s*(?:def|class|function) {part}\b", text, re.MULTILINE), f"{path}: {name}"
