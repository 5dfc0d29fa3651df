"""GPyTorch: its documented deep GP, with the whitened variational strategy."""

from __future__ import annotations

import gpytorch
import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean, LinearMean
from gpytorch.models.deep_gps import DeepGP, DeepGPLayer
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy

from benchmarks.cases import Case


def set_threads(threads: int) -> int:
    """Also flush denormal numbers to zero, as TensorFlow does; else they make float32 several times slower.

    Before the first operation, since threads inherit the mode.
    """
    torch.set_flush_denormal(True)
    torch.set_num_threads(threads)
    return torch.get_num_threads()


class Layer(DeepGPLayer):
    """One layer; the last one has outputs None, as GPyTorch writes a single output. Z is (M, D)
    or (P, M, D)."""

    def __init__(self, inputs: int, outputs: int | None, Z: torch.Tensor):
        shape = torch.Size([] if outputs is None else [outputs])
        strategy = VariationalStrategy(
            self,
            (Z if Z.dim() > 2 else Z.expand(*shape, *Z.shape)).clone(),
            CholeskyVariationalDistribution(Z.shape[-2], batch_shape=shape),
            learn_inducing_locations=True,
        )
        super().__init__(strategy, inputs, outputs)
        self.mean_module = ConstantMean() if outputs is None else LinearMean(inputs)
        kernel = RBFKernel(batch_shape=shape, ard_num_dims=inputs)
        self.covar_module = ScaleKernel(kernel, batch_shape=shape)

    def forward(self, x):
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Model(DeepGP):
    def __init__(self, case: Case, Z: torch.Tensor):
        super().__init__()
        outputs = [*case.widths[1:-1], None]
        layers = [Layer(D, P, Z[:, :D]) for D, P in zip(case.widths[:-1], outputs, strict=True)]
        self.layers = torch.nn.ModuleList(layers)
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood()

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def build(case: Case, precision: str, *, device: str = "cpu"):
    torch.set_default_dtype(getattr(torch, precision))
    torch.manual_seed(0)
    place = {"cpu": "cpu", "gpu": "cuda"}[device]
    X, Y, Z = (torch.from_numpy(part).to(place) for part in case.data(precision))
    X, Y = X.split(case.batch), Y[:, 0].split(case.batch)
    model = Model(case, Z).to(place).train()
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    elbo = gpytorch.mlls.VariationalELBO(model.likelihood, model, case.num_data)
    bound, done = gpytorch.mlls.DeepApproximateMLL(elbo), 0

    def run(steps: int) -> float:
        nonlocal done
        with gpytorch.settings.num_likelihood_samples(1):
            for _ in range(steps):
                i = done % len(X)
                adam.zero_grad()
                loss = -bound(model(X[i]), Y[i])
                loss.backward()
                adam.step()
                done += 1
        return loss.item()

    return run
