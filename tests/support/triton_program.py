"""Run by the tests as a program of its own, since Triton reads its environment when imported.

python triton_program.py draw CASES.npz DRAWN.npz     with TRITON_INTERPRET=1
python triton_program.py compile                      for GPUs that are not here
"""

import sys

import numpy as np
import torch

from protocol.draw import triton_form

COLUMNS = ("keys", "positions", "temperature", "top_k", "top_p", "min_p")
REALS, IDS = "*fp64", "*i64"
LOGITS = {"logits": "*fp32", "stride": "i32", "size": "i32", "rows": IDS}
LIMITS = {"floors": REALS, "limits": REALS, "limit_ids": IDS}
KERNELS = {
    "_best": {
        **LOGITS,
        **{"keys": IDS, "positions": IDS, "temperatures": REALS},
        **LIMITS,
        **{"scores": REALS, "ids": IDS, "values": REALS},
    },
    "_mass": {**LOGITS, "temperatures": REALS, "tops": REALS, **LIMITS, "masses": REALS},
}


def draw(cases: str, out: str) -> None:
    """Draw every case of a file: arrays named NUMBER/COLUMN."""
    with np.load(cases) as stored:
        found = {}
        for number in {name.split("/")[0] for name in stored}:
            logits = torch.from_numpy(stored[f"{number}/logits"])
            columns = [torch.from_numpy(stored[f"{number}/{name}"]) for name in COLUMNS]
            size = int(stored[f"{number}/size"])
            found[number] = triton_form.draw_rows(logits, *columns, size).numpy()
    np.savez(out, **found)


def compile_all() -> None:
    """Compile every kernel down to machine code; print its name and the architecture."""
    from triton import compile as compiled
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    for name, signature in KERNELS.items():
        source = ASTSource(fn=getattr(triton_form, name), signature=signature, constexprs={})
        for capability in (80, 90):
            kernel = compiled(source, target=GPUTarget("cuda", capability, 32))
            assert kernel.asm["cubin"]
            sys.stdout.write(f"{name} {capability}\n")


if __name__ == "__main__":
    if sys.argv[1] == "draw":
        draw(*sys.argv[2:])
    else:
        compile_all()
