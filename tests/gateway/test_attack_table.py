"""Every attack of the table of attacks, and the one place where it is shown what comes of it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = ROOT.parent / "shared" / "cases" / "attacks.md"

TOKENS = "tests/validator/test_attacks_tokens.py"
POSTS = "tests/gateway/test_attacks.py"
NODES = "tests/gateway/test_api_nodes.py"
SLOW = "tests/gateway/test_slow_clients.py"

SHOWN = {
    "A1": (
        f"{POSTS}::test_a1_no_second_field_for_one_truth",
        f"{POSTS}::test_a1_a_member_given_twice_is_one_truth",
    ),
    "A2": (f"{TOKENS}::test_a2_another_prompt",),
    "A3": (f"{POSTS}::test_a3_no_text_is_taken",),
    "A4": (f"{POSTS}::test_a4_ids_that_are_none",),
    "A5": (f"{TOKENS}::test_a5_ends_suppressed",),
    "A6": (f"{TOKENS}::test_a6_an_end_put_in",),
    "A7": (f"{TOKENS}::test_a7_other_seeds_tried",),
    "A8": (
        f"{TOKENS}::test_a8_a_few_tokens_edited",
        "tests/gateway/test_orders_convicting.py"
        "::test_small_margins_in_every_sample_convict_a_miner",
    ),
    "A9": (
        f"{TOKENS}::test_a9_cheaper_weights",
        "tests/e2e/test_cheats_found.py::test_cheats_are_found_and_honest_samples_are_not",
    ),
    "A10": (f"{TOKENS}::test_a10_another_sampling",),
    "A11": (f"{TOKENS}::test_a11_another_samples_tokens",),
    "A12": (
        f"{POSTS}::test_a12_a_node_holds_a_bounded_number_of_leases",
        "tests/gateway/test_orders_dispatch.py::test_a_dead_miners_unit_is_finished_by_another",
        "tests/gateway/test_orders_dispatch.py::test_no_progress_keeps_a_lease_past_its_end",
        "tests/scoring/test_pay.py::test_failures_weigh_against_a_miner",
    ),
    "A13": (
        f"{POSTS}::test_a13_a_result_of_another_unit_attempt_or_miner",
        f"{POSTS}::test_a13_a_second_result_and_a_late_one_change_nothing",
        "tests/gateway/test_orders_stragglers.py"
        "::test_the_first_result_wins_and_the_other_is_not_blamed",
    ),
    "A14": (
        f"{POSTS}::test_a14_two_senders_in_one_request",
        f"{POSTS}::test_a14_a_captured_post_is_worth_nothing_elsewhere",
        f"{NODES}::test_signed_for_something_else",
    ),
    "A15": (f"{NODES}::test_rate_counts_only_what_a_hotkey_signed",),
    "A16": (
        f"{POSTS}::test_a16_a_deregistered_node_is_out_in_the_middle_of_its_lease",
        f"{NODES}::test_hotkeys_that_are_not_registered",
        "tests/protocol/test_chain_contract.py::test_a_reused_uid_inherits_no_weight",
    ),
    "A17": (
        "tests/gateway/test_orders_convicting.py"
        "::test_an_order_is_not_delivered_by_the_verdict_that_convicts",
        "tests/gateway/test_orders_blame.py"
        "::test_a_convicted_miners_work_is_given_to_others_at_once",
    ),
    "A18": (
        "tests/gateway/test_known_units.py"
        "::test_a_real_validator_that_passes_everything_is_turned_away",
        "tests/gateway/test_known_units.py::test_whoever_does_not_look_is_found_and_nobody_else",
        "tests/gateway/test_redress.py::test_what_fails_is_given_back_and_told",
    ),
    "A19": (
        "tests/validator/test_offline.py::test_logits_that_are_not_finite_are_the_validators_fault",
        "tests/validator/test_offline.py::test_what_fails_again_is_inconclusive_alone",
        "tests/validator/test_model_process.py::test_a_killed_child_is_replaced_and_nobody_blamed",
    ),
    "A20": (
        "tests/gateway/test_floods.py::test_a20_a_flood_of_signed_requests_is_answered_by_the_limit",
        "tests/gateway/test_floods.py::test_long_bodies_that_can_be_no_answer_are_not_read",
        f"{NODES}::test_body_limits",
        f"{SLOW}::test_slow_bodies_take_nobodys_place",
        f"{SLOW}::test_thousands_of_idle_connections",
    ),
    "A21": (
        "tests/gateway/test_orders_dispatch.py"
        "::test_an_owner_holds_few_leases_until_more_was_verified_of_it",
        "tests/gateway/test_orders_dispatch.py"
        "::test_another_hotkey_of_the_same_owner_is_no_other_miner",
        "tests/scoring/test_pay.py::test_an_owner_answers_for_all_its_hotkeys",
    ),
    "A22": (f"{NODES}::test_clock_skew_is_told_apart_from_replay",),
    "A23": (
        f"{TOKENS}::test_a23_honest_batches_of_any_size",
        "tests/miner/test_engines.py::test_batches_of_any_size_draw_the_same",
        "tests/miner/test_engines.py::test_prompts_of_one_token_and_of_many_chunks",
    ),
    "A24": (f"{TOKENS}::test_a24_a_generation_config_of_the_repositorys_own",),
    "A25": (f"{TOKENS}::test_a25_short_answers_and_short_prompts",),
}


@pytest.mark.parametrize("row", SHOWN)
def test_a_row_is_shown_by_tests_that_there_are(row: str) -> None:
    for shown in SHOWN[row]:
        file, _, name = shown.partition("::")
        tree = ast.parse((ROOT / file).read_text())
        found = {
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name in found, shown


def test_tests_that_are_named_by_a_row_show_that_row() -> None:
    shown = {place: row for row, places in SHOWN.items() for place in places}
    for file in {place.partition("::")[0] for place in shown}:
        for name in re.findall(r"def (test_a\d+_\w+)\(", (ROOT / file).read_text()):
            row = name.split("_")[1].upper()
            assert shown[f"{file}::{name}"] == row


@pytest.mark.skipif(not TABLE.exists(), reason="the table of attacks is not beside the project")
def test_every_row_is_shown() -> None:
    rows = re.findall(r"^\| (A\d+) \|", TABLE.read_text(), re.MULTILINE)
    assert rows == list(SHOWN)
