"""A random forest of scikit-learn, stored with joblib."""

import io

import joblib
import numpy as np
from sklearn.ensemble import RandomForestRegressor

from dgpbench import ModelFile
from dgpbench.evaluate.predictive import Predictive


class Forest:
    def __init__(self, cfg):
        self.trees = cfg["model"]["trees"]

    def fit(self, split, run):
        forest = RandomForestRegressor(self.trees, oob_score=True, random_state=run.seed)
        y = split.Y_train[:, 0]
        forest.fit(split.X_train, y)
        self.fitted = {"forest": forest, "noise": np.mean((y - forest.oob_prediction_) ** 2)}

    def predict(self, X, samples, seed):
        mean = self.fitted["forest"].predict(X)[None, :, None]  # (1, N, 1)
        return Predictive(mean=mean, var=np.full_like(mean, self.fitted["noise"]))

    def parameters(self):
        buffer = io.BytesIO()
        joblib.dump(self.fitted, buffer)
        return ModelFile("joblib", buffer.getvalue())

    def load_parameters(self, fitted):
        self.fitted = fitted
