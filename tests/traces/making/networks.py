"""The small networks behind the recorded traces and the table of unions, and the data they learn from."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

WORKERS = 16
Batches = Callable[[], tuple[Tensor, Tensor]]  # inputs and targets, (workers, batch, ...)


@dataclass(frozen=True)
class Task:
    """A network, the mini-batches of its workers, and how it is trained."""

    model: nn.Module
    batches: Batches
    batch_size: int
    iterations: int
    learning_rate: float
    description: str
    data_licence: str


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with batch norm and a shortcut, projected where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, inputs, h, w) to (batch, outputs, h / stride, w / stride)."""
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.shortcut(x))


class DecoderBlock(nn.Module):
    """Pre-norm block: causal self-attention, then a GELU network four times as wide, both residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width, bias=False)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, length, width) to the same shape."""
        batch, length, width = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.proj(attended.transpose(1, 2).reshape(batch, length, width))
        return torch.add(x, self.down(F.gelu(self.up(self.norm2(x)))))


class Decoder(nn.Module):
    """Decoder-only transformer with learned token and position embeddings and an untied head."""

    def __init__(self, vocabulary: int, length: int, width: int, depth: int) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(length, width)
        nn.init.normal_(self.token.weight, std=0.1)
        nn.init.normal_(self.position.weight, std=0.1)
        self.blocks = nn.Sequential(*(DecoderBlock(width, 4) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens (batch, length) to logits (batch, vocabulary, length)."""
        return torch.transpose(self.head(self.norm(self.blocks(self.token(x) + self.position.weight))), 1, 2)


class Recurrent(nn.Module):
    """Character model: embedding, two LSTM layers, and a head."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens (batch, length) to logits (batch, vocabulary, length)."""
        return torch.transpose(self.head(self.lstm(self.token(x))[0]), 1, 2)


def digits(batch: int, rng: torch.Generator) -> Batches:
    """Draw 8x8 digits (scikit-learn's), shuffled every epoch, rolled by -1..1 pixels, with noise of 0.1."""
    data = load_digits()
    images = torch.tensor(data.images / 16, dtype=torch.float32).unsqueeze(1)
    labels, queue = torch.tensor(data.target), list[int]()

    def draw() -> tuple[Tensor, Tensor]:
        if len(queue) < WORKERS * batch:
            queue[:] = torch.randperm(len(labels), generator=rng).tolist()
        picked = [queue.pop() for _ in range(WORKERS * batch)]
        shifts = torch.randint(-1, 2, (len(picked), 2), generator=rng).tolist()
        moved = torch.stack([images[i].roll(shift, (1, 2)) for i, shift in zip(picked, shifts, strict=True)])
        moved += 0.1 * torch.randn(moved.shape, generator=rng)
        return moved.view(WORKERS, batch, 1, 8, 8), labels[picked].view(WORKERS, batch)

    return draw


def language(batch: int, vocabulary: int, length: int, rng: torch.Generator) -> Batches:
    """Draw texts of a Markov chain: 8 successors a token, Zipf frequencies, every other text said twice."""
    zipf = 1 / (5 + torch.arange(vocabulary, dtype=torch.float32))
    successors = torch.multinomial(zipf.repeat(vocabulary, 1), 8, generator=rng)
    chances = (1 / torch.arange(1, 9)).repeat(WORKERS * batch, 1)

    def draw() -> tuple[Tensor, Tensor]:
        tokens = [torch.multinomial(zipf, WORKERS * batch, True, generator=rng)]
        for _ in range(length):
            tokens.append(successors[tokens[-1], torch.multinomial(chances, 1, generator=rng).squeeze(1)])
        text = torch.stack(tokens, 1)
        text[::2, length // 2 : length] = text[::2, : length // 2]
        text = text.view(WORKERS, batch, length + 1)
        return text[..., :-1], text[..., 1:]

    return draw


def build(name: str, rng: torch.Generator) -> Task:
    """Return the task called ``resnet``, ``transformer``, ``mlp``, ``convnet`` or ``lstm``, its data from ``rng``."""
    images = "UCI Optical Recognition of Handwritten Digits, CC BY 4.0, as shipped with scikit-learn"
    text = "none needed: the data are generated from the seed"
    if name == "resnet":
        stem = [nn.Conv2d(1, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
        stages = [ResidualBlock(32, 32, 1), ResidualBlock(32, 64, 2), ResidualBlock(64, 128, 2)]
        pool = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)]
        description = "ResNet with 3 residual blocks and batch norm, on scikit-learn's 8x8 digits"
        return Task(nn.Sequential(*stem, *stages, *pool), digits(32, rng), 32, 220, 0.03, description, images)
    if name == "mlp":
        layers = [nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)]
        description = "perceptron with 2 hidden layers of width 256, on scikit-learn's 8x8 digits"
        return Task(nn.Sequential(*layers), digits(32, rng), 32, 220, 0.03, description, images)
    if name == "convnet":
        layers = [nn.Conv2d(1, 32, 3, 1, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU()]
        layers += [nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 10)]
        description = "2 convolutions and 2 dense layers, without batch norm, on scikit-learn's 8x8 digits"
        return Task(nn.Sequential(*layers), digits(32, rng), 32, 220, 0.03, description, images)
    if name == "lstm":
        description = "2 LSTM layers of width 128, on a generated language"
        return Task(Recurrent(256, 128), language(16, 256, 24, rng), 16, 220, 0.5, description, text)
    description = "decoder-only transformer, 3 blocks of width 96, on a generated language"
    model = Decoder(vocabulary=512, length=32, width=96, depth=3)
    return Task(model, language(16, 512, 32, rng), 16, 300, 0.2, description, text)
