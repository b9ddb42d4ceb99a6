"""Runs the migrations over the connection that ``gateway.store.migrate`` hands in."""

from alembic import context

from gateway.store.tables import Table

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Table.metadata,
    render_as_batch=True,
)
context.run_migrations()
