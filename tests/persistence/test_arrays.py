"""Columns become binary arrays that Postgres reads back as they were (psycopg's decoder judges)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.adapt import Transformer
from psycopg.pq import Format

from greenroom.persistence.arrays import (
    BOOL_COLUMN,
    BYTEA_COLUMN,
    ENCODING_ERRORS,
    INT8_COLUMN,
    TEXT_COLUMN,
    ColumnType,
)

integers = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def decoded(column: ColumnType, values: list[Any]) -> Any:
    data = column.encode(values)
    return Transformer().get_loader(column.array_oid, Format.BINARY).load(data)


@given(st.lists(st.none() | integers))
def test_integers_come_back(values):
    assert decoded(INT8_COLUMN, values) == values


@given(st.lists(st.none() | st.booleans()))
def test_truth_values_come_back(values):
    assert decoded(BOOL_COLUMN, values) == values


@given(st.lists(st.none() | st.binary()))
def test_bytes_come_back(values):
    assert decoded(BYTEA_COLUMN, values) == values


@given(st.lists(st.none() | texts))
def test_strings_come_back(values):
    assert decoded(TEXT_COLUMN, values) == values


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (INT8_COLUMN, 2**63),
        (INT8_COLUMN, "7"),
        (INT8_COLUMN, 1.5),
        (TEXT_COLUMN, "\ud800"),
        (TEXT_COLUMN, b"bytes"),
        (BYTEA_COLUMN, "text"),
    ],
)
def test_what_fits_no_column_is_an_encoding_error(column, value):
    with pytest.raises(ENCODING_ERRORS):
        column.encode([value])
