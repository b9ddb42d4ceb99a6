"""The model architectures that miners generate with and validators audit."""

SUPPORTED_ARCHITECTURES = (
    "Qwen3ForCausalLM",
    "Qwen3_5ForCausalLM",
    "Qwen3_5ForConditionalGeneration",
)
