"""The whole network on one machine: hub, chain, gateway, miners and validators in one command."""
