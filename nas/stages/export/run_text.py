"""The text of `run.py` in an export's folder: it needs the runtime, NumPy and tokenizers, but not this project."""

from __future__ import annotations

OPENING = '''\
"""Runs the model of this folder: python run.py "a text". Needs {needs}."""

import json, pathlib, sys
import numpy as np, tokenizers
{imports}

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = json.loads((HERE / "config.json").read_text("utf-8"))
TOKENIZER = tokenizers.Tokenizer.from_file(str(HERE / "tokenizer.json"))


{load}


def read(text):  # the inputs of the model or its encoder, (1, n) each
    encoding = TOKENIZER.encode(text)
    if len(encoding) > CONFIG["length"]:
        sys.exit(f"the text has {{len(encoding)}} tokens; at most {{CONFIG['length']}} are allowed")
    ids, mask, types = encoding.ids, encoding.attention_mask, encoding.type_ids
    given = {{"input_ids": ids, "attention_mask": mask, "token_type_ids": types}}
    return [np.array([given[name]], np.int64) for name in CONFIG["inputs"] if name in given]
'''
GREEDY = '''

def greedy(ids, most, *source):  # the most probable tokens after ids; past, the cache, starts with masked tokens
    decode, cache, done, written = load("decode"), CONFIG["decoder"], 0, []
    past, mask = [np.zeros(shape, np.float32) for shape in cache["past"]], [0] * cache["start"]
    while len(written) < most and done < CONFIG["length"] and CONFIG.get("eos_token_id") not in written:
        now, ids = ids[: cache["reads"]], ids[cache["reads"] :]
        mask, places, done = (mask + [1] * len(now))[-cache["sees"] :], range(done, done + len(now)), done + len(now)
        logits, *past = decode(*(np.array([row], np.int64) for row in (now, mask, places)), *past, *source)
        if not ids:
            ids = [int(logits[0, -1].argmax())]
            written += ids
    return written
'''
BODIES = {
    "generate": GREEDY + '''

def generate(text, tokens=40):
    return TOKENIZER.decode(greedy(read(text)[0][0].tolist(), tokens))
''',
    "translate": GREEDY + '''

def translate(text):
    ids, mask, *types = read(text)
    source, most = load("encoder")(ids, mask, *types), 2 * mask.sum() + 10
    return TOKENIZER.decode(greedy([CONFIG["decoder_start_token_id"]], most, mask, *source)).strip()
''',
    "classify": '''

def classify(text):
    return CONFIG["id2label"][str(load("model")(*read(text))[0][0].argmax())]
''',
    "outputs": '''

def outputs(text):
    logits = load("model")(*read(text))[0][0]
    return logits * CONFIG.get("label_deviation", 1) + CONFIG.get("label_mean", 0)
'''}
"""Functions after `read`, by what the model does. The last function takes a text."""
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
