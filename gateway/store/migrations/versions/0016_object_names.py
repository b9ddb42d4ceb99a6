"""Which file an object is, so that those of none are found."""

from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add the index of files by their object."""
    op.create_index(op.f("ix_files_object_key"), "files", ["object_key"])
