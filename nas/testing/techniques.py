"""What every compression technique promises."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from nas.stages.compress.technique import Technique
from nas.stages.compress.techniques import make_technique, techniques
from search_spaces import InputError
from search_spaces.files.loader import space_from_data
from supernet import Transformer
from supernet.compression.quantised import DYNAMIC, quantise
from supernet.train.recipe import Recipe

SPACE = {"schema_version": 1, "name": "small", "family": "lm", "vocab_size": 40, "context": 12, "width": 16,
         "embedding": {"lookup": {}}, "head": {"tied": {}},
         "decoder": {"slots": 1, "layers": {"only": {"mixer": {"attention": {"n_heads": 2}},
                                                     "ffn": {"ffn": {"inner": "2x"}}}}}}


class TechniqueContract:
    """Set `name` to that of your technique, and `value` to what its option takes, such as 0.5."""

    name: str
    value: ClassVar[Any] = True
    wrong: ClassVar[Any] = None
    """A value that its option refuses, where there is one."""

    @property
    def technique(self) -> type[Technique]:
        """The technique under test."""
        return techniques()[self.name]

    def make(self, **options: Any) -> Technique:
        """The technique with its options."""
        return make_technique({self.name: self.value, **options})

    def test_the_declaration_is_complete(self) -> None:
        technique = self.technique
        assert technique.help and not technique.help.endswith(".") and technique.name == self.name
        assert all(field.description for field in technique.model_fields.values())
        assert set(technique.options) <= set(technique.model_fields)
        assert technique.value is None or technique.value in technique.model_fields

    def test_its_settings_are_those_it_declares(self) -> None:
        technique = self.make()
        assert technique.suffix and technique.trains in ("never", "on request", "by default", "always")
        assert set(technique.settable) <= set(technique.settings()) <= set(type(technique).model_fields)
        assert type(technique).model_validate(technique.model_dump()) == technique

    def test_options_of_nobody_and_wrong_values_are_refused_by_name(self) -> None:
        with pytest.raises(InputError, match="an_option"):
            self.make(an_option=1)
        if self.wrong is not None:
            with pytest.raises(InputError, match=self.name):
                make_technique({self.name: self.wrong})

    def test_what_is_quantised_already_is_refused(self) -> None:
        model = quantise(Transformer(space_from_data(SPACE, "small").smallest(), seed=0).eval(), DYNAMIC)
        with pytest.raises(InputError):
            self.make().check(model, Recipe())
