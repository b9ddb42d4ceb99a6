"""HTTP alone: one file per dialect, errors, authentication and limits at the edge."""
