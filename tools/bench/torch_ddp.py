#!/usr/bin/python3
"""Trains with PyTorch's DistributedDataParallel over gloo, two processes of one thread each on this machine, and prints
samples/s of both together. Started by `peers`, which tunes malloc.

  torch_ddp.py mlp|cnn SECONDS
"""
import os
import socket
import sys
import time

import torch
import torch.distributed
import torch.multiprocessing
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import fashion

WORLD = 2


def rank_main(rank, kind, seconds, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=WORLD)
    images, labels = fashion.training_set()
    batches = fashion.Batches(images[rank::WORLD].contiguous(), labels[rank::WORLD].contiguous(), fashion.BATCH[kind])
    model, make_optimizer = fashion.model_and_optimizer(kind)
    model = DistributedDataParallel(model)
    optimizer = make_optimizer(model)

    def run(steps):
        torch.distributed.barrier()
        begin = time.perf_counter()
        for _ in range(steps):
            chosen, expected = next(batches)
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(model(chosen), expected).backward()
            optimizer.step()
        torch.distributed.barrier()
        return time.perf_counter() - begin

    run(10)
    steps = torch.tensor([max(5, int(seconds / (run(10) / 10)))])
    torch.distributed.broadcast(steps, 0)
    taken = run(int(steps))
    if rank == 0:
        print(int(steps) * WORLD * batches.size / taken, flush=True)
    torch.distributed.barrier()
    os._exit(0)  # gloo may hang when it is taken down


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


if __name__ == "__main__":
    torch.multiprocessing.spawn(rank_main, (sys.argv[1], float(sys.argv[2]), free_port()), nprocs=WORLD)
