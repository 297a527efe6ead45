"""The ledger as a notebook sees it: `record`, `unavailable`, `Control`.

Collecting, comparing and accepting live in modules that this package does not import, not even inside a function: a
result's key covers the files its notebook reaches, and editing the comparison must not re-execute the notebooks. The
claim files are not part of that key either. They are read again when the ledger is collected, and outcomes and
verdicts are computed there from what was measured, so editing a claim re-executes nothing.
"""

from attention_companion.ledger.recording import Control, Recorded, RecordError, record, unavailable

__all__ = ["Control", "RecordError", "Recorded", "record", "unavailable"]
