"""What a claim is: the pydantic models behind book/claims/*.yml and their JSON Schema.

A claim is written before it is checked. Everything here is typed by a person except the verdict, which appears
nowhere in these models: it is computed from records (see `verdicts`).
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from attention_companion.ledger.numbers import NumberError, parse_decimal

TAG_PATTERN = r"^(XOR|SIM|NTK)-[A-Z0-9-]+$"
PREFIXES = {"sparse_xor": "XOR", "simulator": "SIM", "ntk": "NTK"}

Paper = Literal["sparse_xor", "simulator", "ntk"]
Source = Literal["abstract", "quoted_table", "summary", "secondary_note", "released_code", "ours"]
Kind = Literal["theorem", "identity", "number", "observation", "scope"]
Operator = Literal["eq", "le", "ge", "lt", "gt", "between", "true"]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Tag = Annotated[str, StringConstraints(pattern=TAG_PATTERN)]


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is not a number; expected e.g. 3, 0.05, '1.2e3' or '1/3'")
    try:
        parse_decimal(value)
    except NumberError as error:
        raise ValueError(str(error)) from error
    return value


Decimal = Annotated[int | float | str, BeforeValidator(_number, json_schema_input_type=int | float | str)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Printed(_Strict):
    """One number (or word) a paper prints, and where we have it from. The papers' bodies were not available."""

    label: Text = Field(description="What the number is, e.g. 'm = 16'; unique within its claim.")
    value: Decimal | None = Field(
        default=None, description="The number; omitted when only words were printed."
    )
    text: Text = Field(description="As it is reported, e.g. '45.1' or '1.2e3'.")
    source: Source = Field(description="Where we read it; never 'ours'.")

    @model_validator(mode="after")
    def _not_ours(self) -> Printed:
        if self.source == "ours":
            raise ValueError(
                f"printed number {self.label!r} has source 'ours'; what we measured was never printed"
            )
        return self


class Expectation(_Strict):
    """What must hold of the measured number, decided before the first run.

    Bounds are read as decimals and combined exactly; a double is compared with the bound rounded once to double.
    """

    operator: Operator
    value: Decimal | tuple[Decimal, Decimal] | None = Field(
        default=None, description="The threshold; two ascending numbers for 'between'; omitted for 'true'."
    )
    tolerance: Decimal = Field(
        default=0, description="Widens the bound outward by this much (absolute); not negative."
    )
    reason: Text = Field(description="Why this value and this tolerance.")

    @model_validator(mode="after")
    def _shape(self) -> Expectation:
        if parse_decimal(self.tolerance) < 0:
            raise ValueError(f"tolerance is {self.tolerance}; expected a number >= 0")
        if self.operator == "true":
            if self.value is not None or parse_decimal(self.tolerance) != 0:
                raise ValueError("operator 'true' takes neither value nor tolerance")
        elif self.operator == "between":
            if not isinstance(self.value, tuple):
                raise ValueError(f"operator 'between' needs two numbers, got {self.value!r}")
            if parse_decimal(self.value[0]) > parse_decimal(self.value[1]):
                raise ValueError(f"'between' needs ascending numbers, got {list(self.value)}")
        elif self.value is None or isinstance(self.value, tuple):
            raise ValueError(f"operator {self.operator!r} needs one number as its value, got {self.value!r}")
        return self

    def bounds(self) -> tuple[Fraction | None, Fraction | None]:
        """(lower, upper) with the tolerance applied; None where there is no bound on that side."""
        slack = parse_decimal(self.tolerance)
        if self.operator == "true" or self.value is None:
            return None, None
        if isinstance(self.value, tuple):
            return parse_decimal(self.value[0]) - slack, parse_decimal(self.value[1]) + slack
        value = parse_decimal(self.value)
        if self.operator == "eq":
            return value - slack, value + slack
        if self.operator in ("ge", "gt"):
            return value - slack, None
        return None, value + slack

    def words(self) -> str:
        """The expectation in one line, e.g. 'at least 0.95'."""
        if self.operator == "true":
            return "is true"
        assert self.value is not None  # the validator refuses every other operator without a value
        if isinstance(self.value, tuple):
            text = f"between {self.value[0]} and {self.value[1]}"
        else:
            verb = {"eq": "equals", "le": "at most", "ge": "at least", "lt": "below", "gt": "above"}[
                self.operator
            ]
            text = f"{verb} {self.value}"
        return text if parse_decimal(self.tolerance) == 0 else f"{text} (tolerance {self.tolerance})"


