"""One engine that several miners of one machine compute on: ten miners, one copy of the model."""
