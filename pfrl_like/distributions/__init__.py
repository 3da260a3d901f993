"""Probability distributions beside those of torch, and what agents ask of all of them."""

from pfrl_like.distributions import kl as kl
from pfrl_like.distributions.categorical import Categorical as Categorical
from pfrl_like.distributions.categorical import MaskedCategorical as MaskedCategorical
from pfrl_like.distributions.delta import Delta as Delta
from pfrl_like.distributions.delta import DeltaVector as DeltaVector
from pfrl_like.distributions.diagonal_gaussian import DiagonalGaussian as DiagonalGaussian
from pfrl_like.distributions.masked import masked as masked
from pfrl_like.distributions.parameters import detached as detached
from pfrl_like.distributions.parameters import parameters_of as parameters_of
from pfrl_like.distributions.parameters import rows_of as rows_of
from pfrl_like.distributions.parameters import with_parameters as with_parameters
from pfrl_like.distributions.product_of_categoricals import ProductOfCategoricals as ProductOfCategoricals
from pfrl_like.distributions.sampling import log_prob_and_entropy as log_prob_and_entropy
from pfrl_like.distributions.sampling import rsample_with_log_prob as rsample_with_log_prob
from pfrl_like.distributions.squashed_gaussian import SquashedGaussian as SquashedGaussian
from pfrl_like.utils.mode_of_distribution import mode_of_distribution as mode_of_distribution

#: `pfrl_like.utils.mode_of_distribution`, under a shorter name.
mode_of = mode_of_distribution
