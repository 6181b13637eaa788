"""The demo runs end to end and leaves a model that can be read again."""

import torch
from safetensors.torch import load_file

from nas import demo
from search_spaces import load_architecture
from supernet import Transformer


def test_demo_writes_a_model_that_loads(tmp_path, capsys):
    folder = demo.main(tmp_path / "demo", steps=3, trials=6)
    arch = load_architecture(folder / "architecture.json")
    model = Transformer(arch)
    model.load_state_dict(load_file(folder / "model.safetensors"))
    assert folder.name == arch.key
    assert sorted(path.name for path in folder.iterdir()) == ["architecture.json", "model.safetensors"]
    assert "supernet's logits 0\n" in capsys.readouterr().out
    assert torch.isfinite(model(torch.zeros(1, 4, dtype=torch.long))).all()
    assert demo.main(tmp_path / "demo") == folder
