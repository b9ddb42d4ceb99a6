"""What lies in an object store."""

from gateway.store.objects import Objects


async def keys_of(objects: Objects) -> set[str]:
    """Return the keys of all objects."""
    return {key async for page in objects.listed() for key, _ in page}
