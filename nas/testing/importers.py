"""What every importer of pretrained models promises."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from nas.core.progress import StageProgress
from nas.core.subnet import Subnet
from nas.importers import Importer, registry
from nas.stages.export.request import ExportRequest
from nas.stages.export.run import run as export
from nas.stages.import_model.request import ImportRequest
from nas.stages.import_model.run import ImportResult, run
from search_spaces import InputError

WORDS = 50
"""The vocabulary of the small tokenizer; the configs of cases need the same."""
WEIGHTS = "model.safetensors"


def tokenizer(words: int = WORDS) -> Tokenizer:
    """Words that are numbers, each its own token."""
    small = Tokenizer(models.WordLevel({"[UNK]": 0, **{str(i): i for i in range(1, words)}}, unk_token="[UNK]"))
    small.pre_tokenizer = pre_tokenizers.Whitespace()
    small.post_processor = processors.TemplateProcessing(single="2 $A 3", special_tokens=[("2", 2), ("3", 3)])
    return small


def pretrained(folder: Path, cls: str, config: Mapping[str, Any], seed: int = 0, shards: bool = False) -> Path:
    """A random model of transformers, saved."""
    transformers = pytest.importorskip("transformers")
    transformers.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    model_class = getattr(transformers, cls)
    torch.manual_seed(seed)
    model = model_class(model_class.config_class(**config)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder, **({"max_shard_size": "4KB"} if shards else {}))
    tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def imported(folder: Path, out: Path, **wishes: Any) -> ImportResult:
    """A saved model as a subnet."""
    return run(ImportRequest(str(folder), out, **wishes), StageProgress())


class ImporterContract:
    """Set `name` to that of your importer and `cases` to classes of transformers with small configs of 50 words."""

    name: str
    cases: ClassVar[Sequence[tuple[str, Mapping[str, Any]]]] = ()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run the tests of a case over all of them."""
        if "case" in metafunc.fixturenames:
            metafunc.parametrize("case", range(len(self.cases)))

    @property
    def importer(self) -> Importer:
        """The importer under test."""
        return registry()[self.name]

    def pretrained(self, folder: Path, case: int) -> Path:
        """The random model of a case, saved; override it where not every value of a tensor is allowed."""
        return pretrained(folder, *self.cases[case], seed=case)

    def test_the_declaration_is_complete(self) -> None:
        importer = self.importer
        assert importer.name == self.name and importer.help and all(importer.model_types.values())
        assert self.cases, "name classes of transformers and small configs"

    def test_every_model_type_has_a_case(self) -> None:
        transformers = pytest.importorskip("transformers")
        assert set(self.importer.model_types) <= {
            getattr(transformers, cls).config_class.model_type for cls, _ in self.cases}

    def test_outputs_equal_those_of_transformers(self, case: int, tmp_path: Path) -> None:
        """The stage compares them itself, with padding and token types, and refuses more than 1e-4."""
        result = imported(self.pretrained(tmp_path / "theirs", case), tmp_path / "ours")
        assert result.difference is not None and result.difference <= 1e-4
        again = Subnet.open(str(tmp_path / "ours"))
        assert again.arch == result.subnet.arch and again.model() is not None
        assert json.loads((tmp_path / "ours/tokenizer.json").read_text()) == json.loads(
            (tmp_path / "theirs/tokenizer.json").read_text())

    def test_what_was_imported_is_exported_as_the_stock_class(self, case: int, tmp_path: Path) -> None:
        """Import, export, load with plain `from_pretrained`: the class and the outputs of the original."""
        folder = self.pretrained(tmp_path / "theirs", case)
        result = imported(folder, tmp_path / "ours")
        request = ExportRequest(str(tmp_path / "ours"), "huggingface", out=tmp_path / "again")
        record = export(request, StageProgress()).record
        assert record["class"] == result.cls and not list((tmp_path / "again").glob("*.py"))
        assert "trust_remote_code" not in " ".join(record["usage"])
        model_class = getattr(pytest.importorskip("transformers"), result.cls)
        x, y = torch.arange(5, 29).reshape(2, 12), torch.arange(4, 18).reshape(2, 7)
        given = {"input_ids": x, **({"decoder_input_ids": y} if result.subnet.arch.family == "seq2seq" else {})}
        with torch.no_grad():
            both = [model_class.from_pretrained(path).eval()(**given)[0] for path in (folder, tmp_path / "again")]
        assert (both[0] - both[1]).abs().max() <= 1e-4 * max(1.0, float(both[0].abs().max()))

    def test_a_missing_tensor_and_an_unknown_one_are_refused_by_name(self, tmp_path: Path) -> None:
        folder = self.pretrained(tmp_path / "theirs", 0)
        tensors = load_file(folder / WEIGHTS)
        name = next(name for name in tensors if name.endswith("weight") and tensors[name].ndim == 1)
        for changed, message in (({key: tensors[key] for key in tensors if key != name}, f"{name}: is missing"),
                                 ({**tensors, "an_unknown_tensor": torch.ones(1)}, "an_unknown_tensor")):
            save_file(changed, folder / WEIGHTS, {"format": "pt"})
            with pytest.raises(InputError, match=message):
                imported(folder, tmp_path / "ours")
