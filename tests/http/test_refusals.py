"""The contract's list of refusals against the rules that refuse."""

from __future__ import annotations

from refusals_kit import listed_refusals

from greenroom.client.errors import NotFound, refusal
from greenroom.contract.refusals import CODES, REFUSALS


def test_the_contract_lists_what_the_endpoints_refuse_with() -> None:
    assert listed_refusals() == REFUSALS, "change greenroom/contract/refusals.py likewise"


def test_a_code_and_a_text_name_one_refusal() -> None:
    assert len({refusal.code for refusal in REFUSALS}) == len(REFUSALS)
    assert len(CODES) == len(REFUSALS)


def test_the_client_knows_the_code_of_a_refusal() -> None:
    found = refusal(404, b'{"success":false,"error":"Friend request not found"}', None)

    assert isinstance(found, NotFound)
    assert found.code == "friend_request_not_found"


def test_a_text_that_is_not_listed_has_no_code() -> None:
    found = refusal(400, b'{"success":false,"error":"something new"}', None)

    assert getattr(found, "code", "?") is None
