"""Scores for a person: a table of all miners, and one miner's account line by line."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from scoring.pay import LAPSE_COST, MILLION, ONE, VOID_COST, Account, PayRule, Scores

NANO = 10**9


def score_table(scored: Scores) -> None:
    """Print every miner's score, best first, and what is burnt."""
    total = sum(scored.shares().values()) + scored.burnt
    shown = Table(title=f"Scores at epoch {scored.epoch}")
    for heading in ("miner", "earned USD", "reliability", "score USD", "share"):
        shown.add_column(heading, justify="left" if heading == "miner" else "right")
    for account in sorted(scored.accounts.values(), key=lambda one: (-one.score, one.hotkey)):
        note = "banned" if account.banned_until is not None else _percent(account.score, total)
        shown.add_row(
            account.hotkey,
            _usd(account.earned // ONE),
            f"{account.reliability / MILLION:.4f}",
            _usd(account.score),
            note,
        )
    shown.add_row("(burnt)", "", "", _usd(scored.burnt), _percent(scored.burnt, total))
    Console().print(shown)


def account_lines(scored: Scores, account: Account, rule: PayRule) -> Iterator[str]:
    """Yield how a miner's score comes about, a line for each epoch and each step."""
    yield f"{account.hotkey} at epoch {scored.epoch}"
    for number, share, work in account.epochs:
        yield (
            f"  epoch {number}: weight {share / ONE:.6f} x {_usd(work.nano)} USD of verified "
            f"tokens; {work.good} samples verified, {work.void} void, {work.lapsed} leases lapsed"
        )
    yield f"earned       {_usd(account.earned // ONE)} USD, the sum of weight x verified work"
    faded = [f"{part / ONE:.3f}" for part in (account.good, account.void, account.lapsed)]
    yield (
        f"reliability  {account.reliability / MILLION:.6f} = {faded[0]} good / ({faded[0]} + "
        f"{VOID_COST} x {faded[1]} void + {LAPSE_COST} x {faded[2]} lapsed)"
    )
    if account.banned_until is not None:
        yield f"score        0: convicted, banned until epoch {account.banned_until}"
        return
    yield f"score        {_usd(account.score)} USD = earned x reliability^2"
    total = sum(scored.shares().values()) + scored.burnt
    yield f"share        {_percent(account.score, total)} of all scores and what is burnt"
    yield f"rule         {rule}"


def _usd(nano: int) -> str:
    return f"{nano / NANO:.9f}"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "0.00 %"
