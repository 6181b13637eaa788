"""Uses exported Hugging Face folders as their users do, with transformers 4.49 or later and without this project.

`python hugging_alone.py FOLDER TEXT`: FOLDER has exports `lm`, `encoder` and `seq2seq`, each with a file of inputs.
Prints one JSON object: what was computed, for a test to compare. With `accelerate`, Trainer fine-tunes them.
"""

import importlib.util
import json
import sys
import tempfile
from pathlib import Path


class Nothing:
    """Our packages are not here."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("search_spaces", "supernet", "hardware_profiles", "nas"):
            raise ImportError(name + " is not installed here")


sys.meta_path.insert(0, Nothing())

import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

AUTO = {"lm": transformers.AutoModelForCausalLM, "encoder": transformers.AutoModelForSequenceClassification,
        "seq2seq": transformers.AutoModelForSeq2SeqLM}
GREEDY = {"do_sample": False, "num_beams": 1}
BEAMS = {"do_sample": False, "num_beams": 3}
STEPS = 20


def loaded(folder):
    model = AUTO[folder.name.split("-")[0]].from_pretrained(folder, trust_remote_code=True)
    return model.eval(), transformers.AutoTokenizer.from_pretrained(folder)  # without a terminal, nobody is asked


@torch.no_grad()
def saved_again(folder, model, tokenizer):
    """Logits, and those of what is saved and loaded again."""
    inputs = load_file(f"{folder}.safetensors")
    first, again = model(**inputs).logits, folder.with_name(folder.name + "-again")
    model.save_pretrained(again)
    tokenizer.save_pretrained(again)
    other, read = loaded(again)
    assert torch.equal(other(**inputs).logits, first)
    assert read("12+3").input_ids == tokenizer("12+3").input_ids
    save_file({"logits": first}, f"{folder}-logits.safetensors")


def written(model, given, **settings):
    """New ids of each row, up to the end."""
    ids = model.generate(**given, **settings)
    start = 1 if model.config.is_encoder_decoder else given["input_ids"].shape[1]
    rows = [row[start:] for row in ids.tolist()]
    return [row[:row.index(model.config.eos_token_id)] if model.config.eos_token_id in row else row for row in rows]


def generates(model, tokenizer, text):
    """Batches equal single rows, and caches change nothing. Gives the greedy tokens after the text."""
    texts = [text, text[:2], text[1:4]]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    batch.pop("token_type_ids", None)
    most = 12 if model.config.is_encoder_decoder else 30  # past the context, a language model reads the end of a text
    for settings, n in ((GREEDY, 5), (BEAMS, 5), (GREEDY, most)):
        settings = {**settings, "max_new_tokens": n}
        together = written(model, batch, **settings)
        for i, each in enumerate(texts):
            single = tokenizer(each, return_tensors="pt")
            assert written(model, single, **settings)[0] == together[i], (settings, i)
        assert written(model, batch, use_cache=False, **settings) == together, settings
    return written(model, tokenizer(text, return_tensors="pt"), **GREEDY)[0]


def examples(family, tokenizer):
    """Something to learn: texts of digits, the number of their class, or their end."""
    texts = [f"{i % 7}+{i % 5}={i % 3}" for i in range(32)]
    rows = [tokenizer(text) for text in texts]
    if family == "encoder":
        return [{**row, "labels": i % 3} for i, row in enumerate(rows)]
    if family == "lm":
        return [dict(row) for row in rows]
    return [{**row, "labels": row["input_ids"]} for row in rows]


def collator(family, model, tokenizer):
    if family == "lm":
        return transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False)
    if family == "seq2seq":
        return transformers.DataCollatorForSeq2Seq(tokenizer, model=model)
    return transformers.DataCollatorWithPadding(tokenizer)


def fine_tuned(family, model, tokenizer):
    """The losses of some steps, by Trainer or, where accelerate is missing, by hand."""
    data, collate = examples(family, tokenizer), collator(family, model, tokenizer)
    if importlib.util.find_spec("accelerate") is None:
        model.gradient_checkpointing_enable()
        optimizer, batch, losses = torch.optim.AdamW(model.train().parameters(), lr=1e-2), collate(data), []
        for _ in range(5):
            losses.append(float(loss := model(**batch).loss))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return losses
    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(
            folder, max_steps=STEPS, per_device_train_batch_size=16, gradient_accumulation_steps=2, learning_rate=1e-2,
            logging_steps=1, report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True)
        trainer = transformers.Trainer(model, settings, train_dataset=data, eval_dataset=data, data_collator=collate)
        trainer.train()
        trainer.evaluate()
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]


def main(folder, text):
    torch.set_num_threads(1)
    found = {"transformers": transformers.__version__}
    for family in AUTO:
        model, tokenizer = loaded(folder / family)
        saved_again(folder / family, model, tokenizer)
        found[family] = {"ids": tokenizer(text).input_ids, "labels": model.config.id2label,
                         "special": {name: getattr(model.config, name) for name in ("bos_token_id", "eos_token_id")}}
        if family == "encoder":
            classify = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer)
            found[family]["pipeline"] = classify(text)[0]["label"]
        else:
            found[family]["written"] = generates(model, tokenizer, text)
        if family == "lm":
            pipe = transformers.pipeline("text-generation", model=model, tokenizer=tokenizer)
            found[family]["pipeline"] = pipe(text, max_new_tokens=4, do_sample=False)[0]["generated_text"]
        losses = fine_tuned(family, model, tokenizer)
        found[family]["losses"] = [losses[0], losses[-1]]
        assert losses[-1] < losses[0], losses
    print("\n" + json.dumps(found))  # a question about code has no end of line


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
