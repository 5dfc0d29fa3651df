"""A network of PyTorch with one hidden layer and Gaussian noise, stored as a state_dict."""

import numpy as np
import torch

from dgpbench.evaluate.predictive import Predictive


class Network:
    def __init__(self, cfg):
        self.settings = cfg["model"]
        torch.set_num_threads(cfg["threads"] or 1)

    def build(self, inputs):
        hidden = self.settings["hidden"]
        self.net = torch.nn.Sequential(
            torch.nn.Linear(inputs, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 1)
        ).double()
        self.net.register_parameter("log_var", torch.nn.Parameter(torch.zeros((), dtype=torch.float64)))

    def fit(self, split, run):
        torch.manual_seed(run.seed)
        X, y = (torch.from_numpy(np.array(a, np.float64)) for a in (split.X_train, split.Y_train[:, :1]))
        self.build(X.shape[1])
        adam = torch.optim.Adam(self.net.parameters(), lr=self.settings["learning_rate"])
        for step in range(1, self.settings["epochs"] + 1):
            adam.zero_grad()
            loss = torch.nn.functional.gaussian_nll_loss(self.net(X), y, self.net.log_var.exp().expand_as(y))
            loss.backward()
            adam.step()
            if step % 10 == 0:
                run.log(step, {"loss": loss.item()})  # for trackers

    def predict(self, X, samples, seed):
        with torch.no_grad():
            mean = self.net(torch.from_numpy(np.array(X, np.float64))).numpy()[None]  # (1, N, 1)
        return Predictive(mean=mean, var=np.full_like(mean, self.net.log_var.exp().item()))

    def parameters(self):
        return self.net.state_dict()

    def load_parameters(self, state):
        self.build(state["0.weight"].shape[1])
        self.net.load_state_dict(state)
