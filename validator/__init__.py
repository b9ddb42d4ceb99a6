"""The audit daemon: lease, teacher-force, judge, sign verdicts."""
