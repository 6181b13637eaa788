import random
import re
from xml.etree import ElementTree

import pytest

from nas.core.describing import block_words, channels, in_a_line
from nas.stages.report import svg
from search_spaces import BlockConfig, load_space

SPACES = ("lm-tiny", "lm-mixed", "encoder-small", "seq2seq-small", "albert", "delight-lm")


def drawn(space, arch):
    slots = {name: stack.slots for name, stack in space.stacks.items()}
    return ElementTree.fromstring(svg.standalone(svg.draw(arch, slots, svg.widest_of({"": arch}))))


def of_class(picture, name):
    return [part for part in picture.iter() if name in part.get("class", "").split()]


@pytest.mark.parametrize("name", SPACES)
def test_boxes_are_to_scale_and_complete(name):
    space = load_space(name)
    for seed in range(6):
        arch = space.sample(random.Random(seed))
        picture, layers = drawn(space, arch), [layer for stack in arch.stacks.values() for layer in stack]
        wanted = [channels(block, arch.width) for layer in layers for _, block, _ in layer.parts()]
        rows = {}
        for box in of_class(picture, "box"):
            if box.tag.endswith("rect"):
                rows[box.get("y")] = rows.get(box.get("y"), 0.0) + float(box.get("width"))
        scale = svg.ROOM / svg.widest_of({"": arch})
        assert list(rows.values()) == pytest.approx([each * scale for each in wanted], abs=0.11)
        assert max(rows.values()) <= svg.ROOM + 0.2
        left_out = sum(stack.slots for stack in space.stacks.values()) - len(layers)
        empty = [part.text for part in picture.iter() if part.text and "unused" in part.text]
        assert sum(1 if text.startswith("slot") else int(text.split()[0]) for text in empty) == left_out


@pytest.mark.parametrize("name", ["lm-tiny", "albert"])
def test_what_shares_weights_hangs_on_a_bracket(name):
    space = load_space(name)
    for seed in range(12):
        arch = space.sample(random.Random(seed))
        uses = [(role, slot) for stack in arch.stacks.values() for layer in stack for role, _, slot in layer.parts()]
        again = len(uses) - len(set(uses))
        picture = drawn(space, arch)
        rows = {box.get("y") for box in of_class(picture, "again")}
        assert len(rows) == again
        assert len(of_class(picture, "bracket")) == sum(uses.count(use) > 1 for use in set(uses))
        assert bool(again) == ("shared" in in_a_line(arch))


def test_a_kind_that_nobody_knows_is_drawn_and_escaped():
    strange = BlockConfig.of("<b>new</b>", {"inner": 7, "x": "<i>"})
    assert block_words(strange, 8) == "<b>new</b>  inner 7, x <i>"
    picture = svg._Picture(8, 1.0)
    picture.block(strange, svg._boxes("mixer", strange, 8))
    found = ElementTree.fromstring(picture.svg("a <title>"))
    assert [part.text for part in found.iter() if part.text] == ["<b>new</b>  inner 7, x <i>"]


def test_a_box_has_a_cell_for_each_head():
    space = load_space("lm-tiny")
    arch = next(arch for arch in map(space.sample, map(random.Random, range(99)))
                if any(layer.mixer.kind == "attention" for layer in arch.decoder))
    cells = [1 + len(re.findall("M", path.get("d"))) for path in of_class(drawn(space, arch), "heads")]
    heads = [int(dict(layer.mixer.dims)["n_heads"]) for layer in arch.decoder if "n_heads" in dict(layer.mixer.dims)]
    assert cells == [n for n in heads if n > 1]


def test_the_box_of_what_is_left_out_is_wider_than_its_label():
    space = load_space("lm-tiny")
    for seed in range(40):
        arch = space.sample(random.Random(seed))
        picture = ElementTree.fromstring(svg.draw(arch, {"decoder": 6}, 4000))  # beside models that are far wider
        labels = [part.text for part in picture.iter() if part.text and "unused" in part.text]
        boxes = [float(box.get("width")) for box in of_class(picture, "gone")]
        assert len(boxes) == len(labels) > 0
        assert all(box >= 6 * len(label) for box, label in zip(boxes, labels))  # of 10.5 px, a character has 5 or 6
