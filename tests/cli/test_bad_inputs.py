"""Bad input, all in one table: one clear line that says what to do, exit code 2, no traceback."""

import gzip
import os
from pathlib import Path

import pytest

from dgpbench import cli

MODELS = """
class NoConfig:
    def __init__(self): ...


class NoMethods:
    def __init__(self, cfg): ...


class Broken:
    def __init__(self, cfg):
        self.width = cfg["model"]["wdith"]


class Fails(NoMethods):
    def fit(self, split, run):
        return 1 / 0

    def predict(self, X, samples, seed): ...

    def parameters(self):
        return {}

    def load_parameters(self, values): ...
"""
FILES = {
    "own.csv": "a,b,y\n" + "\n".join(f"{i},{i * i % 7},{i % 5}.5" for i in range(30)) + "\n",
    "minus.csv": "a,y\n" + "\n".join(f"{i},{i % 3 - 1}" for i in range(30)) + "\n",
    "comma.csv": "a;b;y\n" + "\n".join(f"{i},5;{i},25;{i},5" for i in range(9)) + "\n",
    "bare.csv": "\n".join(f"{i},5;{i},25;{i},5" for i in range(9)) + "\n",
    "text.csv": "a,y\n1,2\nx,3\n",
    "gap.csv": "a,y\n1,2\n,3\n",
    "nan.csv": "a,y\n1,2\nnan,3\n",
    "short.csv": "a,b,y\n1,2,3\n4,5\n",
    "twice.csv": "a,a,y\n1,2,3\n4,5,6\n",
    "empty.csv": "",
    "sheet.xlsx": "PK",
    "damaged.csv.gz": "no gzip",
    "damaged.jsonl.gz": "no gzip",
    "no.parquet": "no parquet",
    "models.py": MODELS,
    "wrong_syntax.py": "def f(:\n",
    "wrong_import.py": "\n1 / 0\n",
    "conf/model/noconfig.yaml": "_target_: models.NoConfig\nname: noconfig\n",
    "conf/model/nomethods.yaml": "_target_: models.NoMethods\nname: nomethods\n",
    "conf/model/broken.yaml": "_target_: models.Broken\nname: broken\nwidth: 1\n",
    "conf/model/syntax.yaml": "_target_: wrong_syntax.Model\nname: syntax\n",
    "conf/model/raises.yaml": "_target_: wrong_import.Model\nname: raises\n",
    "conf/model/absent.yaml": "_target_: not_there.Model\nname: absent\n",
    "conf/model/fails.yaml": "_target_: models.Fails\nname: fails\n",
    "shadow/model/dgp2.yaml": "name: dgp2\n",
}
CSV = "run model=linear dataset=csv dataset.path="
OWN = "run --config-dir conf dataset=csv dataset.path=own.csv dataset.target=y model="
COUNTS = "run model=sgp dataset=csv dataset.target=y dataset.task=counts dataset.path="
TABLE = {  # command -> words of its one line
    "train": "unknown command 'train'; did you mean 'run'?",
    "fit model=sgp": "unknown command 'fit'; did you mean 'run'?",
    "list": "unknown command 'list'; did you mean 'show'?",
    "evaluate": "unknown command 'evaluate'; did you mean 'rescore'?",
    "models": "did you mean 'run --help models'?",
    "RUN": "did you mean 'run'?",
    "dgp2": "did you mean 'run model=dgp2'?",
    "model=dgp2 dataset=energy": "did you mean 'run model=dgp2 dataset=energy'?",
    "xyzzy": "unknown command 'xyzzy'; `dgpbench --help` lists all",
    "run dgp2 energy": "cannot read 'dgp2'; overrides are written name=value; did you mean 'model=dgp2'?",
    "run model = dgp2": "overrides are written name=value with no blanks around =, e.g. model=dgp2",
    "run model= dgp2": "unknown model ''; write model=NAME with no blanks around =",
    "run model:dgp2": "did you mean 'model=dgp2'?",
    "run model==dgp2": "write one equals sign: model=dgp2",
    "run model=dgp2,dataset=energy": "without commas or quotes: model=dgp2 dataset=energy",
    "run own.csv": "for a file of yours use dataset=csv dataset.path=own.csv",
    "run dataset=own.csv": "unknown dataset 'own.csv'; for a file of yours use dataset=csv data",
    "run dataset=../data/x": "use dataset=csv dataset.path=../data/x",
    "run model=DGP2": "unknown model 'DGP2'; did you mean 'dgp2'?",
    "run model=svgp": "did you mean 'sgp'?",
    "run --model dgp2": "overrides are written model=VALUE: did you mean 'model=dgp2'?",
    "run --model=dgp2": "did you mean 'model=dgp2'?",
    "run -model dgp2": "unknown argument '-model'; overrides are written model=VALUE: did you",
    "run --forse": "did you mean '--force'?",
    "run --results out": "did you mean 'paths.results=out'?",
    "sweep --jobs 4": "did you mean 'launcher.workers=4'?",
    "run budget=1000": "for a number of steps write budget.steps=1000",
    "run epoch=10": "did you mean 'budget.steps'? (one epoch is as many steps as",
    "run data=energy": "unknown key 'data'; did you mean 'dataset'?",
    "run verbose=true": "unknown key 'verbose'; `dgpbench run --help settings` lists all",
    "run model.layers=3": "model.layers must be a list such as [gp,gp,gp]",
    "run model.kernel=gaussian": "did you mean 'rbf'?",
    "run device=cuda": "did you mean 'gpu'?",
    "run precision=double": "did you mean 'float64'?",
    "sweep model=[sgp,dgp2]": "for several write `dgpbench sweep model=sgp,dgp2`",
    "sweep dataset=all": "for several write `dgpbench sweep dataset=glob(*)`",
    "sweep split=0-4": "for several write split=range(0,5)",
    "compare model=linear dataset=step --metric rmsee": "no metric 'rmsee'; did you mean 'rmse'?",
    "data show own.csv": "dataset.path=own.csv",
    "rnu": "unknown command 'rnu'; did you mean 'run'?",
    "run modle=dgp2": "unknown key 'modle'; did you mean 'model'?",
    "run model=dgp22": "unknown model 'dgp22'; did you mean 'dgp2'?",
    "run dataset=enrgy": "unknown dataset 'enrgy'; did you mean 'energy'?",
    "run model": "cannot read 'model'; overrides are written name=value",
    "run model=": "unknown model ''",
    "run model=sgp,dgp2": "`dgpbench sweep model=sgp,dgp2` runs each of them",
    "run split=range(0,3)": "`dgpbench sweep split=range(0,3)` runs each of them",
    "run lr=0.1": "did you mean 'inference.adam.learning_rate'?",
    "run inference.adam.lr=0.1": "did you mean 'inference.adam.learning_rate'?",
    "run M=50": "did you mean 'model.num_inducing'?",
    "run epochs=10": "did you mean 'budget.steps'? (one epoch is as many steps as",
    "run batch_size=10": "did you mean 'inference.batch'?",
    "run hydra/launcher=submitit_slurm": "use dgpbench's own launchers",
    "run hydra.run.dir=x": "a setting of Hydra's own runner",
    "run ~model": "cannot be deleted",
    "run +model.x=1": "unknown key 'model.x'",
    "run 'model.kernel=(a'": "cannot read",
    "run --cfg hydra": "--cfg hydra is not allowed",
    "run -m --force": "run -m is `dgpbench sweep`",
    "run --lr 3": "unknown argument '--lr'; overrides are written lr=VALUE",
    "run launcher=slurm": "use `dgpbench sweep launcher=slurm`",
    "run split=20": "protocol clean has splits 0 to 19",
    "run split=-1": "split must be a whole number at least 0",
    "run seed=x": "seed must be a whole number",
    "run budget.steps=0": "budget.steps must be a whole number at least 1, or null",
    "run budget.steps=1.5": "budget.steps must be a whole number",
    "run budget.steps=null budget.seconds=null": "the budget is empty",
    "run model.start=data model.lengthscale=1": "model.lengthscale is not read under model.start=data",
    "run budget.steps=100 budget.max_steps=50": "these do not grow here; set budget.steps",
    "run inference.adam.learning_rate=-1": "must be a number above 0",
    "run inference.adam.learning_rate=inf": "must be a number above 0",
    "run model.num_inducing=0": "model.num_inducing must be a whole number at least 1",
    "run model.kernel=rfb": "is no kernel; did you mean 'rbf'?",
    "run model.layers=[gp,lv]": "the last layer must be gp",
    "run model.layers=[]": "must be a list such as [gp,gp]",
    "run precision=float16": "did you mean 'float64'?",
    "run device=tpu": "one of auto, cpu, gpu",
    "run protocol.train_fraction=1": "below 1",
    "run protocol.evaluate=validation": "set protocol.validation",
    "run dataset=city protocol=cover dataset.n=900": "protocol.test_rows=1000 leaves no row of 900 to train",
    "run dataset=city protocol=cover dataset.n=1500": "protocol.train_rows=1000 is more than the 500 rows",
    "run dataset=city protocol.test_rows=5": "cover needs test_rows, and only it takes them",
    "run dataset=nytaxi_manhattan": "dataset nytaxi_manhattan is not available",
    "tables matthews6.1": "table matthews6.1 has nothing to compare; it holds words",
    "figures 1.2": "figure 1.2 cannot be drawn: a diagram of the model: nothing to compute",
    "figures 4.4": "figure 4.4 cannot be drawn: ",
    "run protocol=matthews2016 dataset=step": "is for classification and the task of step is regression",
    "run inference=iwvi": "needs an lv layer",
    "run model=linear likelihood=student_t": "is for GP models",
    "run dataset=strokes_images dataset.per_class=900": "to train; at most",
    "run inference=collapsed": "is for one GP behind latent variables",
    "run model.output_mixing=pixels": "needs GPs to mix; set model.output_gps",
    "run model=linear dataset=step paths.results=/proc/x": "results folder /proc/x; choose another",
    "run model=linear dataset=step paths.results=own.csv": "cannot write results in own.csv",
    "run --config-dir nowhere": "--config-dir nowhere is no folder",
    "run --config-dir shadow": "is named like a built-in model; rename it",
    f"{OWN}noconfig": "its __init__ must take the config, def __init__(self, cfg)",
    f"{OWN}nomethods": "lacks fit, predict, parameters, load_parameters",
    f"{OWN}broken": "KeyError: 'wdith' (models.py, line 12, in __init__)",
    f"{OWN}syntax": "SyntaxError: invalid syntax (wrong_syntax.py, line 1)",
    f"{OWN}raises": "ZeroDivisionError: division by zero (wrong_import.py, line 2",
    f"{OWN}absent": "cannot be imported (No module named 'not_there')",
    f"{CSV}none.csv dataset.target=y": "no such file",
    f"{CSV}conf dataset.target=y": "is a folder",
    f"{CSV}own.csv dataset.target=price": "dataset.target='price' is no column; allowed: a name (a, b, y)",
    f"{CSV}text.csv dataset.target=y": "line 3, column 1 ('a') is 'x', not a number",
    f"{CSV}gap.csv dataset.target=y": "line 3, column 1 ('a') is empty",
    f"{CSV}nan.csv dataset.target=y": "NaN and infinite values are not allowed",
    f"{CSV}short.csv dataset.target=y": "line 3: 2 columns where 3 are expected",
    f"{CSV}twice.csv dataset.target=a": "two columns are called 'a'",
    f"{CSV}empty.csv dataset.target=y": "is empty",
    f"{CSV}sheet.xlsx dataset.target=y": "sheet.xlsx: damaged file",
    f"{CSV}comma.csv dataset.target=y": "is '0,5', not a number: decimals are written with a point",
    f"{CSV}bare.csv dataset.target=2": "decimals are written with a point",
    f"{CSV}damaged.csv.gz dataset.target=y": "damaged gzip file",
    f"{CSV}no.parquet dataset.target=y": "not a Parquet file",
    "run dataset=csv": "dataset.path",
    "sweep model=sgp model=dgp2": "'model' is given twice; list its values: model=a,b",
    "sweep launcher=local,slurm": "one sweep has one launcher, tracker and results folder",
    "run tracker=mlfow": "unknown tracker 'mlfow'; did you mean 'mlflow'?",
    "run tracker.uri=x": "unknown key 'tracker.uri'",
    "run tracker=wandb tracker.mode=off": "tracker.mode=off is not allowed; did you mean 'offline'?",
    "sweep tracker=none,mlflow": "one sweep has one launcher, tracker and results folder",
    "sweep --retry never": "invalid choice: 'never'",
    "run model=linear inference=sghmc": "is fitted in closed form and has no use for inference=sghmc",
    "run model=gpr precision=float64": "model=gpr is fitted by lbfgs and has no use for precision=float64",
    "sweep model=linear,knn inference.batch=9": "has no use for inference.batch=9",
    "compare": "name what is to be compared",
    "compare model=linear dataset=step --metric logli": "no metric 'logli'; did you mean 'test_loglik'?",
    "compare model=linear dataset=step --metric accuracy": "test_accuracy is a metric of classes",
    "compare model=knn dataset=iris --metric rmse --run": "test_rmse is a metric of quantities",
    "compare model=linear dataset=step --format pdf": "invalid choice: 'pdf'",
    "compare model=linear dataset=step --plot dotz": "--plot dotz is no kind of picture; did you mean",
    "compare model=linear dataset=step --plot ranks --run -o own.csv": "cannot write own.csv",
    "compare model=linear dataset=step -o pictures": "-o is the folder of the plots; add --plot",
    "compare model=linear dataset=step --against sgp": "--against sgp is no column",
    "compare model=linear dataset=step split=99": "protocol clean has splits 0 to 19",
    "compare model=linear dataset=step --results nowhere": "no results folder nowhere",
    "compare model=linear dataset=step --config-dir nowhere": "--config-dir nowhere is no folder",
    "compare dataset.path=own.csv": "dataset.path belongs to a dataset; name it",
    "compare model=linear dataset=step --run protocol.scaling=train,all": "columns differ in protocol",
    "tune model=linear dataset=step budget.steps=5,6": "budget.steps cannot be tuned: it makes no difference",
    "tune model=knn dataset=step inference.batch=5,6": "inference.batch cannot be tuned",
    "tune dataset=step model.num_inducing=normal(0,1)": "a range is log(a,b), uniform(a,b) or int(a,b)",
    "tune dataset=step model.num_inducing=int(9,3)": "int(a,b) needs a below b",
    "tune dataset=step,energy model.num_inducing=5,6": "'dataset=step,energy' cannot be tuned",
    "tune dataset=step model.num_inducing=5,6 --trials 0": "at least one trial",
    "active model=linear dataset=step --select best": "no criterion 'best'; allowed: auto, entropy, random",
    "active model=linear dataset=step --metric auc": "they are {test,rest,seen,pool}_{loglik,rmse,accuracy}",
    "active model=linear dataset=step --initial 0": "at least one initial row",
    "active model=linear dataset=step --csv conf": "--csv conf is a folder; give a file",
    "active model=linear dataset=step --csv own.csv/x": "cannot write own.csv",
    "plot": "name a run",
    "plot nosuch": "'nosuch' is no run: give its folder",
    "plot dataset=step --kind curvs": "no kind 'curvs'; did you mean 'curves'?",
    "predict nowhere own.csv --quantiles 2": "--quantiles 2 is not allowed; give levels between 0 and 1",
    "predict nowhere own.csv -o own.csv/out.csv": "no folder own.csv",
    "predict nowhere own.csv -o /proc/x.csv": "cannot write /proc (",
    "show --config-dir nowhere": "--config-dir nowhere is no folder",
    "tables --config-dir nowhere": "--config-dir nowhere is no folder",
    "tables nosuch": "no table or dataset 'nosuch'",
    "figures 9.9": "no figure '9.9'",
    "figures layers": "name the runs whose layers to draw",
    "report -o own.csv": "cannot write own.csv",
    "merge own.csv": "own.csv is no export",
    "data show xqzw": "`dgpbench data list` shows all names",
    "completion nosuch": "invalid choice: 'nosuch'",
    "perf --seconds 0": "--seconds must be positive, not 0",
    "repro --budget x": "'x' is no length of time; write 2h, 90m",
    "tune model=sgp dataset=step": "nothing to tune",
    "run model=vgp inference.batch=10": "has no use for inference.batch=10; leave it out",
    "run model=gp model.frozen_steps=3": "frozen_steps",
    "run model=sgp inference=sgpmc model.priors.lengthscale=[gamma,-1,1]": "a positive number, not -1",
    "run model=sgp inference=sgpmc model.priors.lengthscale=[gamma,1e308,1]": "from 1e-06 to 1e+06",
    f"run model=sgp inference=sgpmc model.priors.lengthscale=[gamma,{10**400},1]": "from 1e-06 to 1e+06",
    "run model=sgp inference=sgpmc model.priors.lengthscale=[lognormal,-1e7,1]": "from -1e+06 to 1e+06",
    "run model=sgp inference=sgpmc model.priors=[gamma,1,1]": "name what [gamma,1,1] is for",
    "run model=gpr model.priors.lengthscale=[gamma,1,1]": "not for model=gpr; use model=gpmc",
    "run model=linear model.priors.lengthscale=[gamma,1,1]": "not for model=linear; use model=gpmc",
    f"run model=sgp model.lengthscale={10**400}": "must be a number above 0, or sqrt_dim",
    f"run model=sgp budget.steps={10**400}": "must be a whole number at least 1",
    "run model=sgp inference=sgpmc inference.burn_in=99 budget.steps=100": "set budget.steps to at least 101",
    "run model=sgp inference=sghmc inference.burn_in=99 budget.steps=99": "leaves no sample behind",
    f"{COUNTS}own.csv": "(row 0: 0.5); counts are whole numbers",
    f"{COUNTS}minus.csv": "(row 0: -1); counts are whole numbers",
    "run model=lv_gp_gp inference=joint precision=float64": "use inference=vi, iwvi or optimal",
    "run model=dgp2 inference=locations model.layer_overrides.0.num_inducing=20": "num_inducing alone",
    "run model=dgp2 inference=joint model.whiten=false precision=float64": "whiten=false is for inference=",
    "predict nowhere own.csv": "no run nowhere; give a run's folder",
    "show status=dnoe": "no status 'dnoe'; did you mean 'done'?",
    "show dataset": "is not of the form field=value",
    "show --results nowhere": "no results folder nowhere",
    "merge nowhere": "no folder nowhere",
    "data show enrgy": "did you mean energy",
    "rescore model=none": "no finished run",
    "sweep seed=range(0,1000000000)": "combinations are too many for one sweep; at most 1,000,000",
    "sweep model=sgp,dgp2 seed=range(0,600000)": "1,200,000 combinations are too many",
    "sweep split=range(3,0)": "'split=range(3,0)' holds no value; range(a,b) goes from a up to b - 1",
    "sweep split=range(0,3,0)": "holds no value",
    "sweep split=range(a,b)": "cannot read 'split=range(a,b)'; range(a,b) takes whole numbers",
    "sweep model=dgp2,": "cannot read 'model=dgp2,'; a list of values has no empty place",
    "sweep model=,dgp2": "cannot read 'model=,dgp2'; a list of values has no empty place",
    "run model.=3": "names are written like model or model.kernel",
    "run inference.adam.learning_rate=log(1e-3,1)": "log(...) is not known here: lists are a,b,c",
    "run model=wrapped model.wrapped=os.path dataset=step": "model.wrapped=os.path is no class",
    "run model=sgp model=dgp2": "'model' is given twice; keep one, or `dgpbench sweep model=a,b`",
    "run model.num_inducing=5 model.num_inducing=6": "'model.num_inducing' is given twice",
    "run dataset.path=own.csv": "it is a field of your own file, with dataset=csv",
    f"{CSV}own.csv dataset.target=7": "allowed: a name (a, b, y) or a number from 0 to 2",
    "run model=sgp dataset=step model.kernel=rbf@0:99": "@0:99 is outside the inputs, which are 0 to 0",
    "run model=sgp model.layer_overrides.7.kernel=rbf": "model.layer_overrides.7 names no layer",
    "run --help nosuch": "no help on 'nosuch'; allowed: budgets, datasets,",
    "compare model=linear dataset=step --plot ,": "--plot names no picture; give some of dots, ranks,",
    "compare model=linear dataset=step --metric ''": "--metric is empty; give it a value or leave it out",
    "tables S7 --against=": "--against is empty; give it a value or leave it out",
    "submit . --results own.csv": "own.csv is no folder; give --results a folder whose community/ can be",
    "show --export all.parquet --format csv": "--export writes whole records; leave --format, --each,",
    "tables --renew ''": "--renew is empty; give it a value or leave it out",
    "show ''": "an argument is empty; give it a value or leave it out; see `dgpbench show --help`",
    "tables \x1b[31mS7": "no table or dataset '\\x1b[31mS7'",
    "plot dataset=step --kind ,": "--kind names no picture; give some of curves,",
    "predict nowhere own.csv --quantiles ,": "--quantiles , is not allowed; give levels between 0 and 1",
    "active model=linear dataset=step --select ''": "--select is empty; give it a value or leave it out",
    "repro --budget 0h": "0h leaves no time to run anything; --dry-run lists what there is to do",
    "merge damaged.jsonl.gz": "cannot be read (Not a gzipped file (b'no')); restore the file, or make",
    "help nosuch": "unknown command 'nosuch'",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    with gzip.open(folder / "fine.csv.gz", "wt") as file:
        file.write(FILES["own.csv"])
    return folder


@pytest.fixture
def here(place, monkeypatch):
    for name in list(os.environ):
        if name.startswith("DGPBENCH_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(str(place))


def words(command: str) -> list[str]:
    return [word.strip("'") for word in command.split()]


def test_the_table_is_long_enough():
    assert len(TABLE) >= 60


@pytest.mark.parametrize("command", TABLE)
def test_one_clear_line_and_exit_code_2(here, capsys, command):
    code = cli.main(words(command))
    error = capsys.readouterr().err.splitlines()
    assert code == 2 and len(error) == 1, error
    assert error[0].startswith("dgpbench: error: ") and TABLE[command] in error[0]


def test_a_failing_model_names_its_line(here, capsys):
    assert cli.main(words(f"{OWN}fails")) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert "ZeroDivisionError: division by zero (models.py, line 17, in fit)" in last
    assert Path(last.rpartition("record: ")[2]).is_file()


@pytest.mark.parametrize(
    "command", ["run --cfg", "run --cfg job", "run --cfg model=dgp4", "run -c job -cd conf +model=fails"]
)
def test_what_hydra_users_type_works(here, capsys, command):
    assert cli.main(words(command)) == 0
    name = {"model=dgp4": "dgp4", "+model=fails": "fails"}.get(command.split()[-1], "dgp2")
    assert f"name: {name}\n" in capsys.readouterr().out


def test_run_m_is_sweep_and_experiments_may_be_added(here, capsys):
    assert cli.main(words("run -m model=linear dataset=step split=0,1 -q")) == 0
    assert "2 done" in capsys.readouterr().out
    assert cli.main(words("run --cfg +experiment=dsvi2017_sgp")) == 0
    assert "experiment: dsvi2017_sgp" in capsys.readouterr().out


def test_images_of_unequal_size(here, capsys):
    """Omniglot's two files, the second with an image that is one pixel too narrow."""
    import io
    import zipfile

    from PIL import Image

    folder = Path("datasets/omniglot_images")
    folder.mkdir(parents=True)
    for name, sizes in (("background", [(9, 9), (9, 9)]), ("evaluation", [(9, 9), (8, 9)])):
        with zipfile.ZipFile(folder / f"images_{name}.zip", "w") as archive:
            for i, size in enumerate(sizes, 1):
                png = io.BytesIO()
                Image.new("1", size, 1).save(png, "PNG")
                archive.writestr(f"images_{name}/{name}/character01/0001_{i:02d}.png", png.getvalue())
    assert cli.main(["run", "model=linear", "dataset=omniglot_images"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "character01/0001_02.png has 8 x 9 pixels" in line and "all images must have one size" in line
