"""The receipts of a delivery, read in order and held to the lines that they are for."""

from dataclasses import dataclass

from pydantic import ValidationError

from protocol.draw.key import draw_key, prompt_digest
from protocol.manifest import Statement
from protocol.receipts import SampleReceipt, fault
from scripts.verify.discrepancy import Discrepancy, difference, validation_fault
from scripts.verify.files import DeliveryFile
from scripts.verify.prompts import ExpectedLine
from scripts.verify.verdicts import verdict_fault

# Above the longest prompt with the longest sample.
MAX_RECEIPT_BYTES = 4 * 1024 * 1024
TERMS = ("model", "revision", "seed", "sampling", "vocabulary_size", "end_ids")


@dataclass(frozen=True)
class Expected:
    """What every receipt of a delivery must agree with.

    ``validators`` are the hotkeys that may have judged; None allows any.
    """

    statement: Statement
    gateway: str
    validators: frozenset[str] | None


class ReceiptReader:
    """Reads the receipts of one line after another; memory holds those of one line."""

    def __init__(self, file: DeliveryFile, expected: Expected) -> None:
        self._file = file
        self._expected = expected
        self._next = self._read()

    def of_line(self, line: ExpectedLine) -> dict[int, SampleReceipt]:
        """Return the receipts of ``line`` by choice, all of which hold.

        Raises:
            Discrepancy: one does not hold, or stands in the wrong place.
        """
        found: dict[int, SampleReceipt] = {}
        while (receipt := self._next) is not None and self._belongs(receipt, line):
            if found and receipt.choice <= max(found):
                raise self._fault(line, "choice", "does not follow the one before")
            self._check(receipt, line)
            found[receipt.choice] = receipt
            self._next = self._read()
        return found

    def _belongs(self, receipt: SampleReceipt, line: ExpectedLine) -> bool:
        if receipt.prompt_index < line.index:
            raise self._fault(line, "prompt_index", "does not follow the one before")
        if receipt.prompt_index > line.index and receipt.custom_id == line.custom_id:
            raise self._fault(line, "prompt_index", f"is not {line.index}")
        return receipt.prompt_index == line.index

    def _read(self) -> SampleReceipt | None:
        content = self._file.read_line(MAX_RECEIPT_BYTES)
        if not content:
            # Before output and errors are held to receipts that may be cut off.
            self._file.check_sizes()
            return None
        try:
            receipt = SampleReceipt.model_validate_json(content)
        except ValidationError as error:
            message, field = validation_fault(error)
            raise self._file.fault(message, field=field) from None
        if _encoded(receipt) != content:
            raise self._file.fault("is not in its canonical form", custom_id=receipt.custom_id[:64])
        return receipt

    def _check(self, receipt: SampleReceipt, line: ExpectedLine) -> None:
        if receipt.choice >= self._expected.statement.n:
            raise self._fault(line, "choice", f"is not below {self._expected.statement.n}")
        for field, found, due in self._dues(receipt, line):
            differs = None if found == due else difference(due, found, field)
            if differs is not None:
                raise self._fault(line, *differs)
        validators = self._expected.validators
        if validators is not None and receipt.verdict.validator not in validators:
            raise self._fault(line, "verdict.validator", "is none of the expected hotkeys")
        if (broken := self._token_fault(receipt.token_ids)) is not None:
            raise self._fault(line, "token_ids", broken)
        wrong = verdict_fault(receipt) or fault(receipt)
        if wrong is not None:
            raise self._fault(line, wrong.field, wrong.reason)

    def _dues(self, receipt: SampleReceipt, line: ExpectedLine) -> list[tuple[str, object, object]]:
        """Return members of a receipt as they are and as they must be."""
        statement = self._expected.statement
        sample_index = line.first_sample_index + receipt.choice
        digest = prompt_digest(line.prompt_ids)
        key = draw_key(statement.revision, statement.seed, digest, sample_index)
        terms = {name: getattr(statement, name) for name in TERMS}
        lease = {name: value for name, value in receipt.lease.statement.items() if name in terms}
        return [
            ("custom_id", receipt.custom_id, line.custom_id),
            ("prompt_ids", receipt.prompt_ids, line.prompt_ids),
            ("sample_index", receipt.sample_index, sample_index),
            ("draw_key", receipt.draw_key, key.hex()),
            ("lease.gateway", receipt.lease.gateway, self._expected.gateway),
            ("lease.statement", lease, terms),
        ]

    def _token_fault(self, ids: list[int]) -> str | None:
        """Return which structural rule of a sample its ids break."""
        statement = self._expected.statement
        limit, ends = int(statement.sampling["max_tokens"]), frozenset(statement.end_ids)
        if not 1 <= len(ids) <= limit:
            return f"has {len(ids)} ids, {limit} are allowed"
        if max(ids) >= statement.vocabulary_size:
            return f"holds {max(ids)}, the vocabulary has {statement.vocabulary_size} ids"
        if not ends.isdisjoint(ids[:-1]):
            return "goes on after an end id"
        if len(ids) < limit and ids[-1] not in ends:
            return f"stops after {len(ids)} of {limit} ids without an end id"
        return None

    def _fault(self, line: ExpectedLine, field: str, message: str) -> Discrepancy:
        return self._file.fault(message, custom_id=line.custom_id, field=field)


def _encoded(receipt: SampleReceipt) -> bytes | None:
    try:
        return receipt.encoded()
    except ValueError:
        return None
