"""What the examples in the native routes' OpenAPI have in common."""

from typing import Any, Final

ORDER_ID: Final = "01a22870-0000-7000-8000-000000000000"
FILE_ID: Final = "file-01a22870-0000-7000-8000-000000000001"
SHA256: Final = "3b6faf0c133e583ac45074eb95c07794abda62841b0f234b3f79ed02d4e639b4"
MODEL: Final = "Qwen/Qwen3-8B"
REVISION: Final = "b968826d9c46dd6066d109eabc6255188de91218"

_RECORD = {"bytes": 20_480, "sha256": SHA256}
EXAMPLE_MANIFEST: Final[dict[str, Any]] = {
    "statement": {
        "type": "reliquary-manifest/2",
        "order_id": ORDER_ID,
        "status": "completed",
        "created_at": 1_762_685_000,
        "template_time": 1_762_684_900,
        "endpoint": "/v1/chat/completions",
        "grader": None,
        "model": MODEL,
        "revision": REVISION,
        "vocabulary_size": 151_669,
        "end_ids": [151_645, 151_643],
        "sampling": {
            "temperature": "0.6",
            "top_p": "0.95",
            "top_k": "20",
            "min_p": "0.0",
            "max_tokens": "64",
        },
        "seed": 7,
        "seed_drawn": False,
        "n": 1,
        "input": _RECORD,
        "counts": {
            "lines_total": 2,
            "lines_refused": 0,
            "lines_completed": 2,
            "samples_total": 2,
            "samples_delivered": 2,
            "samples_missing": 0,
            "prompt_tokens": 41,
            "completion_tokens": 12,
        },
        "output_format": "parquet",
        "max_new_tokens": None,
        "files": {
            "part-00000.parquet": _RECORD,
            "receipts-00000.jsonl": _RECORD,
            "report.json": _RECORD,
        },
    },
    "gateway": "5FnksNxu2QnN5wVdVCCABHhFqTXL7AfF3okLEhmBpBvn7Mdg",
    "signature": "30a5474479f69205" * 8,
}