class DriftTolerance(_Strict):
    """How far a rerun may stray from the accepted baseline. Exact numbers must agree exactly whatever stands here."""

    abs: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    rel: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    between_seed_sd: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="Allowed multiples of the between-seed standard deviation that the baseline recorded for a value.",
    )
    shown_only: tuple[Text, ...] = Field(
        default=(),
        description="Named values that are kept and shown, never compared: noise by nature, or counts behind the "
        "number that decides.",
    )
    reason: Text


class ToleranceChange(_Strict):
    """One change of an expectation or its tolerance after the first run, with its reason."""

    date: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    before: Text
    after: Text = Field(description="As `Expectation.words()` prints the new expectation.")
    reason: Text


class Claim(_Strict):
    """One claim: what is said, where, by whom, what would decide it, and which notebook decides it."""

    tag: Tag = Field(description="Permanent: never reused, never renamed.")
    paper: Paper
    place: Text = Field(description="Theorem, section or table; or that the place is not known to us.")
    source: Source = Field(description="Where we have the claim from.")
    mark: Literal["F", "A"] = Field(
        description="F: found in a source we hold; A: our assumption or reconstruction."
    )
    kind: Kind
    statement: Text = Field(description="Our paraphrase, in plain text.")
    quantifies: Text = Field(description="Over what the statement ranges.")
    printed: tuple[Printed, ...] = ()
    released: Text | None = Field(
        default=None, description="What the authors' released programs do in this respect."
    )
    expectation: Expectation
    drift: DriftTolerance | None = Field(
        default=None, description="Required as soon as a notebook checks the claim."
    )
    control: Text = Field(description="The same check with a broken hypothesis; it must fail.")
    argument: Text | None = Field(default=None, description="page#label of a written argument for all cases.")
    refuted_by: Text
    stops_holding: Text
    under_specified: Text | None = Field(default=None, description="What the recipe leaves unsaid.")
    checked_by: Annotated[str, StringConstraints(pattern=r"^[0-9a-z_]+$")] | None = None
    not_checked: Text | None = None
    tolerance_history: tuple[ToleranceChange, ...] = ()

    @model_validator(mode="after")
    def _whole(self) -> Claim:
        prefix = PREFIXES[self.paper]
        if not re.match(rf"^{prefix}-", self.tag):
            raise ValueError(
                f"tag {self.tag!r} does not begin with {prefix}-, the prefix of paper {self.paper!r}"
            )
        if (self.checked_by is None) == (self.not_checked is None):
            raise ValueError("give exactly one of checked_by (a notebook) and not_checked (a reason)")
        if self.checked_by is not None and self.drift is None:
            raise ValueError(
                f"checked_by is {self.checked_by!r} but drift is missing: how far may a rerun stray?"
            )
        labels = [p.label for p in self.printed]
        if len(set(labels)) != len(labels):
            raise ValueError(f"printed labels repeat: {labels}")
        if self.source == "ours" and self.printed:
            raise ValueError("a claim of ours has no printed numbers")
        return self

    def printed_number(self, label: str) -> Printed:
        """The printed number with that label. Raises KeyError naming the labels there are."""
        for item in self.printed:
            if item.label == label:
                return item
        raise KeyError(f"{self.tag} prints no {label!r}; labels: {[p.label for p in self.printed]}")
