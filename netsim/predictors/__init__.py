"""Predict the iterations of jobs from those of earlier jobs of the same group and user."""

from netsim.base.lazy import loading
from netsim.predictors.evaluation import Evaluation, evaluate, evaluation_table
from netsim.predictors.forecast import Forecast
from netsim.predictors.predictor import Guarded, Predictor
from netsim.predictors.registry import PREDICTORS, make_predictor

__all__ = ["PREDICTORS", "Evaluation", "Forecast", "Guarded", "Predictor", "evaluate",
           "evaluation_table", "make_predictor"]

__getattr__ = loading(__name__)
