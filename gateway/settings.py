"""The gateway's settings: read once at the start of the process and passed down."""

from decimal import Decimal
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from gateway.orders.policy import SECOND, Policy
from protocol.chain.option import ChainSetting, LocalOption
from protocol.messages import MAX_UNIT_SAMPLES


class GatewaySettings(BaseSettings):
    """What an operator sets, each as ``RELIQUARY_GATEWAY_<NAME>`` in the environment.

    Attributes:
        data: folder for the database, objects and files while they are read.
        database_url: SQLAlchemy URL; an SQLite file in ``data`` where it is not set.
        objects_url: ``file:///...`` or ``s3://bucket/prefix``; a folder in ``data`` where not set.
        host, port: where HTTP is served; port 0 takes a free one.
        hotkey: the gateway's hotkey file, made at the first start.
        chain: ``local:PATH`` or ``bittensor:NETWORK:NETUID``; the file ``chain.sqlite`` in ``data``
            where it is not set.
        unit_samples: fixed number of samples of a unit; None follows each miner's speed.
        lease_seconds: how long a lease lives without a heart-beat.
        heartbeat_seconds: how often a node is asked to send one.
        second_opinions: share of judged units that go to a second validator of another owner.
        known_answers: share of judged units whose right verdicts are known, where there are probes.
        probe_hotkeys: files of registered hotkeys of the operator's own, which sign known-answer
            units as miners do; without one there are no such units.
        audit_backlog: units that may wait for audit before less generation is offered.
        cancel_grace_seconds: how long units in flight may finish after a cancellation.
        open_orders: orders of one account that may be open at once.
        quotes_per_day: quotes of one account in any 24 hours.
        uploads_at_once: uploads of one account that may be under way at once.
        intake_workers: processes that read, render and tokenize files, and as many that grade.
        architectures: supported ``architectures[0]`` of a model's ``config.json``; empty: those
            that the nodes announce.
        node_gpus: GPUs of one node, which a model must fit.
        gpu_gb: memory of one of them, in 10**9 bytes.
        prices: the price file; that of ``gateway/catalog`` where it is not set.
        epoch_seconds: length of an epoch, of which each has its public record.
        emission_usd: what the chain's emission of an epoch to miners is worth, in USD; where it is
            not set nothing is burnt (``docs/incentives.md``).
        batches_enabled: False answers every customers' route with 404 ``not_available``.
    """

    model_config = SettingsConfigDict(env_prefix="RELIQUARY_GATEWAY_", extra="forbid", frozen=True)

    data: Path
    database_url: SecretStr = SecretStr("")
    objects_url: str = ""
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8_000
    hotkey: Path = Path()
    chain: ChainSetting = LocalOption(Path())
    unit_samples: Annotated[int, Field(ge=1, le=MAX_UNIT_SAMPLES)] | None = None
    lease_seconds: Annotated[float, Field(gt=0, le=3_600)] = 60.0
    heartbeat_seconds: Annotated[float, Field(gt=0, le=1_200)] = 15.0
    second_opinions: Annotated[float, Field(ge=0, le=1)] = 0.05
    known_answers: Annotated[float, Field(ge=0, le=1)] = 0.02
    probe_hotkeys: tuple[Path, ...] = ()
    audit_backlog: Annotated[int, Field(ge=1, le=100_000)] = 64
    cancel_grace_seconds: Annotated[float, Field(ge=0, le=3_600)] = 120.0
    open_orders: Annotated[int, Field(ge=1, le=1_000_000)] = 5
    quotes_per_day: Annotated[int, Field(ge=1, le=1_000_000)] = 200
    uploads_at_once: Annotated[int, Field(ge=1, le=1_000)] = 20
    intake_workers: Annotated[int, Field(ge=1, le=64)] = 1
    architectures: tuple[str, ...] = ()
    node_gpus: Annotated[int, Field(ge=1, le=1_024)] = 8
    gpu_gb: Annotated[float, Field(gt=0, le=100_000)] = 80.0
    prices: Path | None = None
    epoch_seconds: Annotated[int, Field(ge=1, le=604_800)] = 4_320
    emission_usd: Annotated[Decimal, Field(ge=0, le=1_000_000)] | None = None
    batches_enabled: bool = True

    @model_validator(mode="after")
    def _place_in_data(self) -> Self:
        data = self.data.resolve()
        defaults = {
            "data": data,
            "hotkey": data / "hotkey.json" if self.hotkey == Path() else self.hotkey,
            "chain": (
                LocalOption(data / "chain.sqlite")
                if self.chain == LocalOption(Path())
                else self.chain
            ),
            "objects_url": self.objects_url or f"file://{data / 'objects'}",
            "database_url": (
                self.database_url
                if self.database_url.get_secret_value()
                else SecretStr(f"sqlite:///{data / 'gateway.sqlite'}")
            ),
        }
        if self.heartbeat_seconds >= self.lease_seconds:
            raise ValueError("heartbeat_seconds must be below lease_seconds")
        # The instance is frozen for everybody else.
        for name, value in defaults.items():
            object.__setattr__(self, name, value)
        return self

    @property
    def policy(self) -> Policy:
        """The rules of dispatch and delivery."""
        return Policy(
            unit_samples=self.unit_samples,
            lease_ms=round(self.lease_seconds * SECOND),
            heartbeat_ms=round(self.heartbeat_seconds * SECOND),
            second_opinions=self.second_opinions,
            known_answers=self.known_answers,
            audit_backlog=self.audit_backlog,
            cancel_grace_ms=round(self.cancel_grace_seconds * SECOND),
            open_orders=self.open_orders,
            quotes_per_day=self.quotes_per_day,
            epoch_ms=self.epoch_seconds * SECOND,
            emission_nano=None if self.emission_usd is None else int(self.emission_usd * 10**9),
        )

    @property
    def node_bytes(self) -> int:
        """GPU memory of one node."""
        return round(self.node_gpus * self.gpu_gb * 10**9)

    @property
    def incoming(self) -> Path:
        """Folder for uploads and intakes while they are at work; emptied at the start."""
        return self.data / "incoming"
