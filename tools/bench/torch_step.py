#!/usr/bin/env python3
"""Training steps in eager PyTorch on a GPU, on noise that lies in pinned memory: prints samples/s.

  torch_step.py mlp|cnn|gpt [--batch N] [--device cuda|cpu] [--steps N]

Models, batches and optimizers are those of `troupe bench step`; TF32 is off, as with `--matmul f32`.
"""
import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY = 12, 12, 768, 1024, 50257
BATCH = {"mlp": 128, "cnn": 64, "gpt": 4}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.projection = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp1, self.mlp2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = (part.view(n, t, HEADS, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(WIDTH, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(n, t, WIDTH))
        return x + self.mlp2(F.gelu(self.mlp1(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.embedding.weight).flatten(0, 1)


def make(kind):
    if kind == "mlp":
        return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    if kind == "gpt":
        return Gpt()
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10))


def noise(kind, size, pin):
    if kind == "gpt":
        inputs = torch.randint(VOCABULARY, (size, CONTEXT))
        labels = torch.randint(VOCABULARY, (size * CONTEXT,))
    else:
        inputs = torch.randn((size, 784) if kind == "mlp" else (size, 1, 28, 28))
        labels = torch.randint(10, (size,))
    return (inputs.pin_memory(), labels.pin_memory()) if pin else (inputs, labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=BATCH)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=200)
    a = parser.parse_args()
    size = a.batch or BATCH[a.kind]
    model = make(a.kind).to(a.device)
    optimizer = (torch.optim.SGD if a.kind == "mlp" else torch.optim.Adam)(model.parameters(), lr=1e-3)
    batches = [noise(a.kind, size, a.device == "cuda") for _ in range(4)]

    def step(number):
        inputs, labels = (t.to(a.device, non_blocking=True) for t in batches[number % len(batches)])
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    def run(steps):
        begin = time.perf_counter()
        for number in range(steps):
            step(number)
        if a.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begin

    run(20)
    print(round(a.steps * size / run(a.steps), 1))


main()
