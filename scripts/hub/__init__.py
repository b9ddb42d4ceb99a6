"""A local model hub: the Hugging Face hub's read routes over a folder."""

from scripts.hub.app import create_app
from scripts.hub.server import HubServer, serve
from scripts.hub.store import HubError, publish, publish_all, set_access

__all__ = ["HubError", "HubServer", "create_app", "publish", "publish_all", "serve", "set_access"]
