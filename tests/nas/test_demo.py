"""The demo runs end to end and leaves a model that can be read again."""

import torch

from nas import demo
from nas.subnet import Subnet
from supernet import Transformer


def test_demo_writes_a_model_that_loads(tmp_path, capsys):
    folder = demo.main(tmp_path / "demo", steps=3, trials=6)
    model = Transformer.from_pretrained(folder)
    assert folder == tmp_path / "demo" / "subnets" / model.arch.key[:12]
    assert Subnet.open(str(folder)).facts.made[0].settings["difference_to_supernet"] == 0
    assert "5. use it" in capsys.readouterr().out
    assert torch.isfinite(model(torch.zeros(1, 4, dtype=torch.long))).all()
    assert demo.main(tmp_path / "demo") == folder
    assert "kept as it was" in capsys.readouterr().out
