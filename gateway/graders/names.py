"""The graders by name. A rule never changes under its name; another rule gets another."""

from typing import Literal

GraderName = Literal["boxed_math_v1", "exact_match_v1"]

BOXED_MATH: GraderName = "boxed_math_v1"
EXACT_MATCH: GraderName = "exact_match_v1"
GRADERS: tuple[GraderName, ...] = (BOXED_MATH, EXACT_MATCH)
