"""Train the tiny model: ``python -m scripts.tiny_model.train --out scripts/tiny_model/weights``."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from scripts.tiny_model.architecture import make_config, save
from scripts.tiny_model.corpus import examples
from scripts.tiny_model.muon import Muon
from scripts.tiny_model.vocabulary import encode_example, make_tokenizer

VOCABULARY = 2_048
HIDDEN, LAYERS, HEAD_DIM = 128, 4, 32
TOKENIZER_EXAMPLES = 30_000
TOKENIZER_SEED, TEXT_SEED, WEIGHT_SEED = 1, 2, 3
EXAMPLES_A_STEP = 32
TOKENS_A_PASS = 3_072
LEAST_FILL = 0.7
LONGEST = 1_024
WARM_UP = 40
DECAY_FROM = 0.5
MUON_RATE, ADAM_RATE = 0.02, 0.004


@dataclass(frozen=True)
class Row:
    """One text: its ids and the loss weight of each id as a target."""

    ids: list[int]
    weights: list[float]


def rows(tokenizer: PreTrainedTokenizerFast, seed: int) -> Iterator[Row]:
    """Yield training rows without end; texts longer than ``LONGEST`` ids are left out."""
    for example in examples(seed):
        prompt, answer = encode_example(tokenizer, example)
        if len(prompt) + len(answer) <= LONGEST:
            weights = [0.0] * len(prompt) + [example.weight] * len(answer)
            yield Row(prompt + answer, weights)


def passes(step_rows: list[Row]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the rows of a step in padded passes of rows of similar length.

    Each pass is (ids int64 [B, T], weights float32 [B, T]); padding stands behind and weighs 0,
    so that causal attention needs no mask and every text starts at position 0, as when served.
    """
    ordered = sorted(step_rows, key=lambda row: len(row.ids))
    while ordered:
        width = len(ordered[-1].ids)
        close = sum(len(row.ids) >= LEAST_FILL * width for row in ordered)
        count = min(close, max(1, TOKENS_A_PASS // width))
        taken, ordered = ordered[-count:], ordered[:-count]
        ids = torch.zeros(len(taken), width, dtype=torch.int64)
        weights = torch.zeros(len(taken), width)
        for index, row in enumerate(taken):
            ids[index, : len(row.ids)] = torch.tensor(row.ids)
            weights[index, : len(row.ids)] = torch.tensor(row.weights)
        yield ids, weights


def rate_at(step: int, steps: int) -> float:
    """Return the share of the peak learning rate: linear warm-up, constant, linear decay."""
    progress = step / steps
    decay = (1 - progress) / (1 - DECAY_FROM)
    return min(1.0, (step + 1) / WARM_UP, decay)


def optimizers(model: Qwen3ForCausalLM) -> list[torch.optim.Optimizer]:
    """Return Muon for the hidden matrices and AdamW for embedding and norms."""
    hidden = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    other = [p for n, p in model.named_parameters() if p.ndim != 2 or "embed" in n]
    return [
        Muon(hidden, lr=MUON_RATE),
        torch.optim.AdamW(other, lr=ADAM_RATE, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def take_step(
    model: Qwen3ForCausalLM, tuners: list[torch.optim.Optimizer], step_rows: list[Row]
) -> float:
    """Update the model on one step's rows and return the weighted mean loss in nats."""
    total = sum(sum(row.weights[1:]) for row in step_rows)
    loss_sum = 0.0
    for ids, weights in passes(step_rows):
        states = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
        judged = weights[:, 1:] > 0
        logits = model.lm_head(states[judged])
        losses = functional.cross_entropy(logits, ids[:, 1:][judged], reduction="none")
        loss = (losses * weights[:, 1:][judged]).sum() / total
        loss.backward()
        loss_sum += float(loss.detach())
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for tuner in tuners:
        tuner.step()
        tuner.zero_grad()
    return loss_sum


def train(folder: Path, steps: int, save_every: int) -> None:
    """Train from nothing for ``steps`` steps, writing to ``folder`` at times and at the end."""
    tokenizer = make_tokenizer(VOCABULARY, TOKENIZER_SEED, TOKENIZER_EXAMPLES)
    # One thread: sums then have one order, and matrices of this size gain nothing from more.
    torch.set_num_threads(1)
    torch.manual_seed(WEIGHT_SEED)
    config = make_config(
        tokenizer, hidden=HIDDEN, layers=LAYERS, head_dim=HEAD_DIM, vocabulary=VOCABULARY
    )
    model = Qwen3ForCausalLM(config)
    tuners = optimizers(model)
    peaks = [tuner.param_groups[0]["lr"] for tuner in tuners]
    source = rows(tokenizer, TEXT_SEED)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[loss]}"))
    smooth = 0.0
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn()) as progress:
        task = progress.add_task("training", total=steps, loss="")
        for step in range(steps):
            for tuner, peak in zip(tuners, peaks, strict=True):
                tuner.param_groups[0]["lr"] = peak * rate_at(step, steps)
            loss = take_step(model, tuners, list(islice(source, EXAMPLES_A_STEP)))
            smooth = loss if step == 0 else 0.98 * smooth + 0.02 * loss
            progress.update(task, advance=1, loss=f"loss {smooth:.3f}")
            if (step + 1) % save_every == 0:
                save(model, tokenizer, folder)
    save(model, tokenizer, folder)
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"{count:,} parameters, {steps} steps, last loss {smooth:.3f} nats a token")


def main() -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description="Train the tiny model on its generated world.")
    parser.add_argument("--out", type=Path, required=True, help="folder of the model's files")
    parser.add_argument("--steps", type=int, default=2_000, help="optimizer steps")
    parser.add_argument("--save-every", type=int, default=100, help="steps between two writes")
    arguments = parser.parse_args()
    train(arguments.out, arguments.steps, arguments.save_every)


if __name__ == "__main__":
    main()
