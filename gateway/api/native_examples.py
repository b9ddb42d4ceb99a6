"""What the examples in the native routes' OpenAPI have in common."""

from typing import Final

ORDER_ID: Final = "01a22870-0000-7000-8000-000000000000"
FILE_ID: Final = "file-01a22870-0000-7000-8000-000000000001"
SHA256: Final = "3b6faf0c133e583ac45074eb95c07794abda62841b0f234b3f79ed02d4e639b4"
MODEL: Final = "Qwen/Qwen3-8B"
REVISION: Final = "b968826d9c46dd6066d109eabc6255188de91218"
