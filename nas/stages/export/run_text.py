"""The text of `run.py` in an export's folder: it needs the runtime, NumPy and tokenizers, and nothing of ours."""

from __future__ import annotations

OPENING = '''\
"""Runs the model of this folder: python run.py "a text". Needs {needs}."""

import json
import sys
from pathlib import Path

import numpy as np
{imports}
from tokenizers import Tokenizer

HERE = Path(__file__).resolve().parent
CONFIG = json.loads((HERE / "config.json").read_text("utf-8"))
TOKENIZER = Tokenizer.from_file(str(HERE / "tokenizer.json"))


{load}


def read(text):
    ids = TOKENIZER.encode(text).ids
    if len(ids) > CONFIG["length"]:
        sys.exit(f"the text has {{len(ids)}} tokens; at most {{CONFIG['length']}} fit")
    return ids
'''
PADDED = '''

def padded(ids):
    """Ids, their mask, and token types, (1, n) each."""
    rest = [0] * (CONFIG["least_length"] - len(ids))
    given = {"input_ids": ids + rest, "attention_mask": [1] * len(ids) + rest, "token_type_ids": [0] * len(ids + rest)}
    return [np.array([given[name]], np.int64) for name in CONFIG["inputs"] if name in given]
'''
WRITE = '''

def write(ids, most, masks=(), source=()):
    """The most probable tokens after ids, up to the end of the text; the cache keeps what was read."""
    decode, step, position, written = load("decode"), CONFIG["decoder"], 0, []
    mask, past = [0] * step["start"], [np.zeros(shape, np.float32) for shape in step["past"]]
    while len(written) < most and position < CONFIG["length"]:
        now, ids = (ids[:1], ids[1:]) if step["window"] else (ids, [])
        mask = (mask + [1] * len(now))[-step["window"] - 1 if step["window"] else 0 :]
        places = np.arange(position, position + len(now), dtype=np.int64)[None]
        logits, *past = decode(np.array([now]), np.array([mask]), places, *masks, *past, *source)
        position += len(now)
        if not ids:
            ids = [int(logits[0, -1].argmax())]
            if ids[0] == CONFIG["eos_token_id"]:
                break
            written += ids
    return TOKENIZER.decode(written)
'''
BODIES = {
    "generate": WRITE + '''

def generate(text, tokens=40):
    return write(read(text), tokens)
''',
    "translate": PADDED + WRITE + '''

def translate(text):
    given = padded(read(text))
    most = 2 * int(given[1].sum()) + 10
    return write([CONFIG["decoder_start_token_id"]], most, given[1:2], load("encoder")(*given)).strip()
''',
    "classify": PADDED + '''

def classify(text):
    logits = load("model")(*padded(read(text)))[0][0]
    return CONFIG["id2label"][str(logits.argmax())]
''',
    "outputs": PADDED + '''

def outputs(text):
    found = load("model")(*padded(read(text)))[0][0]
    return found * CONFIG.get("label_deviation", 1) + CONFIG.get("label_mean", 0)
'''}
"""By what a model does: the functions after `read`. The last one takes a text."""
CLOSING = '''

if __name__ == "__main__":
    print({does}(*sys.argv[1:2] or ["{sample}"]))
'''


def run_text(does: str, needs: str, imports: str, load: str, sample: str) -> str:
    """The file.

    Args:
        does: a key of `BODIES`.
        needs: the packages, in words.
        imports, load: of a format: what it imports, and a function from the name of a program to a function that takes
            and gives NumPy arrays.
        sample: a text to try it with.
    """
    return (OPENING.format(needs=needs, imports=imports, load=load.strip()) + BODIES[does]
            + CLOSING.format(does=does, sample=sample))
