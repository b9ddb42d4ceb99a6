"""The wire messages between gateway, miners and validators, version 5 (``docs/wire.md``).

Every message is JSON. Integers are strict: a float, a boolean or a string never passes for a token
id. Unknown members are refused, so that a newer node meets a clear error and not silence.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    model_serializer,
    model_validator,
)

from protocol.sampling import MAX_TOKENS_LIMIT, Sampling, Seed

WIRE_VERSION = 5
MAX_UNIT_SAMPLES = 4_096
MAX_MARKS = 8_192
MARK_STRATA = 12
MARK_BINS = 14
MAX_VOCABULARY = 2**31
MAX_WAIT_SECONDS = 30

Hex32 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Revision = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
ModelName = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9][A-Za-z0-9_.-]{0,95}$")
]
Identifier = Annotated[str, Field(pattern=r"^[0-9a-f-]{36}$")]
Signature = Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]
Hotkey = Annotated[str, Field(min_length=40, max_length=64, pattern=r"^[1-9A-HJ-NP-Za-km-z]+$")]
TokenId = Annotated[int, Field(ge=0, lt=MAX_VOCABULARY, strict=True)]
Count = Annotated[int, Field(ge=0, lt=2**53, strict=True)]
# Without NUL, which databases refuse in text.
ShortText = Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")]

Role = Literal["miner", "validator"]
EngineName = Literal["vllm", "transformers"]
# ``auto`` is the repository's own, as long as no model is loaded.
DtypeName = Literal["auto", "float32", "bfloat16", "float16"]
DeviceKind = Literal["cpu", "cuda"]
_DTYPES: TypeAdapter[DtypeName] = TypeAdapter(DtypeName)


def dtype_name(dtype: object) -> DtypeName:
    """Return the name of a dtype, given as one of torch's or as its name.

    Raises:
        ValueError: it is none that a stack may have.
    """
    return _DTYPES.validate_python(str(dtype).removeprefix("torch."))


class Message(BaseModel):
    """Base of all messages: immutable, no unknown members, no NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Stack(Message):
    """What a node computes with; chooses among published audit profiles, proves nothing.

    ``version`` and ``kernels`` are free text: they choose a profile only where one was measured
    under the very same words. ``kernels`` is empty as long as nothing is loaded, and then left out:
    so stacks that were signed before it was there stay what they were.
    """

    engine: EngineName
    version: ShortText
    dtype: DtypeName
    head_dtype: DtypeName
    device: DeviceKind
    parallelism: Count = 1
    kernels: ShortText = ""

    @model_serializer(mode="wrap")
    def _without_empty(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        members = plain(self)
        if not self.kernels:
            members.pop("kernels", None)
        return members


class GatewayIdentity(Message):
    """Answer of ``GET /nodes/v1/gateway``: whom to sign for, and in which version."""

    hotkey: Hotkey
    wire_version: int = WIRE_VERSION
    time: float


class LoadedModel(Message):
    """The model commit that a node's engine holds at present."""

    model: ModelName
    revision: Revision


class Announcement(Message):
    """Body of ``POST /nodes/v1/announce``: what a node is and can serve. Repeated every minute.

    ``loading`` is the commit that it has begun, or is about, to load.
    """

    role: Role
    stack: Stack
    architectures: Annotated[list[ShortText], Field(max_length=64)]
    loaded: LoadedModel | None = None
    loading: LoadedModel | None = None
    max_samples: Annotated[int, Field(ge=1, le=MAX_UNIT_SAMPLES, strict=True)] = 256


class Demand(Message):
    """One row of the demand board: work that waits for a model commit.

    Tokens are estimates. ``leased_tokens`` are with miners now. ``miners`` and ``validators`` are
    the live ones that hold the commit or load it.
    """

    model: ModelName
    revision: Revision
    architecture: ShortText
    waiting_samples: Count
    waiting_audits: Count
    deadline: float
    waiting_tokens: Count = 0
    leased_tokens: Count = 0
    audit_tokens: Count = 0
    miners: Count = 0
    validators: Count = 0

    @property
    def commit(self) -> LoadedModel:
        """The commit that the work is of."""
        return LoadedModel(model=self.model, revision=self.revision)


class DemandBoard(Message):
    """Answer of ``GET /nodes/v1/demand``, most urgent first."""

    demands: list[Demand]


class LeaseRequest(Message):
    """Body of ``POST /nodes/v1/leases``: a node asks for work on the model it has loaded.

    Where there is none it waits for some, up to ``wait_seconds``.
    """

    role: Role
    loaded: LoadedModel
    max_samples: Annotated[int, Field(ge=1, le=MAX_UNIT_SAMPLES, strict=True)] = 256
    wait_seconds: Annotated[float, Field(ge=0, le=MAX_WAIT_SECONDS, strict=True)] = 0.0


class SampleReference(Message):
    """One sample of a unit: which prompt of the lease, and its index in the draw key."""

    prompt: Count
    sample_index: Annotated[int, Field(ge=0, lt=2**32, strict=True)]


class Work(Message):
    """The immutable content of a unit: what to generate, or what was to be generated.

    ``samples`` fixes the order in which results and verdicts are given. The draw key of a sample
    is ``draw_key(revision, seed, digest(prompts[prompt]), sample_index)``.
    """

    unit_id: Identifier
    model: ModelName
    revision: Revision
    seed: Seed
    sampling: Sampling
    vocabulary_size: Annotated[int, Field(ge=1, le=MAX_VOCABULARY, strict=True)]
    end_ids: Annotated[list[TokenId], Field(min_length=1, max_length=64)]
    prompts: Annotated[list[list[TokenId]], Field(min_length=1, max_length=MAX_UNIT_SAMPLES)]
    samples: Annotated[list[SampleReference], Field(min_length=1, max_length=MAX_UNIT_SAMPLES)]

    @model_validator(mode="after")
    def _name_prompts(self) -> Self:
        if any(sample.prompt >= len(self.prompts) for sample in self.samples):
            raise ValueError("a sample names a prompt that the work does not have")
        return self


class Lease(Message):
    """A generation lease; ``signature`` is the gateway's over ``documents.lease_statement``.

    Heartbeats renew it from ``expires_at`` on, but never past ``ends_at``.
    """

    lease_id: Identifier
    attempt: Annotated[int, Field(ge=1, strict=True)]
    expires_at: float
    ends_at: float
    heartbeat_seconds: float
    issued_at: int
    work: Work
    signature: Signature


class Heartbeat(Message):
    """Body of ``POST /nodes/v1/leases/{id}/heartbeat``: tokens produced (or audited) so far."""

    tokens: Count


class HeartbeatAnswer(Message):
    """Answer to a heartbeat; ``stop`` tells the node to drop the work, whose lease is over."""

    expires_at: float
    stop: bool


class Result(Message):
    """Body of ``POST /nodes/v1/leases/{id}/result``: token ids and nothing else.

    ``samples[k]`` are the ids of ``work.samples[k]``, its end id included. ``lease_digest`` is of
    the lease statement that the miner worked by. ``signature`` is the miner's over
    ``result_statement``.
    """

    unit_id: Identifier
    attempt: Annotated[int, Field(ge=1, strict=True)]
    lease_digest: Hex32
    stack: Stack
    samples: Annotated[
        list[Annotated[list[TokenId], Field(max_length=MAX_TOKENS_LIMIT)]],
        Field(min_length=1, max_length=MAX_UNIT_SAMPLES),
    ]
    root: Hex32
    signature: Signature


class LeaseRecord(Message):
    """What an audit lease tells of the generation lease that the work was given out by.

    With ``work``, ``miner`` and ``attempt`` beside it, it makes up the lease statement, over which
    ``signature`` is ``gateway``'s.
    """

    lease_id: Identifier
    issued_at: int
    gateway: Hotkey
    signature: Signature


class AuditTerms(Message):
    """An audit lease without what is to be judged."""

    lease_id: Identifier
    attempt: Annotated[int, Field(ge=1, strict=True)]
    expires_at: float
    ends_at: float
    heartbeat_seconds: float
    work: Work
    miner: Hotkey
    record: LeaseRecord


class AuditLease(AuditTerms):
    """An audit lease: the work, the terms it was leased by, and what a miner claims for it.

    Heartbeats renew it from ``expires_at`` on, but never past ``ends_at``.
    """

    result: Result


Outcome = Literal["verified", "void", "inconclusive"]
# Position in the sample, stratum, and bin of the margin.
Mark = tuple[
    Count,
    Annotated[int, Field(ge=0, lt=MARK_STRATA, strict=True)],
    Annotated[int, Field(ge=1, lt=MARK_BINS, strict=True)],
]


class SampleVerdict(Message):
    """The verdict on one sample, with its figures.

    ``mismatches`` counts claimed ids that are not the drawn ones; ``largest_margin_micro`` is in
    millionths of a logit. ``reason`` names the rule for a void or inconclusive sample. ``marks``
    are the first ``MAX_MARKS`` tokens whose margin is not 0, in order. ``abstained`` tells that the
    profile was too small for the rule on single tokens.
    """

    outcome: Outcome
    reason: ShortText | None = None
    tokens: Count
    mismatches: Count
    largest_margin_micro: Count
    position: Count | None = None
    marks: Annotated[list[Mark], Field(max_length=MAX_MARKS)] = []
    abstained: Annotated[bool, Field(strict=True)] = False


class Verdicts(Message):
    """Body of ``POST /nodes/v1/leases/{id}/verdicts``: one verdict a sample, in unit order.

    ``lease_digest`` is of the lease statement by whose terms the result was judged. ``profile`` is
    the digest of the calibration profile.
    """

    unit_id: Identifier
    attempt: Annotated[int, Field(ge=1, strict=True)]
    lease_digest: Hex32
    result_root: Hex32
    rule: ShortText
    profile: Hex32
    stack: Stack
    samples: Annotated[list[SampleVerdict], Field(min_length=1, max_length=MAX_UNIT_SAMPLES)]
    root: Hex32
    signature: Signature


class Receipt(Message):
    """Answer to an accepted result or verdict; the same for a replay of the same bytes."""

    lease_id: Identifier
    accepted: bool
    detail: ShortText
