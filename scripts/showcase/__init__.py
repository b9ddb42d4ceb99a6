"""The demo: a whole network, a file through the ``openai`` client, and a second audit."""
