#!/usr/bin/python3
"""Trains with PyTorch in one process and one thread, and prints samples/s. Started by `peers`, which tunes malloc.

  torch_one.py mlp|cnn|resnet SECONDS [--channels-last]
"""
import sys
import time

import torch
import torch.nn.functional as F

import fashion


def main(kind, seconds, channels_last):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    batches = fashion.Batches(*fashion.training_set(), fashion.BATCH[kind])
    model, make_optimizer = fashion.model_and_optimizer(kind)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    optimizer = make_optimizer(model)

    def step():
        images, labels = next(batches)
        if channels_last:
            images = images.to(memory_format=torch.channels_last)
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()

    for _ in range(2 if kind == "resnet" else 10):
        step()
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        step()
        steps += 1
    print(steps * batches.size / (time.perf_counter() - begin))


main(sys.argv[1], float(sys.argv[2]), "--channels-last" in sys.argv)
