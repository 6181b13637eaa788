"""A model by its name on the Hugging Face Hub."""

from __future__ import annotations

import re
from pathlib import Path

from search_spaces import InputError

FILES = ("*.json", "*.safetensors")
"""What is downloaded: no pickles, no code."""


def fetch(name: str) -> Path:
    """The folder of a model: the one of that name, or that of the Hub, downloaded. Raises InputError."""
    if Path(name).exists():
        return Path(name)
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name) or name.startswith("."):
        raise InputError(name, "is neither a folder nor the name of a model on the Hugging Face Hub")
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise InputError(name, "is not a folder; to download models, run `pip install 'paretoformer[huggingface]'`") \
            from None
    try:
        return Path(snapshot_download(name, allow_patterns=list(FILES)))
    except Exception as error:  # of the network, the Hub or the disk
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(name, f"is not a folder, and cannot be downloaded from the Hugging Face Hub ({reason})") \
            from None
