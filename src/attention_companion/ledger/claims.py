"""Reading book/claims/*.yml: every error names the file, the tag and the field."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from attention_companion.ledger.models import PREFIXES, Claim


class ClaimError(ValueError):
    """A claim file is malformed; the message names file, tag and field."""


def find_root(start: Path | None = None) -> Path:
    """The project root: the folder that holds book/claims.

    ATTENTION_COMPANION_ROOT wins; else the folders above `start` (default: the working directory), then those above
    this package. Raises `ClaimError` when none holds book/claims.
    """
    told = os.environ.get("ATTENTION_COMPANION_ROOT")
    if told:
        if not (Path(told) / "book" / "claims").is_dir():
            raise ClaimError(f"ATTENTION_COMPANION_ROOT is {told!r}, which holds no book/claims")
        return Path(told)
    here = (start or Path.cwd()).resolve()
    package = Path(__file__).resolve().parents[1]
    for folder in (here, *here.parents, *package.parents):
        if (folder / "book" / "claims").is_dir() and (folder / "notebooks").is_dir():
            return folder
    raise ClaimError(
        f"no project found above {here} or {package}: expected a folder with book/claims and notebooks. "
        "Start from inside the project or set ATTENTION_COMPANION_ROOT."
    )


def claim_files(root: Path) -> tuple[Path, ...]:
    """The claim files, sorted by name."""
    return tuple(sorted((root / "book" / "claims").glob("*.yml")))


def load_claims(root: Path | None = None) -> dict[str, Claim]:
    """All claims by tag: paper by paper, then in file order. Raises `ClaimError` (malformed, or a tag twice)."""
    root = find_root() if root is None else root
    files = claim_files(root)
    if not files:
        raise ClaimError(f"{root / 'book' / 'claims'} holds no .yml file; expected one per paper")
    # Re-reading on a changed size or time is enough here: this cache only spares one process the repeated parse.
    return dict(_load(tuple((path, path.stat().st_mtime_ns, path.stat().st_size) for path in files)))


@lru_cache(maxsize=4)
def _load(signature: tuple[tuple[Path, int, int], ...]) -> Mapping[str, Claim]:
    claims: dict[str, Claim] = {}
    seen: dict[str, Path] = {}
    for path, _, _ in signature:
        for claim in read_file(path):
            if claim.tag in claims:
                raise ClaimError(
                    f"{path.name}: tag {claim.tag} is already used in {seen[claim.tag].name}; a tag is used once"
                )
            claims[claim.tag], seen[claim.tag] = claim, path
    order = list(PREFIXES)
    return dict(sorted(claims.items(), key=lambda item: order.index(item[1].paper)))


class _UniqueKeys(yaml.SafeLoader):
    """SafeLoader that refuses a key written twice: YAML would silently keep the last one."""


def _mapping(loader: _UniqueKeys, node: yaml.MappingNode) -> dict[Any, Any]:
    keys: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node)
        if key in keys:
            line = key_node.start_mark.line + 1
            text = f"key {key!r} is written twice (line {line})"
            raise yaml.constructor.ConstructorError(None, None, text, node.start_mark)
        keys.add(key)
    return loader.construct_mapping(node, deep=True)


_UniqueKeys.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_file(path: Path) -> list[Claim]:
    """The claims of one file: a mapping with one key, `claims`, whose value is a list."""
    try:
        # _UniqueKeys derives from SafeLoader: it constructs plain data only.
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeys)
    except yaml.YAMLError as error:
        raise ClaimError(f"{path.name}: not valid YAML: {error}") from error
    if not isinstance(data, dict) or set(data) != {"claims"} or not isinstance(data["claims"], list):
        got = f"{type(data).__name__} {_keys(data)}"
        raise ClaimError(f"{path.name}: expected one key 'claims' holding a list, got {got}")
    return [_one(path, index, entry) for index, entry in enumerate(data["claims"])]


def _keys(data: object) -> str:
    return f"with keys {sorted(map(str, data))}" if isinstance(data, dict) else ""


def _one(path: Path, index: int, entry: object) -> Claim:
    if not isinstance(entry, dict):
        raise ClaimError(
            f"{path.name}: entry {index + 1} is {type(entry).__name__}; expected a mapping of fields"
        )
    tag = entry.get("tag", f"entry {index + 1} (no tag)")
    try:
        return Claim.model_validate(entry)
    except ValidationError as error:
        lines = []
        for item in error.errors():
            field = ".".join(str(part) for part in item["loc"]) or "the claim as a whole"
            lines.append(f"{path.name}: {tag}: {field}: {item['msg']}")
        raise ClaimError("\n".join(lines)) from error
