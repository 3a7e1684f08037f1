"""What both PyTorch programs beside this file train: Fashion-MNIST, an MLP, a CNN and ResNet-18, as in configs/."""
import gzip
import os

import numpy
import torch
from torch import nn

FOLDER = "/usr/share/datasets/fashion-mnist"
MEAN, DEVIATION = 0.2860, 0.3530
BATCH = {"mlp": 128, "cnn": 64, "resnet": 32}


def training_set():
    """All images, normalised, as float32[60000, 1, 28, 28], and their labels."""
    with gzip.open(os.path.join(FOLDER, "train-images-idx3-ubyte.gz")) as file:
        pixels = numpy.frombuffer(file.read(), numpy.uint8, offset=16).reshape(-1, 1, 28, 28)
    with gzip.open(os.path.join(FOLDER, "train-labels-idx1-ubyte.gz")) as file:
        labels = numpy.frombuffer(file.read(), numpy.uint8, offset=8)
    images = (pixels.astype(numpy.float32) / 255 - MEAN) / DEVIATION
    return torch.from_numpy(images), torch.from_numpy(labels.astype(numpy.int64))


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.residual = nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs),
                                      nn.ReLU(inplace=True),
                                      nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                                                 nn.BatchNorm2d(outputs))

    def forward(self, x):
        return nn.functional.relu(self.residual(x) + self.shortcut(x), inplace=True)


def resnet18():
    layers, width = [nn.Conv2d(1, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)], 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(width, outputs, stride), Block(outputs, outputs, 1)]
        width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def model_and_optimizer(kind):
    if kind == "resnet":
        return resnet18(), lambda m: torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    if kind == "mlp":
        model = nn.Sequential(nn.Flatten(),
                              nn.Linear(784, 512), nn.ReLU(),
                              nn.Linear(512, 256), nn.ReLU(),
                              nn.Linear(256, 10))
        return model, lambda m: torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9)
    model = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Flatten(),
                          nn.Linear(64 * 7 * 7, 128), nn.ReLU(),
                          nn.Linear(128, 10))
    return model, lambda m: torch.optim.Adam(m.parameters(), lr=1e-3)


class Batches:
    """Endless random batches; each epoch in a new order."""

    def __init__(self, images, labels, size):
        self.images, self.labels, self.size = images, labels, size
        self.order, self.at = torch.randperm(len(images)), 0

    def __next__(self):
        if self.at + self.size > len(self.order):
            self.order, self.at = torch.randperm(len(self.images)), 0
        chosen = self.order[self.at:self.at + self.size]
        self.at += self.size
        return self.images.index_select(0, chosen), self.labels.index_select(0, chosen)
