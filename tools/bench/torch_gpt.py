#!/usr/bin/python3
"""A GPT of 4 layers, 4 heads, width 128 and context 128 in PyTorch, one thread. Started by `gpt`, which tunes malloc.

  torch_gpt.py weights FILE VOCABULARY          first weights, as safetensors with GPT-2's names
  torch_gpt.py losses FILE VOCABULARY TOKENS STEPS
                                                trains from them on TOKENS (16-bit numbers) in order; a loss a line
  torch_gpt.py speed VOCABULARY STEPS           tokens a second of processor time
"""
import json
import math
import struct
import sys
import time

import numpy
import torch
import torch.nn.functional as F
from torch import nn

LAYERS, HEADS, WIDTH, CONTEXT, BATCH, RATE = 4, 4, 128, 128, 16, 1e-3


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mask", torch.tril(torch.ones(CONTEXT, CONTEXT, dtype=torch.bool)), persistent=False)

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = (part.view(n, t, HEADS, -1).transpose(1, 2) for part in self.c_attn(x).split(WIDTH, dim=2))
        scores = q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS)
        scores = scores.masked_fill(~self.mask[:t, :t], -math.inf)
        return self.c_proj((scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(n, t, WIDTH))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH), Mlp()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                scale = 1 / math.sqrt(2 * LAYERS) if name.endswith("c_proj.weight") else 1
                nn.init.normal_(parameter, std=0.02 * scale)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight)


def transposed(name):
    return name.endswith("weight") and any(part in name for part in ("c_attn", "c_proj", "c_fc"))


def save(model, path):
    header, data, at = {}, [], 0
    for name, tensor in model.state_dict().items():
        tensor = (tensor.t() if transposed(name) else tensor).contiguous().numpy()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + tensor.nbytes]}
        data.append(tensor.tobytes())
        at += tensor.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def load(model, path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(length)), file.read()
    state = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensor = torch.from_numpy(numpy.frombuffer(data[begin:end], numpy.float32).reshape(entry["shape"]).copy())
        state[name] = tensor.t().contiguous() if transposed(name) else tensor
    model.load_state_dict(state)


class Trainer:
    def __init__(self, model, vocabulary):
        self.model, self.vocabulary = model, vocabulary
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0)

    def step(self, tokens, targets):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.model(tokens).view(-1, self.vocabulary), targets.reshape(-1))
        loss.backward()
        self.optimizer.step()
        return loss.item()


def losses(trainer, path, steps):
    tokens = torch.from_numpy(numpy.fromfile(path, numpy.uint16).astype(numpy.int64))
    samples = (len(tokens) - 1) // CONTEXT // BATCH * BATCH
    inputs, targets = (tokens[i:i + samples * CONTEXT].view(samples, CONTEXT) for i in (0, 1))
    for step in range(steps):
        at = step * BATCH % samples
        print(trainer.step(inputs[at:at + BATCH], targets[at:at + BATCH]))


def speed(trainer, steps):
    tokens = torch.randint(trainer.vocabulary, (BATCH, CONTEXT + 1))
    for _ in range(3):
        trainer.step(tokens[:, :-1], tokens[:, 1:])
    begin = time.process_time()
    for _ in range(steps):
        trainer.step(tokens[:, :-1], tokens[:, 1:])
    print(steps * BATCH * CONTEXT / (time.process_time() - begin))


def main(what, *arguments):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if what == "speed":
        vocabulary, steps = map(int, arguments)
        return speed(Trainer(Gpt(vocabulary), vocabulary), steps)
    path, vocabulary = arguments[0], int(arguments[1])
    model = Gpt(vocabulary)
    if what == "weights":
        return save(model, path)
    load(model, path)
    losses(Trainer(model, vocabulary), arguments[2], int(arguments[3]))


main(*sys.argv[1:])
