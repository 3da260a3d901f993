"""Initial weights."""

from pfrl_like.initializers.chainer_default import init_chainer_default as init_chainer_default
from pfrl_like.initializers.lecun_normal import init_lecun_normal as init_lecun_normal
