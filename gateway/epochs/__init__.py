"""The public record: what was verified of whom in each epoch, signed and chained."""
