"""Updates: one training step each, given an oracle of the objective's value and gradients."""
