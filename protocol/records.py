"""The public records as a reader keeps them: fetched once, checked, and kept in a folder."""

from collections.abc import Iterable
from pathlib import Path

import aiohttp
from pydantic import ValidationError

from protocol.epochs import (
    MAX_RECORD_BYTES,
    EpochList,
    EpochRecord,
    EpochSummary,
    RecordFault,
    check_chain,
)

TIMEOUT_SECONDS = 60.0
MAX_LIST_BYTES = 1024 * 1024


class RecordsUnavailable(Exception):
    """The gateway cannot be reached, or does not answer as it should; a later try may pass."""


class Records:
    """One gateway's records in a folder.

    Args:
        base_url: the gateway's origin.
        gateway: the hotkey that must have signed them.
        folder: where they are kept, made where there is none; one folder for each gateway.
    """

    def __init__(self, base_url: str, gateway: str, folder: Path) -> None:
        self._url = f"{base_url.rstrip('/')}/api/v1/epochs"
        self._gateway = gateway
        self._folder = folder

    async def update(self) -> list[EpochRecord]:
        """Fetch what is new and return all records, ascending, once they are checked.

        Raises:
            RecordsUnavailable: the gateway cannot be asked.
            RecordFault: a record is not signed by the gateway, does not follow the one before, or
                was changed since it was fetched.
        """
        kept = {record.statement.number: record for record in self.kept()}
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        try:
            async with aiohttp.ClientSession(timeout=timeout) as session:
                listed = await self._list(session)
                fetched = await self._missing(session, listed, kept)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise RecordsUnavailable(f"{self._url} cannot be read: {error}") from error
        known = sorted((kept | fetched).items())
        check_chain([record for _, record in known], self._gateway)
        self._folder.mkdir(parents=True, exist_ok=True)
        for number, record in fetched.items():
            self._keep(number, record.encoded())
        return [record for _, record in known]

    def kept(self) -> list[EpochRecord]:
        """Return the records in the folder, ascending.

        Raises:
            RecordFault: a file in it is none.
        """
        files = sorted(self._folder.glob("epoch-*.json"), key=lambda file: int(file.stem[6:]))
        return [_read_kept(file) for file in files]

    def _keep(self, number: int, content: bytes) -> None:
        part = self._folder / f"epoch-{number}.part"
        part.write_bytes(content)
        part.rename(self._folder / f"epoch-{number}.json")

    async def _list(self, session: aiohttp.ClientSession) -> list[EpochSummary]:
        content = await _read(session, self._url, MAX_LIST_BYTES)
        try:
            return EpochList.model_validate_json(content).epochs
        except ValidationError as error:
            raise RecordsUnavailable(f"{self._url} gives no list of records") from error

    async def _missing(
        self,
        session: aiohttp.ClientSession,
        listed: Iterable[EpochSummary],
        kept: dict[int, EpochRecord],
    ) -> dict[int, EpochRecord]:
        fetched = {}
        for summary in listed:
            number = summary.number
            if number not in kept:
                fetched[number] = await self._fetch(session, number)
            if (kept | fetched)[number].digest != summary.digest:
                raise RecordFault(f"the gateway shows another record of epoch {number}")
        return fetched

    async def _fetch(self, session: aiohttp.ClientSession, number: int) -> EpochRecord:
        content = await _read(session, f"{self._url}/{number}", MAX_RECORD_BYTES)
        try:
            record = EpochRecord.model_validate_json(content)
        except ValidationError as error:
            raise RecordFault(f"the record of epoch {number} is malformed") from error
        if record.statement.number != number:
            raise RecordFault(f"asked for epoch {number}, got epoch {record.statement.number}")
        return record


def _read_kept(file: Path) -> EpochRecord:
    try:
        return EpochRecord.model_validate_json(file.read_bytes())
    except ValidationError as error:
        raise RecordFault(f"{file} is damaged; delete it, and it is fetched again") from error


async def _read(session: aiohttp.ClientSession, url: str, most: int) -> bytes:
    async with session.get(url) as answer:
        if answer.status != 200:
            raise RecordsUnavailable(f"{url} answers {answer.status}")
        content = await answer.content.read(most + 1)
        while len(content) <= most and (piece := await answer.content.read(most + 1)):
            content += piece
        if len(content) > most:
            raise RecordsUnavailable(f"{url} is longer than {most:,} bytes")
        return content
