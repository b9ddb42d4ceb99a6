"""The tables, one file for each noun."""

from gateway.store.tables.accounts import Account, AccountState, ApiKey
from gateway.store.tables.base import Table, new_id
from gateway.store.tables.epochs import Epoch
from gateway.store.tables.files import (
    DeliveredFile,
    File,
    FileKind,
    FilePurpose,
    UploadPart,
)
from gateway.store.tables.known_answers import KnownAnswer
from gateway.store.tables.leases import Lease, LeaseKind, LeaseState
from gateway.store.tables.ledger import LedgerAccount, LedgerKind, Transfer, TransferKind
from gateway.store.tables.nodes import Node, NodeRole
from gateway.store.tables.orders import OPEN_STATUSES, Dialect, Ending, Order, OrderStatus
from gateway.store.tables.quotes import DatasetQuote, OutputFormat, Quote, QuoteStage
from gateway.store.tables.records import Record
from gateway.store.tables.reviews import Review, ReviewEnd, ReviewState
from gateway.store.tables.trails import Trail
from gateway.store.tables.units import Unit, UnitState
from gateway.store.tables.verdicts import Verdict

__all__ = [
    "OPEN_STATUSES",
    "Account",
    "AccountState",
    "ApiKey",
    "DatasetQuote",
    "DeliveredFile",
    "Dialect",
    "Ending",
    "Epoch",
    "File",
    "FileKind",
    "FilePurpose",
    "KnownAnswer",
    "Lease",
    "LeaseKind",
    "LeaseState",
    "LedgerAccount",
    "LedgerKind",
    "Node",
    "NodeRole",
    "Order",
    "OrderStatus",
    "OutputFormat",
    "Quote",
    "QuoteStage",
    "Record",
    "Review",
    "ReviewEnd",
    "ReviewState",
    "Table",
    "Trail",
    "Transfer",
    "TransferKind",
    "Unit",
    "UnitState",
    "UploadPart",
    "Verdict",
    "new_id",
]
