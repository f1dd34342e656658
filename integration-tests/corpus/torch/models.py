"""Small versions of the models that torch.onnx's document names."""

from typing import List

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def pictures(*size):
    return lambda: (torch.randn(1, *size),)


def features(*layers):
    return nn.Sequential(*layers)


class AlexNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = features(
            nn.Conv2d(3, 4, 5, stride=2, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
            nn.Conv2d(4, 6, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        )
        self.pool = nn.AdaptiveAvgPool2d((2, 2))
        self.classifier = features(
            nn.Dropout(), nn.Linear(24, 8), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(8, 5)
        )

    def forward(self, x):
        return self.classifier(torch.flatten(self.pool(self.features(x)), 1))


class Dcgan(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = features(
            nn.ConvTranspose2d(6, 8, 4, 1, 0, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
            nn.ConvTranspose2d(8, 4, 4, 2, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(True),
            nn.ConvTranspose2d(4, 3, 4, 2, 1, bias=False), nn.Tanh(),
        )

    def forward(self, x):
        return self.main(x)


class Dense(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, 8, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 4, 3, padding=1, bias=False)

    def forward(self, found: List[Tensor]):
        x = self.conv1(F.relu(self.norm1(torch.cat(found, 1))))
        return self.conv2(F.relu(self.norm2(x)))


class DenseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.layers = nn.ModuleList([Dense(4), Dense(8)])
        self.transition = features(nn.BatchNorm2d(12), nn.ReLU(), nn.Conv2d(12, 6, 1), nn.AvgPool2d(2))
        self.classifier = nn.Linear(6, 5)

    def forward(self, x):
        found = [self.stem(x)]
        for layer in self.layers:
            found.append(layer(found))
        x = F.relu(self.transition(torch.cat(found, 1)))
        return self.classifier(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


class Branch(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=0.001)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)), inplace=True)


class Inception(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, stride=2)
        self.one = Branch(4, 2, 1)
        self.three = features(Branch(4, 2, 1), Branch(2, 3, 3))
        self.pool = Branch(4, 2, 1)
        self.fc = nn.Linear(7, 5)

    def forward(self, x):
        r = x[:, 0:1] * 0.458 - 0.03
        g = torch.unsqueeze(x[:, 1], 1) * 0.448 - 0.088
        x = self.stem(torch.cat((r, g, x[:, 2:3]), 1))
        pool = self.pool(F.avg_pool2d(x, kernel_size=3, stride=1, padding=1))
        x = torch.cat([self.one(x), self.three(x), pool], 1)
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1:
            self.downsample = features(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.downsample is not None:
            x = self.downsample(x)
        y += x
        return F.relu(y)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = features(nn.Conv2d(3, 4, 3, 2, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        self.layers = features(Block(4, 4, 1), Block(4, 6, 2))
        self.fc = nn.Linear(6, 5)

    def forward(self, x):
        x = F.adaptive_avg_pool2d(self.layers(self.stem(x)), 1)
        return self.fc(torch.flatten(x, 1))


class SuperResolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 5, padding=2)
        self.conv2 = nn.Conv2d(8, 6, 3, padding=1)
        self.conv3 = nn.Conv2d(6, 9, 3, padding=1)
        self.pixel_shuffle = nn.PixelShuffle(3)

    def forward(self, x):
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        return self.pixel_shuffle(self.conv3(x))


class Vgg(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = features(
            nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2, 2),
            nn.Conv2d(4, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(inplace=True), nn.MaxPool2d(2, 2),
        )
        self.pool = nn.AdaptiveAvgPool2d((2, 2))
        self.classifier = features(nn.Linear(24, 8), nn.ReLU(True), nn.Dropout(), nn.Linear(8, 5))

    def forward(self, x):
        return self.classifier(torch.flatten(self.pool(self.features(x)), 1))


class WordLanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(12, 6)
        self.rnn = nn.LSTM(6, 6, 2, dropout=0.2)
        self.decoder = nn.Linear(6, 12)
        self.decoder.weight = self.encoder.weight

    def forward(self, x: Tensor, h: Tensor, c: Tensor):
        output, (h, c) = self.rnn(self.drop(self.encoder(x)), (h, c))
        decoded = self.decoder(self.drop(output)).view(-1, 12)
        return F.log_softmax(decoded, dim=1), h, c


MODELS = {
    "alexnet": (AlexNet, pictures(3, 20, 20)),
    "dcgan": (Dcgan, pictures(6, 1, 1)),
    "densenet": (DenseNet, pictures(3, 8, 8)),
    "inception": (Inception, pictures(3, 9, 9)),
    "resnet": (ResNet, pictures(3, 12, 12)),
    "super-resolution": (SuperResolution, pictures(1, 6, 6)),
    "vgg": (Vgg, pictures(3, 8, 8)),
    "word-language-model": (
        WordLanguageModel,
        lambda: (torch.randint(0, 12, (4, 2)), torch.randn(2, 2, 6), torch.randn(2, 2, 6)),
    ),
}
