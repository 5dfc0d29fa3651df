"""Bad settings of the baselines end in one clear line; what stands in a record's name and key."""

import pytest
from baseline_tools import make

from dgpbench.config import compose, config_key
from dgpbench.errors import UserError

WRONG = {
    "model=cvae_50 model.latent_dim=0": "model.latent_dim=0 is not allowed; .* a whole number at least 1",
    "model=cvae_50 model.hidden=[-1]": r"model.hidden=\[-1\] is not allowed; .* or \[\] for no hidden layer",
    "model=cvae_50 model.hidden=[2.5]": r"model.hidden=\[2.5\] is not allowed",
    "model=cvae_50 model.hidden=50": "model.hidden=50 is not allowed; model.hidden must be a list",
    "model=cvae_50 model.likelihood_variance=0": "model.likelihood_variance=0 .* above 0",
    "model=cvae_50 inference=ngd_adam": "model=cvae_50 has no natural gradients, .* use inference=adam",
    "model=cvae_50 inference.bound=iwvi": "model=cvae_50 is trained on its own bound",
    "model=mdn model.components=0": "model.components=0 is not allowed; .* a whole number at least 1",
    "model=mdn model.hidden=[0]": r"model.hidden=\[0\] is not allowed",
    "model=mdn inference.samples=5": "inference.samples=5 is not possible with model=mdn",
    "model=kde model.max_components=0": "model.max_components=0 is not allowed",
    "model=kde model.bandwidth=loov": "model.bandwidth=loov is not allowed; did you mean 'loo'",
    "model=kde model.search_rows=0": "model.search_rows=0 is not allowed",
    "model=ckde model.max_points=-1": "model.max_points=-1 is not allowed",
    "model=ckde model.neighbours=0": "model.neighbours=0 is not allowed; .* or null",
    "model=ckde model.neighbours=50 model.max_components=20": "raise model.max_components",
}


@pytest.mark.parametrize("words", WRONG)
def test_one_clear_line(words):
    with pytest.raises(UserError, match=WRONG[words]) as raised:
        make(*words.split())
    assert "\n" not in str(raised.value)


def test_a_field_left_out_of_a_users_yaml_is_named(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text(
        "# Mine.\n_target_: dgpbench.models.baselines.mdn.MDN\nname: mine\nhidden: []\n"
    )
    from dgpbench.models.base import create

    with pytest.raises(UserError, match="model.components is missing"):
        create(compose(["model=mine", "inference=adam"], [tmp_path]))


def test_networks_are_said_to_be_trained_by_adam_and_estimates_to_be_exact():
    for name in ("cvae_linear", "mdn_10"):
        assert compose([f"model={name}"])["inference"]["name"] == "adam"
    for name in ("kde", "ckde"):
        assert compose([f"model={name}"])["inference"]["name"] == "exact"
    assert compose(["model=sgp"])["inference"]["name"] == "standard"


def test_what_enters_the_key():
    def key(*words):
        return config_key(compose(list(words)), "0" * 64)

    assert key("model=ckde", "budget.steps=7") == key("model=ckde")
    with pytest.raises(UserError, match="has no use for inference.batch=5"):
        key("model=ckde", "inference.batch=5")
    assert key("model=ckde", "model.neighbours=50") != key("model=ckde")
    assert key("model=mdn", "model.components=10") == key("model=mdn_10") != key("model=mdn")
    assert key("model=cvae_50", "model.hidden=[50,50]") == key("model=cvae_50_50")
    assert key("model=cvae_50", "inference.batch=256") != key("model=cvae_50")
