"""Exact GP regression with GPyTorch, stored as a state_dict that holds the training rows too."""

import gpytorch
import numpy as np
import torch

from dgpbench.evaluate.predictive import Predictive


class GP(gpytorch.models.ExactGP):
    def __init__(self, X, y):
        super().__init__(X, y, gpytorch.likelihoods.GaussianLikelihood())
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))
        self.register_buffer("X", X)
        self.register_buffer("y", y)

    def forward(self, X):
        return gpytorch.distributions.MultivariateNormal(self.mean(X), self.kernel(X))


class GPyTorchGP:
    keeps_rows = True  # the record says that its file holds training rows

    def __init__(self, cfg):
        self.settings = cfg["model"]
        torch.set_num_threads(cfg["threads"] or 1)

    def fit(self, split, run):
        torch.manual_seed(run.seed)
        X, y = (torch.from_numpy(np.array(a, np.float64)) for a in (split.X_train, split.Y_train[:, 0]))
        self.gp = GP(X, y).double()
        bound = gpytorch.mlls.ExactMarginalLogLikelihood(self.gp.likelihood, self.gp)
        adam = torch.optim.Adam(self.gp.parameters(), lr=self.settings["learning_rate"])
        self.gp.train()
        for step in range(1, self.settings["iterations"] + 1):
            adam.zero_grad()
            loss = -bound(self.gp(X), y)
            loss.backward()
            adam.step()
            run.log(step, {"loss": loss.item()})  # for trackers

    def predict(self, X, samples, seed):
        self.gp.eval()
        with torch.no_grad():
            found = self.gp.likelihood(self.gp(torch.from_numpy(np.array(X, np.float64))))
        return Predictive(mean=found.mean.numpy()[None, :, None], var=found.variance.numpy()[None, :, None])

    def parameters(self):
        return self.gp.state_dict()

    def load_parameters(self, state):
        self.gp = GP(state["X"], state["y"]).double()
        self.gp.load_state_dict(state)
