"""``reliquary bench intake``: what creating large batches costs, holds and keeps waiting."""
