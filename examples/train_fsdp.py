"""A toy of large models, plain PyTorch: a transformer like Llama on random tokens, sharded by FSDP2.

torchrun --nproc-per-node 4 examples/train_fsdp.py --steps 4

The defaults are tiny. 70 billion parameters:
--layers 80 --width 8192 --heads 64 --key-values 8 --hidden 28672 --vocabulary 128256 --sequence 8192
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy, scaled_dot_product_attention, silu
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    """Attention and a gated layer, each after a norm and added to its input."""

    def __init__(self, sizes: argparse.Namespace) -> None:
        super().__init__()
        width, self.size = sizes.width, sizes.width // sizes.heads
        self.norm, self.norm_hidden = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, sizes.key_values * self.size, bias=False)
        self.value = nn.Linear(width, sizes.key_values * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, sizes.hidden, bias=False)
        self.up = nn.Linear(width, sizes.hidden, bias=False)
        self.down = nn.Linear(sizes.hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the input and what both parts add to it."""
        y = self.norm(x)
        query, key, value = (
            part(y).unflatten(-1, (-1, self.size)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        attended = scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        x = x + self.out(attended.transpose(1, 2).flatten(-2))
        y = self.norm_hidden(x)
        return x + self.down(silu(self.gate(y)) * self.up(y))


class Network(nn.Module):
    """An embedding, blocks and a head."""

    def __init__(self, sizes: argparse.Namespace) -> None:
        super().__init__()
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.width)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.norm = nn.RMSNorm(sizes.width)
        self.head = nn.Linear(sizes.width, sizes.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the scores of the next tokens."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(self.norm(x))


def main() -> None:
    parser = argparse.ArgumentParser()
    defaults = {"steps": 4, "layers": 2, "width": 128, "heads": 4, "key-values": 2, "hidden": 256}
    for name, default in {**defaults, "vocabulary": 512, "sequence": 64, "batch": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    sizes = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    torch.set_default_dtype(torch.bfloat16)
    model = Network(sizes)
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(sizes.steps):
        tokens = torch.randint(sizes.vocabulary, (sizes.batch, sizes.sequence + 1))
        loss = cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(f"step {step}: loss {loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
