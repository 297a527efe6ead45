"""The real sets, from this machine's cache: against checksums and facts that others published.

``make test`` fetches the sets first. On a person's machine without them these tests are skipped, saying so; where
CI=true their absence is a failure.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

import numpy as np
import pytest

from attention_companion import datasets
from attention_companion.datasets import decode
from attention_companion.datasets.arrays import SPLITS, Split, split_digest
from attention_companion.datasets.catalogue import catalogue
from attention_companion.datasets.store import read_sample

pytestmark = pytest.mark.torch_free

# md5 of the decompressed IDX files as published (the same bytes whichever way they were compressed).
RAW_MD5 = {
    "mnist": {
        "train": ("6bbc9ace898e44ae57da46a324031adb", "a25bea736e30d166cdddb491f175f624"),
        "test": ("2646ac647ad5339dbf082846283269ea", "27ae3e4e09519cfbb04c329615203637"),
    },
    "fashion_mnist": {
        "train": ("f4a8712d7a061bf5bd6d2ca38dc4d50a", "9018921c3c673c538a1fc5bad174d6f9"),
        "test": ("8181f5470baa50b63fa0f6fddb340f0a", "15d484375f8d13e6eb1aabb0c3f46965"),
    },
}
# sha256 of the six batches of CIFAR-10's binary archive.
BATCH_SHA256 = {
    "train": (
        "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    ),
    "test": ("8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",),
}


def _whole(name: str, split: str, monkeypatch: pytest.MonkeyPatch) -> Split:
    monkeypatch.delenv("ATTENTION_COMPANION_ROUTES", raising=False)
    state = datasets.status(name)
    if state.kind != "full":
        message = f"{state}: these tests need the full set"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    images = datasets.load(name, split)
    return Split(images.pixels, images.labels.astype(np.uint8))


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", datasets.NAMES)
def test_shapes_counts_and_classes(name: str, split: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source, found = catalogue()[name], _whole(name, split, monkeypatch)
    assert found.pixels.shape == (source.counts[split], *source.shape)
    assert len(source.classes) == 10
    per_class = np.bincount(found.labels, minlength=10)
    if name == "mnist":  # the digits are not balanced; these are the published counts
        wanted = {
            "train": [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
            "test": [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
        }[split]
        assert per_class.tolist() == wanted
    else:
        assert set(per_class) == {source.counts[split] // 10}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", RAW_MD5)
def test_the_raw_files_have_their_published_checksums(
    name: str, split: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _whole(name, split, monkeypatch)
    raw = (decode.to_idx(found.pixels), decode.to_idx(found.labels))
    assert tuple(hashlib.md5(data).hexdigest() for data in raw) == RAW_MD5[name][split]


@pytest.mark.parametrize("split", SPLITS)
def test_cifar_batches_have_their_published_checksums(split: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = _whole("cifar10", split, monkeypatch)
    for number, wanted in enumerate(BATCH_SHA256[split]):
        part = slice(10_000 * number, 10_000 * (number + 1))
        batch = Split(found.pixels[part], found.labels[part])
        assert hashlib.sha256(decode.to_cifar_binary(batch)).hexdigest() == wanted


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_the_bundled_sample_is_the_beginning_of_the_real_set(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = catalogue()[name]
    assert source.sample is not None
    assert source.sample_digest is not None
    sample = read_sample(source.sample)
    for split, count in (("train", 512), ("test", 256)):
        assert len(sample[split].labels) == count
        assert split_digest(sample[split]) == source.sample_digest[split]
        whole = _whole(name, split, monkeypatch)
        np.testing.assert_array_equal(sample[split].pixels, whole.pixels[:count])
        np.testing.assert_array_equal(sample[split].labels, whole.labels[:count])
    assert source.sample.stat().st_size < 500_000


@pytest.mark.parametrize("name", datasets.NAMES)
def test_stamp_and_verification_agree_with_the_pins(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _whole(name, "test", monkeypatch)
    outcome = datasets.verify(name)
    assert outcome.ok, outcome
    assert datasets.stamp(name) == {"name": name, "kind": "full", "digest": dict(catalogue()[name].digest)}
    assert dict(outcome.digest) == dict(catalogue()[name].digest)


def test_absence_is_a_failure_in_ci_and_a_skip_elsewhere(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTENTION_COMPANION_CACHE", str(tmp_path))
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="companion data fetch mnist"):
        _whole("mnist", "test", monkeypatch)
    monkeypatch.setenv("CI", "")
    with pytest.raises(pytest.skip.Exception, match="need the full set"):
        _whole("mnist", "test", monkeypatch)
