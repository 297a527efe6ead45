"""The JSON Schema of a claim, for editors. `python -m attention_companion.ledger.schema` rewrites it."""

from __future__ import annotations

import json
from pathlib import Path

from attention_companion.ledger.baseline import write_atomically
from attention_companion.ledger.claims import find_root, load_claims
from attention_companion.ledger.models import Claim


def schema_text() -> str:
    """The schema of one entry of a claim file's list, as committed in book/claims/schema.json."""
    return json.dumps(Claim.model_json_schema(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def main(root: Path | None = None) -> None:
    """Validate every claim of the project and rewrite its schema.json."""
    root = find_root() if root is None else root
    count = len(load_claims(root))
    write_atomically(root / "book" / "claims" / "schema.json", schema_text())
    print(f"{count} claims are well formed; wrote book/claims/schema.json")


if __name__ == "__main__":
    main()
