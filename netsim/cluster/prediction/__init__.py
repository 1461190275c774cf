"""How many iterations a job will run for, by those of earlier jobs of its group and its user."""

from netsim.cluster.prediction.base import Guarded, Predictor
from netsim.cluster.prediction.evaluation import Evaluation, evaluate, evaluation_table
from netsim.cluster.prediction.forecast import Forecast
from netsim.cluster.prediction.registry import PREDICTORS, make_predictor
from netsim.lazy import loading

__all__ = ["PREDICTORS", "Evaluation", "Forecast", "Guarded", "Predictor", "evaluate",
           "evaluation_table", "make_predictor"]

__getattr__ = loading(__name__)
