"""Each card of a loop over regimes reaches the page, once: links of the ledger lead to them."""

from __future__ import annotations

import pytest

from attention_companion.ledger import recording
from attention_companion.ledger.recording import Recorded

ENTRY = {
    "tag": "XOR-X",
    "regime": "d=4",
    "method": "exact",
    "checked_range": "all",
    "measured": "0",
    "measured_exact": "0",
    "interval": None,
    "control": None,
    "planted": None,
    "cell": "check-XOR-X--d-4",
    "outcome": "met",
}


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """What is displayed, as if in a kernel."""
    from IPython.core import getipython

    shown: list[dict[str, str]] = []
    monkeypatch.setattr(getipython, "get_ipython", lambda: object())
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append(data))
    return shown


def test_card_is_shown_when_recorded(displayed: list[dict[str, str]]) -> None:
    recording._shown(Recorded(ENTRY, "equals 0"))
    assert len(displayed) == 1
    assert 'id="check-XOR-X--d-4"' in displayed[0]["text/html"]
    assert "XOR-X" in displayed[0]["text/plain"]


def test_card_is_not_shown_twice_as_the_last_expression(displayed: list[dict[str, str]]) -> None:
    from IPython.core.formatters import DisplayFormatter

    formats, _ = DisplayFormatter().format(recording._shown(Recorded(ENTRY, "equals 0")))
    assert formats == {}
    assert len(displayed) == 1


def test_nothing_is_shown_outside_of_ipython(capsys: pytest.CaptureFixture[str]) -> None:
    recording._shown(Recorded(ENTRY, "equals 0"))
    assert capsys.readouterr().out == ""
